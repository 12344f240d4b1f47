"""Section 6: a loss that sees overlap where there is none between pixels (Figures 10 and 11)."""

from __future__ import annotations

from functools import partial
from typing import Any

from untwine.arguments import Count
from untwine.experiments.engine.claims import Beyond
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Plan, experiment
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.measures import Computed
from untwine.experiments.michlo2023.drawn import of_levels, of_scores
from untwine.experiments.michlo2023.measured import learned
from untwine.experiments.michlo2023.models import (
    LEVELS,
    METHODS,
    SCORES,
    SMALL,
    TINY,
    Framework,
    Loss,
    caveats,
    scored,
    vae,
)
from untwine.train.run import Precision


@experiment(
    "michlo2023/fig10",
    claim="β-VAEs learn the ground-truth distances of XYSquares under the overlap loss, not under pixel-wise MSE",
    smoke={**TINY, "traversals": 1},
    small={**SMALL, "steps": 1_500, "traversals": 20},
)
def fig10(
    seeds: str = "0-4",
    steps: int = 57_600,
    betas: tuple[float, float] = (0.0316, 0.0001),
    latents: Count = 25,
    traversals: int = 100,
    batch_size: Count = 256,
    precision: Precision = "bfloat16",
    size: int = 64,
    network: str = "michlo64",
) -> Plan:
    """Distances along the factors of XYSquares at every level of β-VAEs, under the overlap loss and MSE (section 6.1).

    Models are Figure 11's. Which of its two betas belongs to which loss after tuning is not said: the larger is
    taken for the overlap, whose loss is larger, and the smaller for MSE, which needs a small one (section 5.3).
    """
    settings: dict[str, Any] = {"seeds": seeds, "steps": steps, "batch_size": batch_size, "precision": precision}
    losses: tuple[Loss, Loss] = ("overlap", "MSE")
    truth = {"against": "ground truth"}
    claims: list[Claim] = [
        # Half: the order of distances is then nearer to that of the ground truth than to none.
        Beyond(
            "the overlap loss perceives ground-truth distances",
            "agreement",
            {"loss": "overlap", "level": "perceived", **truth},
            bound=0.5,
        )
    ]
    claims += [
        Higher(
            f"{level} agree better with the ground truth under the overlap loss",
            "agreement",
            {"loss": "overlap"},
            {"loss": "MSE"},
            at={"level": level, **truth},
        )
        for level in LEVELS
    ]
    claims += [
        Beyond(
            f"overlap: distances of {level} agree with perceived distances",
            "agreement",
            {"loss": "overlap", "level": level, "against": "perceived"},
            bound=0.0,
        )
        for level in LEVELS
    ]
    return Plan(
        cases=[
            vae("XYSquares", "β-VAE", beta, latents, **settings, size=size, network=network, loss=loss)
            for loss, beta in zip(losses, betas, strict=True)
        ],
        measures=[Computed("learned distances", learned, {"traversals": traversals})],
        claims=claims,
        figures={
            f"fig10-{loss.lower()}": partial(
                of_levels, columns={"loss": loss}, traversals=traversals, title=f"XYSquares, {loss} loss"
            )
            for loss in losses
        },
        caveats=caveats(size=size),
    )


@experiment(
    "michlo2023/fig11",
    claim="an overlap loss makes β-VAE and Ada-GVAE disentangle XYSquares, which pixel-wise MSE does not",
    smoke={**TINY, "betas": (0.0001,), "points": 80},
    small={**SMALL, "steps": 1_500, "points": 4_000},
)
def fig11(
    seeds: str = "0-4",
    steps: int = 57_600,
    frameworks: tuple[Framework, ...] = tuple(METHODS),
    losses: tuple[Loss, ...] = ("MSE", "overlap"),
    betas: tuple[float, ...] = (0.0001, 0.0316),
    latents: Count = 25,
    batch_size: Count = 256,
    precision: Precision = "bfloat16",
    size: int = 64,
    network: str = "michlo64",
    points: Count | None = None,
) -> Plan:
    """MIG and DCI disentanglement on XYSquares with MSE and with the overlap loss (Eq. 11, section 6.1, Table A4).

    The blur is a box of 63 x 63 pixels, its weight 63^2. Compared is each seed's best model over both betas.
    """
    settings: dict[str, Any] = {"seeds": seeds, "steps": steps, "batch_size": batch_size, "precision": precision}
    return Plan(
        cases=[
            vae("XYSquares", framework, beta, latents, **settings, size=size, network=network, loss=loss)
            for framework in frameworks
            for loss in losses
            for beta in betas
        ],
        measures=[scored(points)],
        claims=[
            Higher(
                f"{framework}: {name} is higher with the overlap loss",
                score,
                {"loss": "overlap"},
                {"loss": "MSE"},
                at={"framework": framework},
                best=True,
            )
            for framework in frameworks
            for score, name in SCORES.items()
        ],
        figures={
            f"fig11-{METHODS[framework].__name__}": partial(of_scores, by="loss", framework=framework)
            for framework in frameworks
        },
        caveats=caveats(size=size),
    )
