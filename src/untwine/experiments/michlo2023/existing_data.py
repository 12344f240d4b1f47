"""Sections 2 to 4: what VAEs perceive of existing datasets, and learn (Figures 1 to 4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from untwine import methods
from untwine.arguments import Count
from untwine.experiments.engine.claims import Beyond, Trend
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Fact, Plan, case, experiment
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.measures import Computed
from untwine.experiments.michlo2023.drawn import of_data, of_levels, of_matrices, of_posteriors, of_traversals
from untwine.experiments.michlo2023.measured import agreements, by_steps, learned, mistakes
from untwine.experiments.michlo2023.models import (
    BENCHMARKS,
    DATA,
    LEVELS,
    QUICK,
    SMALL,
    SMALLER,
    SQUARES,
    Data,
    caveats,
    vae,
)
from untwine.report import figures
from untwine.train.run import Precision, Run
from untwine.train.seeds import parse_seeds


@experiment(
    "michlo2023/fig1",
    claim="the stronger the regularisation, the more samples are taken for other inputs, and these are similar ones",
    smoke={"seeds": "0-1", "steps": 3, "draws": 2},
    small={"seeds": "0-2", "steps": 3_000},
)
def fig1(
    seeds: str = "0-4",
    steps: int = 5_000,
    betas: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0),
    draws: int = 20,
) -> Plan:
    """Figure 1 is a drawing of posteriors that overlap little or much (section 2.1); here it is measured.

    A VAE with two latents learns the 64 positions of one dot. A sample z of a posterior q(z | a) is taken for the
    state b whose posterior has the largest density at z, as the best decoder takes it. With a weak KL nearly every
    sample is taken for its own state, as in a lookup table; with a strong one many are not, and then b should look
    like a: the perceived distance of a and b is given in units of that of random pairs. Nothing of this setting is
    the paper's.
    """
    dataset = {"name": "three_dots", "size": 16, "dots": 1, "positions": 8, "radius": 0.2, "examples": 2_000}
    settings: dict[str, Any] = {
        "dataset": dataset,
        "network": {"name": "mlp", "hidden": [64]},
        "latents": 2,
        "lr": 1e-3,
    }
    return Plan(
        cases=[
            case(
                Run(
                    methods.beta_vae(beta, likelihood="squared-error"),
                    **settings,
                    seeds=seeds,
                    steps=steps,
                    batch_size=64,
                ),
                beta=beta,
            )
            for beta in betas
        ],
        measures=[Computed("mistakes", mistakes, {"draws": draws})],
        claims=[
            Trend("stronger regularisation leads to more mistakes", "mistakes", "beta"),
            Beyond(
                "samples are mistaken for similar inputs, closer than random ones",
                "distance of mistakes",
                {"beta": betas[-1]},
                bound=1.0,
                above=False,
            ),
        ],
        figures={
            "fig1": partial(of_posteriors, betas=betas),
            "mistakes": lambda outcome: figures.lines(outcome.rows, x="beta", log=True, labels={"beta": "β (nats)"}),
        },
        caveats=["Figure 1 is a drawing without numbers: the model that is measured here is our own choice."],
    )


@experiment(
    "michlo2023/fig2",
    claim="along a factor of a common dataset, images overlap the more the closer their values are",
    smoke={"datasets": ("dSprites",), "traversals": 1},
)
def fig2(datasets: tuple[Data, ...] = BENCHMARKS, traversals: int = 100, rendered: bool = True) -> Plan:
    """Traversals of each factor of the common datasets, and how perceived distances grow with the steps between values.

    Section 4: a traversal along the scale of 3D Shapes can be put in order, since shapes that are closer in size
    overlap more. The distances are means over random traversals, whose number the paper does not give.
    """
    text = "{}: the closer two scales, the smaller their perceived distance"
    scaled: list[Data] = [name for name in datasets if name in ("3D Shapes", "dSprites")]
    return Plan(
        facts=[
            Fact("distance by steps", by_steps, {"name": n, "rendered": rendered, "traversals": traversals})
            for n in datasets
        ],
        claims=[Trend(text.format(n), "distance", "steps", {"dataset": n, "factor": "scale"}) for n in scaled],
        figures={
            **{f"fig2-{DATA[name][0]}": of_data(of_traversals, name, rendered) for name in datasets},
            "distances": lambda outcome: figures.lines(outcome.rows, x="steps", by="factor", panels="dataset"),
        },
        caveats=caveats(rendered),
    )


@experiment(
    "michlo2023/fig3",
    claim="perceived distances along the factors of common datasets agree with ground-truth distances",
    smoke={"datasets": ("dSprites",), "seeds": "0-2", "traversals": 1},
)
def fig3(
    datasets: tuple[Data, ...] = BENCHMARKS,
    seeds: str = "0-4",
    traversals: int = 100,
    wrap: bool = False,
    rendered: bool = True,
) -> Plan:
    """Mean distance matrices along every factor (Eqs. 5, 7 and 10), and Spearman's correlation of both kinds.

    Each seed has its own random traversals, whose number the paper does not give. Ground-truth distances are L1
    between indices, also for cyclic and unordered factors, as in Eq. 5; wrap=true goes the shorter way round.
    Section 5 says that Cars3D already has an incorrect order, which may explain its lower scores.
    """
    facts: list[Mapping[str, Any]] = [
        {"name": n, "rendered": rendered, "traversals": traversals, "seeds": seeds, "wrap": wrap} for n in datasets
    ]
    others = [name for name in datasets if name != "Cars3D"]
    claims: list[Claim] = [
        Beyond(
            f"{n}: perceived distances agree with the ground truth", "agreement", {"dataset": n, "factor": "all"}, 0.0
        )
        for n in others
    ]
    cars = {"dataset": "Cars3D"}
    claims += [
        Higher(f"{n} agrees better than Cars3D", "agreement", {"dataset": n}, cars, at={"factor": "all"})
        for n in others
        if "Cars3D" in datasets
    ]
    first = parse_seeds(seeds)[0]
    return Plan(
        facts=[Fact("agreement of distances", agreements, arguments) for arguments in facts],
        claims=claims,
        figures={f"fig3-{DATA[n][0]}": of_data(of_matrices, n, rendered, traversals, first, wrap) for n in datasets},
        caveats=caveats(rendered),
    )


@experiment(
    "michlo2023/fig4",
    claim="β-VAEs learn the perceived distances of their data at all levels of the network",
    smoke={**QUICK, "datasets": SQUARES, "seeds": "0", "traversals": 1},
    small={
        **SMALL,
        "datasets": ("dSprites",),
        "network": SMALLER,
        "seeds": "0-4",
        "steps": 2_500,
        "traversals": 20,
    },
)
def fig4(
    seeds: str = "0-4",
    steps: int = 115_200,
    datasets: tuple[Data, ...] = ("Cars3D", "dSprites"),
    beta: float = 0.01,
    latents: Count = 9,
    traversals: int = 100,
    batch_size: Count = 256,
    precision: Precision = "bfloat16",
    rendered: bool = True,
    size: int = 64,
    network: str | dict[str, Any] = "michlo64",
) -> Plan:
    """Distances along each factor at every level of β-VAEs on Cars3D, and their agreement with what the loss perceives.

    Section 4.4 gives no settings of this model: it is one of Figure 6's sweep. Where Cars3D's file is missing, dSprites
    stands in its place. Agreement is Spearman's correlation of the mean matrices, on average over factors. A network
    keeps some of the distances between images before it learns anything: models after one step are the control.
    """
    settings: dict[str, Any] = {"seeds": seeds, "batch_size": batch_size, "precision": precision, "rendered": rendered}
    settings |= {"size": size, "network": network}
    trainings = {"trained": steps, "untrained": 1}
    cases = [
        case(model.run, **model.columns, training=training)
        for name in datasets
        for training, count in trainings.items()
        for model in [vae(name, "β-VAE", beta, latents, steps=count, **settings)]
    ]
    perceived = {"against": "perceived"}
    claims: list[Claim] = [
        Beyond(
            f"{name}: distances of {level} agree with perceived distances",
            "agreement",
            {"dataset": name, "training": "trained", "level": level, **perceived},
            bound=0.0,
        )
        for name in datasets
        for level in LEVELS
    ]
    claims += [
        Higher(
            f"{name}: {level} agree better than those of an untrained network",
            "agreement",
            {"training": "trained"},
            {"training": "untrained"},
            at={"dataset": name, "level": level, **perceived},
        )
        for name in datasets
        for level in LEVELS
    ]
    return Plan(
        cases=cases,
        measures=[Computed("learned distances", learned, {"traversals": traversals})],
        claims=claims,
        figures={
            f"fig4-{DATA[name][0]}": partial(
                of_levels,
                columns={"dataset": name, "training": "trained"},
                traversals=traversals,
                title=f"β-VAEs on {name}",
            )
            for name in datasets
        },
        caveats=[*caveats(rendered, size), "The paper shows one model on Cars3D; dSprites is our addition."],
    )
