"""Figures 1, 8, 9 and 10: natural patches."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import untwine as uw
from untwine.arguments import Count
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Case, Fact, Outcome, Plan, case, experiment
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.measures import Computed, Logged
from untwine.experiments.engine.rows import Row
from untwine.experiments.rhodes2021.published import BETA_VAE, JL1
from untwine.experiments.rhodes2021.runs import estimator_caveats
from untwine.experiments.rhodes2021.where import draw_columns, first_columns, spread
from untwine.train.run import Precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PCA, ICA = "PCA", "ICA"
COMPONENTS, SHOWN = 100, 20
WORDS = {"spread": "spread over the patch (1: all of it alike)"}
SMALL: dict[str, Any] = {"source": "scikit-learn", "network": "mlp", "steps": 5_000, "anneal": 2_500}
SMOKE: dict[str, Any] = {"source": "scikit-learn", "crops": 100, "seeds": "0-1", "steps": 2, "anneal": 1, "images": 2}
COLLAPSED = (
    "patches have so little contrast that most JL1-VAEs collapse at these weights: a decoder that ignores its latents "
    "has no columns to compare"
)
MEASURED = "The paper judges by the picture; the spread of a column's energy is ours."


def patches(source: str, crops: int) -> dict[str, Any]:
    """The spec of natural patches, with so many crops of each picture."""
    return {"name": "natural_patches", "source": source, "examples": crops}


def source_caveats(source: str) -> list[str]:
    """A sentence that says which pictures were cropped; none if they are the paper's."""
    others = {"scikit-learn": "the two photographs that come with scikit-learn"}
    named = others.get(source, f"the photographs in {source!r}")
    return [] if source == "olshausen" else [f"Crops of {named}, whitened, in place of those of Olshausen & Field."]


def network_caveats(network: str) -> list[str]:
    """A sentence that says that the network is another; none for the paper's."""
    return [] if network == "rhodes16" else ["A dense network in place of the paper's convolutions."]


def pair(
    latents: int,
    source: str,
    crops: int,
    seeds: str,
    steps: int,
    anneal: int,
    beta: float,
    gamma: float,
    columns: int | None,
    eps: float,
    lr: float,
    precision: Precision,
    network: str,
) -> list[Case]:
    """β-VAE and JL1-VAE on natural patches (appendix C); the arguments are those of `fig1`."""
    settings: dict[str, Any] = dict(latents=latents, seeds=seeds, steps=steps, batch_size=128, lr=lr)
    settings |= dict(optimiser="adam", sampling="epochs", precision=precision)
    sparse = uw.methods.jl1_vae(beta=beta, gamma=gamma, anneal=anneal, columns=columns, eps=eps)
    methods = {BETA_VAE: uw.methods.beta_vae(beta=beta, anneal=anneal), JL1: sparse}
    data = patches(source, crops)
    return [case(uw.Run(method, data, network, **settings), method=name) for name, method in methods.items()]


@functools.cache
def components(source: str, crops: int, count: int) -> dict[str, np.ndarray]:
    """The principal and the independent components of natural patches, `[count, 16, 16]` by the method's name."""
    examples = uw.datasets.natural_patches(source=source, examples=crops).examples()
    both = uw.analysis.principal_components(examples, count), uw.analysis.independent_components(examples, count)
    return {PCA: both[0][:, 0], ICA: both[1][:, 0]}


def component_spread(source: str, crops: int, count: int, shown: int) -> list[Row]:
    """The spread of the first components of each method, a row for each."""
    return [
        {"method": method, "component": i, "measure": "spread", "value": float(value)}
        for method, images in components(source, crops, count).items()
        for i, value in enumerate(uw.analysis.column_spread(images[:shown, None]))
    ]


def wider(first: str, second: str) -> Claim:
    """That one method's columns reach further over the patch than another's."""
    text = f"{first} reaches further over the patch than {second}"
    return Higher(text, "spread", {"method": first}, {"method": second})


def draw_all(outcome: Outcome, source: str, crops: int, count: int) -> Figure:
    """Twenty components of PCA and ICA, and the ten columns of both models at a patch (Figure 1)."""
    linear = components(source, crops, count)
    rows = [linear[method][i : i + 10] for method in (PCA, ICA) for i in (0, 10)]
    rows += [first_columns(outcome.trained(method=method), "patches", 10)[1][:, 0] for method in (BETA_VAE, JL1)]
    labels = [PCA, "", ICA, "", BETA_VAE, JL1]
    return uw.figures.images(np.stack(rows), row_labels=labels, symmetric=True, scale="each")


@experiment(
    "rhodes2021/fig1",
    claim="columns of JL1-VAE and ICA are local, those of β-VAE and PCA reach over all of the patch",
    smoke={**SMOKE, "count": SHOWN},
    small=SMALL,
    hidden={"small": COLLAPSED},
)
def fig1(
    source: str = "olshausen",
    crops: Count = 10_000,
    seeds: str = "0-4",
    steps: Count = 100_000,
    anneal: Count = 50_000,
    beta: float = 0.01,
    gamma: float = 0.01,
    columns: Count | None = 1,
    eps: float = 0.1,
    lr: float = 1e-3,
    precision: Precision = "float32",
    network: Literal["rhodes16", "mlp"] = "rhodes16",
    images: Count = 100,
    count: Count = COMPONENTS,
) -> Plan:
    """Jacobian columns of β-VAE and JL1-VAE on natural patches beside components of PCA and ICA (section 6.1).

    The twenty largest principal components, twenty of a hundred independent ones, and ten columns each (appendix C).
    The paper shows one model of each; here are five, so that there is something to test.
    """
    facts: dict[str, Any] = dict(source=source, crops=crops, count=count)
    return Plan(
        cases=pair(10, source, crops, seeds, steps, anneal, beta, gamma, columns, eps, lr, precision, network),
        measures=[Computed("spread", spread, dict(images=images)), Logged(["reconstruction"])],
        facts=[Fact("component spread", component_spread, {**facts, "shown": SHOWN})],
        claims=[wider(BETA_VAE, JL1), wider(PCA, ICA), wider(PCA, JL1)],
        figures={
            "fig1": lambda outcome: draw_all(outcome, **facts),
            "spread": lambda outcome: uw.figures.boxes(outcome.rows.where(measure="spread"), by="method", labels=WORDS),
        },
        caveats=[*source_caveats(source), *network_caveats(network), *estimator_caveats(columns, eps), MEASURED],
    )


def _with_latents(latents: int, source: str, crops: int, images: int, *rest: Any) -> Plan:
    """The columns of both methods with another number of latents."""
    columns, eps, _, _, network = rest[5:]
    return Plan(
        cases=pair(latents, source, crops, *rest),
        measures=[Computed("spread", spread, dict(images=images)), Logged(["reconstruction"])],
        claims=[wider(BETA_VAE, JL1)],
        figures={
            "columns": lambda outcome: draw_columns(outcome, "patches", [BETA_VAE, JL1], limits=None),
            "spread": lambda outcome: uw.figures.boxes(outcome.rows.where(measure="spread"), by="method", labels=WORDS),
        },
        caveats=[*source_caveats(source), *network_caveats(network), *estimator_caveats(columns, eps), MEASURED],
    )


@experiment(
    "rhodes2021/fig8",
    claim="with 5 latents, too, columns of JL1-VAE are local and those of β-VAE are not",
    smoke=SMOKE,
    small=SMALL,
    hidden={"small": COLLAPSED},
)
def fig8(
    source: str = "olshausen",
    crops: Count = 10_000,
    seeds: str = "0-4",
    steps: Count = 100_000,
    anneal: Count = 50_000,
    beta: float = 0.01,
    gamma: float = 0.01,
    columns: Count | None = 1,
    eps: float = 0.1,
    lr: float = 1e-3,
    precision: Precision = "float32",
    network: Literal["rhodes16", "mlp"] = "rhodes16",
    images: Count = 100,
) -> Plan:
    """Figure 1's models with 5 latents (final appendix, C)."""
    rest = (seeds, steps, anneal, beta, gamma, columns, eps, lr, precision, network)
    return _with_latents(5, source, crops, images, *rest)


@experiment(
    "rhodes2021/fig9",
    claim="with 25 latents, too, columns of JL1-VAE are local and those of β-VAE are not",
    smoke=SMOKE,
    small=SMALL,
    hidden={"small": COLLAPSED},
)
def fig9(
    source: str = "olshausen",
    crops: Count = 10_000,
    seeds: str = "0-4",
    steps: Count = 100_000,
    anneal: Count = 50_000,
    beta: float = 0.01,
    gamma: float = 0.01,
    columns: Count | None = 1,
    eps: float = 0.1,
    lr: float = 1e-3,
    precision: Precision = "float32",
    network: Literal["rhodes16", "mlp"] = "rhodes16",
    images: Count = 100,
) -> Plan:
    """Figure 1's models with 25 latents (final appendix, C)."""
    rest = (seeds, steps, anneal, beta, gamma, columns, eps, lr, precision, network)
    return _with_latents(25, source, crops, images, *rest)


@experiment(
    "rhodes2021/fig10",
    claim="independent components of natural patches are local, principal ones are not",
    smoke={"source": "scikit-learn", "crops": 100, "count": SHOWN},
    small={"source": "scikit-learn"},
)
def fig10(source: str = "olshausen", crops: Count = 10_000, count: Count = COMPONENTS) -> Plan:
    """A hundred principal and a hundred independent components of natural patches (final appendix, C)."""

    def draw(method: str) -> Any:
        def grid(outcome: Outcome) -> Figure:
            images = components(source, crops, count)[method]
            across = min(10, count)
            return uw.figures.images(
                images[: count // across * across].reshape(-1, across, *images.shape[1:]), symmetric=True, scale="each"
            )

        return grid

    return Plan(
        facts=[Fact("component spread", component_spread, dict(source=source, crops=crops, count=count, shown=count))],
        claims=[wider(PCA, ICA)],
        figures={
            "pca": draw(PCA),
            "ica": draw(ICA),
            "spread": lambda outcome: uw.figures.boxes(outcome.rows, by="method", labels=WORDS),
        },
        caveats=[*source_caveats(source), MEASURED],
    )
