"""The numbers of the paper's figures, read off the authors' plots, and the names that rows have."""

from __future__ import annotations

from untwine.experiments.engine.rows import Row

BETA_VAE, JL1, JL2 = "β-VAE", "JL1-VAE", "JL2-VAE"
MEASURES = ("local_mig", "local_modularity")
WORDS = {"local_mig": "local MIG", "local_modularity": "local modularity", "rho": "ρ"}
GAMMAS = (0.05, 0.1, 0.2, 0.4)

# Two scores are alike if they differ by less than a third of what JL1-VAE is above β-VAE at rho = .1 in Figure 4: .071
# of local MIG and .053 of local modularity. At rho = 1 local MIG is .005: there a tenth of that lead is the margin.
ALIKE = {"local_mig": 0.02, "local_modularity": 0.0175}
ALIKE_GLOBALLY = {"local_mig": 0.007, "local_modularity": 0.0175}

_RHO = (0.1, 0.2, 0.3, 0.6, 1.0)
_FIGURE4 = {  # by rho, means of ten models
    (BETA_VAE, "local_mig"): (0.054, 0.035, 0.023, 0.010, 0.005),
    (JL1, "local_mig"): (0.125, 0.072, 0.049, 0.019, 0.006),
    (BETA_VAE, "local_modularity"): (0.888, 0.864, 0.826, 0.714, 0.44),
    (JL1, "local_modularity"): (0.941, 0.913, 0.893, 0.796, 0.45),
}
FIGURE4: list[Row] = [
    {"method": method, "rho": rho, "measure": measure, "value": value}
    for (method, measure), values in _FIGURE4.items()
    for rho, value in zip(_RHO, values, strict=True)
]

_FIGURE5 = {  # local MIG and local modularity at rho = .1, medians of ten models
    JL1: (0.123, 0.942),
    BETA_VAE: (0.062, 0.897),
    "FactorVAE": (0.037, 0.859),
    "DIP-VAE-I": (0.081, 0.918),
    "DIP-VAE-II": (0.053, 0.887),
    "β-TCVAE": (0.058, 0.894),
    "AnnealedVAE": (0.022, 0.843),
}
FIGURE5: list[Row] = [
    {"method": method, "rho": 0.1, "measure": measure, "value": value}
    for method, values in _FIGURE5.items()
    for measure, value in zip(MEASURES, values, strict=True)
]

# Local MIG of JL1-VAE at rho = .1 by gamma. Every JL2-VAE has .051 to .055, which says nothing of a single gamma.
FIGURE7: list[Row] = [
    {"method": JL1, "gamma": gamma, "model": f"{JL1} ({gamma:g})", "rho": 0.1, "measure": "local_mig", "value": value}
    for gamma, value in zip(GAMMAS, (0.112, 0.125, 0.127, 0.130), strict=True)
]
