"""Figures 2, 4, 5, 6 and 7: three-dots."""

from __future__ import annotations

import untwine as uw
from untwine.arguments import Count
from untwine.experiments.engine.claims import Near
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Plan, case, experiment
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.measures import Computed
from untwine.experiments.rhodes2021.published import (
    ALIKE,
    ALIKE_GLOBALLY,
    BETA_VAE,
    FIGURE4,
    FIGURE5,
    FIGURE7,
    GAMMAS,
    JL1,
    JL2,
    MEASURES,
    WORDS,
)
from untwine.experiments.rhodes2021.runs import (
    NO_SMALLEST,
    RADII,
    SHARED_ORDER,
    SMALL,
    SMALL_SCORES,
    SMOKE,
    SMOKE_SCORES,
    Size,
    alike,
    boxes,
    dots_run,
    estimator_caveats,
    higher,
    lines,
    pair,
    scored,
    share_of_pixels,
    size_caveats,
    to_size,
)
from untwine.experiments.rhodes2021.where import draw_columns, share_in_one
from untwine.train.run import Precision


@experiment(
    "rhodes2021/fig2",
    claim="JL1-VAE's largest Jacobian columns move single dots, those of a β-VAE several",
    smoke={**SMOKE, "images": 4},
    small=SMALL,
)
def fig2(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gamma: float = 0.1,
    columns: Count | None = 1,
    eps: float = 0.1,
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    images: Count = 64,
    largest: Count | None = 6,
) -> Plan:
    """The six largest Jacobian columns of β-VAE and JL1-VAE at an image of three dots (section 6.1).

    The paper shows one model of each. Here the first of ten models is shown, and of all of them the share of a column's
    energy at one dot is measured. The settings are those of appendix B.
    """
    text = "a column of JL1-VAE has more of its energy at a single dot than that of a β-VAE"
    where = Computed("share in one", share_in_one, dict(places="dots", images=images, largest=largest))
    words = {"share_in_one": "share of a column's energy at one dot"}
    return Plan(
        cases=pair(seeds, steps, anneal, beta, gamma, columns, eps, size, lr, precision),
        measures=[where],
        claims=[Higher(text, "share_in_one", {"method": JL1}, {"method": BETA_VAE})],
        figures={
            "columns": lambda outcome: draw_columns(outcome, "dots", [BETA_VAE, JL1], largest),
            "shares": lambda outcome: uw.figures.boxes(outcome.rows, by="method", labels=words),
        },
        caveats=[
            *size_caveats(size),
            *estimator_caveats(columns, eps),
            "The paper judges by the picture. The share of a column's energy at the dot on which it acts most is ours, "
            f"over {images} images whose dots lie apart.",
        ],
    )


@experiment(
    "rhodes2021/fig6",
    claim="all ten columns of Figure 2: single dots for JL1-VAE, several for β-VAE",
    smoke={**SMOKE, "images": 4},
    small=SMALL,
)
def fig6(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gamma: float = 0.1,
    columns: Count | None = 1,
    eps: float = 0.1,
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    images: Count = 64,
) -> Plan:
    """All Jacobian columns of the models of Figure 2 (appendix B)."""
    rest = (beta, gamma, columns, eps, size, lr, precision, images)
    return fig2.function(seeds, steps, anneal, *rest, largest=None)


@experiment(
    "rhodes2021/fig4",
    claim="JL1-VAE is locally more disentangled than β-VAE; globally they are alike",
    smoke={**SMOKE, **SMOKE_SCORES},
    small={**SMALL, **SMALL_SCORES},
)
def fig4(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gamma: float = 0.1,
    columns: Count | None = 1,
    eps: float = 0.1,
    every: Count = 1,
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    rho: tuple[float, ...] = RADII,
    windows: Count = 20,
    points: Count = 10_000,
) -> Plan:
    """Local MIG and local modularity against the radius rho, ten models of each method (section 6.2).

    20 windows of 10,000 points, histograms of 5 bins. The text's rho of .01 leaves every factor constant.
    """
    first, second = {"method": JL1}, {"method": BETA_VAE}
    claims = [
        claim for r in rho if r < 1 for claim in higher(f"of JL1-VAE is higher at ρ = {r:g}", first, second, rho=r)
    ]
    claims += alike("is the same at ρ = 1", first, second, ALIKE_GLOBALLY, rho=1.0)
    claims += [
        Near(f"{WORDS[measure]} of {method} at ρ = .1", measure, {"method": method, "rho": 0.1}, ALIKE[measure])
        for measure in MEASURES
        for method in (BETA_VAE, JL1)
        if size == 64
    ]
    return Plan(
        cases=pair(seeds, steps, anneal, beta, gamma, columns, eps, size, lr, precision, every),
        measures=scored(rho, windows, points),
        claims=claims,
        published=FIGURE4 if size == 64 else [],
        figures={"fig4": lambda outcome: lines(outcome, "method")},
        caveats=[*size_caveats(size), *estimator_caveats(columns, eps, every), NO_SMALLEST, SHARED_ORDER],
    )


# The name of each baseline's method, and how many of disentanglement_lib's steps are one update of the model.
BASELINES = {
    BETA_VAE: ("beta_vae", 1),
    "FactorVAE": ("factor_vae", 2),
    "DIP-VAE-I": ("dip_vae_i", 1),
    "DIP-VAE-II": ("dip_vae_ii", 1),
    "β-TCVAE": ("beta_tcvae", 1),
    "AnnealedVAE": ("annealed_vae", 1),
}


@experiment(
    "rhodes2021/fig5",
    claim="at ρ = .1 JL1-VAE has higher local MIG and local modularity than six baselines",
    smoke={**SMOKE, **SMOKE_SCORES, "discriminator": 16},
    small={**SMALL, **SMALL_SCORES, "seeds": "0-3", "discriminator": 200},
)
def fig5(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gamma: float = 0.1,
    columns: Count | None = 1,
    eps: float = 0.1,
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    rho: tuple[float, ...] = (0.1,),
    windows: Count = 20,
    points: Count = 10_000,
    discriminator: Count = 1000,
) -> Plan:
    """Local scores of JL1-VAE and of six baselines, in the setting that these were trained with (section 6.2).

    JL1-VAE's models are those of Figure 4. The baselines have disentanglement_lib's network and initial weights,
    batches by epochs, no ramp of beta, and the settings of appendix B, which are our defaults: beta 4 (β-VAE and
    β-TCVAE), gamma 30 (FactorVAE), lambdas 5 and 50 (DIP-I), 5 and 5 (DIP-II), C = 25 with gamma 1000 (annealed). That
    library counts the updates of FactorVAE's discriminator as steps, so that the model has half as many. For smaller
    pictures all these weights shrink with the number of pixels, `beta` of β-VAE excepted, which is that of JL1-VAE.
    """
    arguments = {
        BETA_VAE: {"beta": beta / share_of_pixels(size)},  # `to_size` makes it beta again
        "FactorVAE": {"hidden": discriminator},
        "AnnealedVAE": {"anneal": anneal},
    }
    cases = [pair(seeds, steps, anneal, beta, gamma, columns, eps, size, lr, precision)[1]]
    for label, (name, counted) in BASELINES.items():
        method = to_size(uw.methods.get(name)(**arguments.get(label, {})), size)
        cases.append(
            case(dots_run(method, size, seeds, steps // counted, lr, precision, network="locatello64"), method=label)
        )
    return Plan(
        cases=cases,
        measures=scored(rho, windows, points),
        claims=[
            claim
            for label in BASELINES
            for claim in higher(f"of JL1-VAE is higher than of {label}", {"method": JL1}, {"method": label}, rho=0.1)
        ],
        published=FIGURE5 if size == 64 else [],
        figures={"fig5": lambda outcome: boxes(outcome, "method")},
        caveats=[
            *size_caveats(size),
            *estimator_caveats(columns, eps),
            SHARED_ORDER,
            "The paper's numbers are medians, ours are means.",
            "The appendix says 4x4 kernels; the authors' code has 2x2 in the third and fourth layer, and so have we.",
        ],
    )


_SMALL7 = {key: value for key, value in SMALL.items() if key != "gamma"} | {"steps": 4_000, "anneal": 4_000}
_SMOKE7 = {key: value for key, value in SMOKE.items() if key != "gamma"}


@experiment(
    "rhodes2021/fig7",
    claim="JL1-VAE beats β-VAE for every γ; with a squared L2 norm in its place nothing is gained",
    smoke={**_SMOKE7, **SMOKE_SCORES, "gammas": (0.05, 0.1)},
    small={**_SMALL7, **SMALL_SCORES, "gammas": (0.1, 0.2)},
)
def fig7(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gammas: tuple[float, ...] = GAMMAS,
    columns: Count | None = 1,
    eps: float = 0.1,
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    rho: tuple[float, ...] = RADII,
    windows: Count = 20,
    points: Count = 10_000,
) -> Plan:
    """Local scores against rho, for several weights of the Jacobian's L1 and squared L2 norm (final appendix, B).

    β-VAE and JL1-VAE with gamma = .1 are the models of Figure 4.
    """
    rest = (size, seeds, steps, lr, precision)
    cases = [case(dots_run(uw.methods.beta_vae(beta=beta, anneal=anneal), *rest), method=BETA_VAE, model=BETA_VAE)]
    claims: list[Claim] = []
    plain = {"method": BETA_VAE}
    for label, method in ((JL1, uw.methods.jl1_vae), (JL2, uw.methods.jl2_vae)):
        for gamma in gammas:
            objective = method(beta=beta, gamma=gamma, anneal=anneal, columns=columns, eps=eps)
            own = {"method": label, "gamma": gamma}
            cases.append(case(dots_run(objective, *rest), **own, model=f"{label} ({gamma:g})"))
            text = f"of {label} with γ = {gamma:g} is"
            claims += (
                higher(f"{text} higher than of β-VAE", own, plain, rho=0.1)
                if label == JL1
                else alike(f"{text} that of β-VAE", own, plain, ALIKE, rho=0.1)
            )
    theirs = [{**row, "model": BETA_VAE} for row in FIGURE4 if row["method"] == BETA_VAE]
    return Plan(
        cases=cases,
        measures=scored(rho, windows, points),
        claims=claims,
        published=[*theirs, *FIGURE7] if size == 64 else [],
        figures={"fig7": lambda outcome: lines(outcome, "model")},
        caveats=[*size_caveats(size), *estimator_caveats(columns, eps), NO_SMALLEST, SHARED_ORDER],
    )
