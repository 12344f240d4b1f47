"""Figures 4 and 5: sparse codes of Fashion-MNIST (section 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine import analysis
from untwine import vocabulary as uw
from untwine.arguments import Count
from untwine.experiments.engine.claims import Trend
from untwine.experiments.engine.comparisons import Higher, NotHigher
from untwine.experiments.engine.contract import Outcome, Plan, Trained, case, experiment
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.measures import Computed, Logged, Scored
from untwine.experiments.engine.rows import Row
from untwine.methods.mathieu2019 import decomposition_vae
from untwine.report import figures
from untwine.train.run import Precision, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spec = Mapping[str, Any]

SPARSITY = "hoyer"
FASHION = {"name": "fashion_mnist", "size": 32}
SMALL_DOTS = {"name": "three_dots", "size": 32, "positions": 10, "examples": 100}  # the first factor stands for a class
CLASSES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
NORMALISED = (
    "The authors' network has BatchNorm, ours GroupNorm; they read off the posterior's deviation by a softplus, we by "
    "an exponential."
)


def _sparse_run(gamma: float, beta: float, alpha: float, dataset: Spec, base: int, **settings: Any) -> Run:
    """Section 6.3: a spike of weight gamma and variance 0.05 for each latent, MMD of each latent on its own."""
    method = decomposition_vae(alpha, beta, prior=uw.priors.sparse(gamma, 0.05))
    common = dict(network={"name": "mathieu_fashion", "base": base}, latents=50, lr=5e-4, optimiser="amsgrad")
    return Run(method, dict(dataset), sampling="epochs", **common, **settings)


@experiment(
    "mathieu2019/fig4",
    "a sparse prior makes codes sparse if the aggregate posterior is regularised towards it",
    smoke=dict(
        seeds="0-1",
        steps=2,
        gammas=(0.0, 0.8),
        betas=(1.0,),
        alphas=(0.0, 1000.0),
        dataset=SMALL_DOTS,
        batch_size=8,
        base=4,
        examples=100,
        precision="float32",
    ),
    small=dict(
        seeds="0-3",
        steps=1_500,
        betas=(1.0,),
        alphas=(0.0, 100.0),  # as in the authors' commands; 1000 is too much for batches of 100
        batch_size=100,
        base=16,
        examples=5_000,
        precision="float32",
    ),
)
def fig4(
    seeds: str = "0-7",
    steps: int = 9_600,
    gammas: tuple[float, ...] = (0.0, 0.8),
    betas: tuple[float, ...] = (0.1, 1.0, 5.0),
    alphas: tuple[float, ...] = (0.0, 100.0, 250.0, 500.0, 1000.0),
    dataset: Spec = FASHION,
    batch_size: Count = 500,
    base: int = 32,
    examples: int = 60_000,
    precision: Precision = "bfloat16",
) -> Plan:
    """Sparsity, reconstruction and divergence on Fashion-MNIST, over alpha, by gamma and beta (section 6.3).

    Sparsity is the mean Hoyer measure of the posterior means, each latent divided by its standard deviation. The
    divergence is the MMD of the marginals. 80 epochs are 9,600 steps. The authors' commands have alpha 0 and 100 with
    beta 1, and Figure 5 alpha 1000; the other values are ours.
    """
    settings = dict(seeds=seeds, steps=steps, batch_size=batch_size, precision=precision)
    return Plan(
        cases=[
            case(
                _sparse_run(gamma, beta, alpha, dataset, base, **settings),
                model=f"γ = {gamma:g}, β = {beta:g}",
                gamma=gamma,
                beta=beta,
                alpha=alpha,
            )
            for gamma in gammas
            for beta in betas
            for alpha in alphas
        ],
        measures=[
            Scored([SPARSITY], settings={"examples": examples}),
            Logged(["reconstruction", "divergence"]),
        ],
        claims=_sparsity_claims(max(gammas), max(alphas)),
        figures={"fig4": _sparsity_figure},
        caveats=[NORMALISED],
    )


def _sparsity_claims(gamma: float, most: float) -> list[Claim]:
    sparse, dense, one = {"gamma": gamma}, {"gamma": 0.0}, {"beta": 1.0}
    strong, none = {"alpha": most}, {"alpha": 0.0}
    loss = "reconstruction"
    # 30 nats are .003 of the grey scale for each of 1,024 pixels: 30 * 0.1 / 1024.
    harmless = "The sparse prior does not harm the reconstruction"
    return [
        Higher("A sparse prior makes codes sparser", SPARSITY, sparse, dense, at=one | strong),
        Higher("So does alpha, with a sparse prior", SPARSITY, strong, none, at=one | sparse),
        Higher("Too low a beta harms sparsity", SPARSITY, one, {"beta": 0.1}, at=sparse | strong),
        Higher("Too high a beta harms sparsity", SPARSITY, one, {"beta": 5.0}, at=sparse | strong),
        NotHigher(harmless, loss, sparse, dense, within=30.0, at=one),
        Higher("A large alpha worsens the reconstruction", loss, strong, none, at=one | sparse),
        Higher("A larger beta worsens it more", loss, {"beta": 5.0, **none}, one | strong, at=sparse),
        Trend("The divergence falls with alpha", "divergence", "alpha", one | sparse, rising=False),
        Higher("The divergence from a Gaussian is lower", "divergence", sparse, dense, at=one),
    ]


def _sparsity_figure(outcome: Outcome) -> Figure:
    words = {
        "alpha": "α",
        SPARSITY: "sparsity (Hoyer)",
        "reconstruction": "−E log p(x | z), nats (lower is better)",
        "divergence": "divergence (MMD)",
    }
    rows = outcome.rows.where(measure=[SPARSITY, "reconstruction", "divergence"])
    return figures.lines(rows, x="alpha", by="model", labels=words)


@experiment(
    "mathieu2019/fig5",
    "classes use different latents of a sparse code, and an active latent changes one feature",
    smoke=dict(seeds="0-1", steps=2, dataset=SMALL_DOTS, batch_size=8, base=4, examples=100, precision="float32"),
    small=dict(seeds="0-3", steps=1_500, alpha=100.0, batch_size=100, base=16, examples=5_000, precision="float32"),
)
def fig5(
    seeds: str = "0-7",
    steps: int = 9_600,
    alpha: float = 1000.0,
    beta: float = 1.0,
    gamma: float = 0.8,
    dataset: Spec = FASHION,
    batch_size: Count = 500,
    base: int = 32,
    examples: int = 10_000,
    precision: Precision = "bfloat16",
) -> Plan:
    """Which latents each class uses, and what an active latent does (section 6.3).

    The models with alpha 1000 and beta 1 of Figure 4, and as a control those with a Gaussian prior. Top: the mean
    magnitude of each latent for each class. Bottom: the decoder's images as a latent goes from z_d to z_d + sign(z_d),
    for three examples of trousers, dresses and shirts along the latent that the class uses most, and for a T-shirt, a
    dress and a coat along the one that they share most. The paper chooses its latents by eye.
    """
    settings = dict(seeds=seeds, steps=steps, batch_size=batch_size, precision=precision)
    return Plan(
        cases=[case(_sparse_run(g, beta, alpha, dataset, base, **settings), gamma=g) for g in (gamma, 0.0)],
        measures=[Computed("classes of latents", _classes, {"examples": examples})],
        claims=[
            Higher(
                "Classes use different latents, more so than under a Gaussian prior",
                "class_contrast",
                {"gamma": gamma},
                {"gamma": 0.0},
            ),
            Higher(
                "A code has fewer active latents than under a Gaussian prior",
                "active_latents",
                {"gamma": 0.0},
                {"gamma": gamma},
            ),
        ],
        figures={
            "fig5-magnitudes": lambda outcome: _magnitude_figure(outcome.trained(gamma=gamma), examples),
            "fig5-traversals": lambda outcome: _traversal_figure(outcome.trained(gamma=gamma), examples),
        },
        caveats=[NORMALISED, "That an active latent changes one feature is for the reader to see: it has no test."],
    )


def _labelled(trained: Trained, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the first examples by all members, and the class of each example."""
    indices = np.arange(min(examples, len(trained.dataset)))
    codes = trained.ensemble.encode(trained.dataset.batch(indices)).numpy()
    return codes, trained.dataset.factors_of(indices)[:, 0]


def _classes(trained: Trained, examples: int) -> list[Row]:
    codes, labels = _labelled(trained, examples)
    contrast = analysis.class_contrast(analysis.magnitude_by_class(codes, labels))
    active = analysis.active_dimensions(codes)[1].mean(-1)
    return trained.rows("class_contrast", contrast.tolist()) + trained.rows("active_latents", active.tolist())


def _magnitude_figure(trained: Trained, examples: int) -> Figure:
    codes, labels = _labelled(trained, examples)
    table = analysis.magnitude_by_class(codes[0], labels)
    return figures.magnitudes(
        table, names=[_class_name(trained, int(number)) for number in table.classes], threshold=0.5
    )


def _class_name(trained: Trained, number: int) -> str:
    """The name of a class of Fashion-MNIST; other data have numbers."""
    return CLASSES[number] if trained.dataset.spec["name"] == FASHION["name"] else f"class {number}"


def _traversal_figure(trained: Trained, examples: int, steps: int = 6) -> Figure:
    codes, labels = _labelled(trained, examples)
    magnitudes = analysis.magnitude_by_class(codes[0], labels).values
    groups = [(1, 1, 1), (3, 3, 3), (6, 6, 6), (0, 3, 4)]  # trousers, dresses, shirts; T-shirt, dress and coat
    starts, latents, names = [], [], []
    for group in groups:
        latent = int(magnitudes[list(group)].min(0).argmax())
        for place, number in enumerate(group):
            own = np.flatnonzero(labels == number)
            strongest = own[np.abs(codes[0, own, latent]).argsort()[::-1]]
            starts.append(codes[0, strongest[group[:place].count(number)]])
            latents.append(latent)
            names.append(f"{_class_name(trained, number)}\nz{latent}")
    lines = analysis.sparse_direction(np.stack(starts), np.array(latents), steps)
    images = analysis.decode_grid(trained.ensemble.decode, lines)[0]
    return figures.images(np.swapaxes(images, 0, 1), column_labels=names)
