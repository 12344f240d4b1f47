"""The figures of Mathieu et al. 2019, "Disentangling Disentanglement in Variational Autoencoders", as data.

Its Appendix B is not in our copy. The values of beta, alpha and nu along its curves are ours, and contain those of the
authors' published commands; everything else is the paper's, or theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine import analysis
from untwine import vocabulary as uw
from untwine.experiments.engine.claims import Beyond, Claim, Higher, HigherGiven, NotHigher, Trend
from untwine.experiments.engine.contract import Case, Outcome, Plan, Trained, case, experiment
from untwine.experiments.engine.measures import Computed, Logged, Scored
from untwine.experiments.engine.rows import Row
from untwine.methods.mathieu2019 import decomposition_vae
from untwine.report import figures
from untwine.train.run import Precision, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spec = Mapping[str, Any]

INFORMATION = "decomposition"  # I(x; z) in nats
MISMATCH = "decomposition kl_aggregate_prior"  # KL(q(z) || p(z)) in nats
SCORE = "factor_vae_score"
SPARSITY = "hoyer"

# --- Figure 1: overlap ------------------------------------------------------------------------------------------

OVERLAPS = {
    "too little": (0.001, 0.0),
    "appropriate": (1.0, 0.0),
    "too much": (100.0, 0.0),
    "regularised": (0.001, 3.0),
}


@experiment(
    "mathieu2019/fig1",
    "too little overlap of encodings is a look-up table, too much says nothing of the data",
    smoke={"seeds": "0-1", "steps": 5},
    small={"seeds": "0-4"},
)
def fig1(seeds: str = "0-9", steps: int = 3_000, points: int = 8, scale: float = 0.1) -> Plan:
    """The picture of both factors of decomposition (section 3), from trained models in place of a drawing.

    A VAE with one latent encodes a few points of a bent line, the first arm of a pinwheel. Overlap follows from beta
    (top): I(x; z) is log n for a look-up table and 0 for codes that say nothing. With a beta that leaves too little
    overlap, weight on KL(p || q) regularises the aggregate posterior (bottom). The paper's figure is a sketch without
    a setting; all numbers here are ours.
    """
    line = {"name": "pinwheel", "arms": 1, "points": points, "tangential_std": 0.01}

    def run(beta: float, alpha: float) -> Run:
        method = decomposition_vae(
            alpha, beta, "kl_prior_aggregate", uw.likelihoods.gaussian(scale), uw.priors.standard_normal
        )
        return _pinwheel_run(method, line, latents=1, batch_size=points, seeds=seeds, steps=steps)

    certain = math.log(points)
    return Plan(
        cases=[case(run(*numbers), overlap=name) for name, numbers in OVERLAPS.items()],
        measures=[Scored([INFORMATION])],
        claims=[
            # Within 5 percent of what tells all examples apart.
            Beyond("Too little overlap: a look-up table", INFORMATION, {"overlap": "too little"}, 0.95 * certain),
            Beyond(
                "Appropriate overlap: no such table",
                INFORMATION,
                {"overlap": "appropriate"},
                0.95 * certain,
                above=False,
            ),
            Beyond("Appropriate overlap: codes tell of the data", INFORMATION, {"overlap": "appropriate"}, math.log(2)),
            # A twentieth of it: examples can hardly be told apart.
            Beyond(
                "Too much overlap: data and latents say nothing of each other",
                INFORMATION,
                {"overlap": "too much"},
                0.05 * certain,
                above=False,
            ),
            Higher(
                "Without regularisation the aggregate posterior is further from the prior",
                MISMATCH,
                {"overlap": "too little"},
                {"overlap": "regularised"},
            ),
        ],
        figures={"fig1": _overlap_figure},
        caveats=["The paper's Figure 1 is a sketch; ours is measured on a toy that we chose."],
    )


def _overlap_figure(outcome: Outcome) -> Figure:
    names = ["too little", "too much", "appropriate"]
    encoded = {name: _posteriors(outcome.trained(overlap=name)) for name in OVERLAPS}
    shown = [*names, "regularised", "too little"]
    titles = [f"{name} overlap" for name in names] + ["good regularisation", "bad regularisation"]
    densities = [analysis.latent_densities(*encoded[name], prior=_standard_normal) for name in shown]
    return figures.overlap(densities, titles, apart=[True] * 3 + [False] * 2)


def _standard_normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


def _posteriors(trained: Trained) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of all examples by the first member."""
    x = trained.dataset.batch(np.arange(len(trained.dataset)))
    return trained.ensemble.encode(x)[0].numpy(), trained.ensemble.variances(x)[0].numpy()


# --- Figure 2: priors that break the symmetry under rotations -----------------------------------------------------

SHAPES = {"name": "dsprites", "rendered": True}
DOTS = {"name": "three_dots", "examples": 200}  # the same size, and quickly drawn
ISOTROPIC, FIXED, LEARNED = "isotropic", "principal components", "learned"
PRIORS: dict[str, Any] = {
    ISOTROPIC: uw.priors.standard_normal,
    FIXED: uw.priors.anisotropic_normal(),
    LEARNED: uw.priors.anisotropic_normal(learned=True),
}
DRAWN = "dSprites is drawn by our own renderer: the same factors, but not pixel by pixel the published images."
FEW_STEPS = "no network tells the factors apart after a few hundred steps; the paper takes 230,400"


def _shapes_run(prior: Any, beta: float, dataset: Spec, **settings: Any) -> Run:
    """Section 6.1: a beta-VAE, which is Eq. 7 with alpha = 0, on 2D Shapes; 20 epochs are 230,400 steps."""
    objective = uw.Objective(
        likelihood=uw.likelihoods.bernoulli,
        posterior=uw.posteriors.diagonal_normal,
        prior=prior,
        penalties={"kl": uw.constant(beta) * uw.penalties.kl},
    )
    common = dict(network="mathieu_dsprites", latents=10, batch_size=64, lr=5e-4, optimiser="amsgrad")
    return Run(objective, dict(dataset), sampling="epochs", **common, **settings)


def _shapes_measures(votes: int, size: int) -> list[Any]:
    # Codes under a Student-t prior are first mapped to Gaussian ones, as in the authors' code; others stay.
    score = f"{SCORE}(groups={votes}, size={size})"
    return [Scored([score], settings={"gaussian": True}), Logged(["reconstruction"])]


@experiment(
    "mathieu2019/fig2-left",
    "anisotropic Gaussian priors disentangle better for a given reconstruction, learned ones most",
    smoke=dict(seeds="0-1", steps=2, betas=(1.0, 4.0), dataset=DOTS, votes=40, size=8, precision="float32"),
    small=dict(seeds="0-2", steps=700, betas=(1.0, 4.0), votes=400, size=32, precision="float32"),
    hidden={"small": FEW_STEPS},
)
def fig2_left(
    seeds: str = "0-99",
    steps: int = 230_400,
    betas: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0),
    dataset: Spec = SHAPES,
    votes: int = 20_000,
    size: int = 1_000,
    precision: Precision = "bfloat16",
) -> Plan:
    """FactorVAE metric against reconstruction for Gaussian priors, over beta (section 6.1).

    The prior's variances are 1, or those along the principal components of the data, scaled to sum to the number of
    latents, or learned from there. The authors' command has beta 1; the other values are ours.
    """
    settings = dict(seeds=seeds, steps=steps, precision=precision)
    priors = {name: {"prior": name} for name in PRIORS}
    lowest, highest = min(betas), max(betas)
    wording = "For a given reconstruction loss, {} scores higher than {}"
    same = ("seed", "beta")
    return Plan(
        cases=[
            case(_shapes_run(prior, beta, dataset, **settings), prior=name, beta=beta)
            for name, prior in PRIORS.items()
            for beta in betas
        ],
        measures=_shapes_measures(votes, size),
        claims=[
            *(
                HigherGiven(wording.format(*pair), SCORE, "reconstruction", *(priors[name] for name in pair), same)
                for pair in ((FIXED, ISOTROPIC), (LEARNED, ISOTROPIC), (LEARNED, FIXED))
            ),
            # A twentieth of the scale, which is less than the gain that the paper calls notable.
            NotHigher(
                "An isotropic prior gains nothing from a larger beta",
                SCORE,
                {"beta": highest},
                {"beta": lowest},
                within=0.05,
                at={"prior": ISOTROPIC},
            ),
        ],
        figures={"fig2-left": _tradeoff("beta")},
        caveats=[
            DRAWN,
            "With a diagonal posterior, scaling encoder and decoder undoes the variances of a Gaussian prior exactly: "
            "a gain can only come from how training proceeds.",
        ],
    )


@experiment(
    "mathieu2019/fig2-right",
    "Student-t priors of few degrees of freedom disentangle better at little cost of reconstruction",
    smoke=dict(seeds="0-1", steps=2, nus=(1.0, 9.0), dataset=DOTS, votes=40, size=8, precision="float32"),
    small=dict(seeds="0-2", steps=700, nus=(1.0, 9.0, 100.0), votes=400, size=32, precision="float32"),
    hidden={"small": FEW_STEPS},
)
def fig2_right(
    seeds: str = "0-99",
    steps: int = 230_400,
    nus: tuple[float, ...] = (1.0, 2.0, 5.0, 9.0, 20.0, 100.0),
    dataset: Spec = SHAPES,
    votes: int = 20_000,
    size: int = 1_000,
    precision: Precision = "bfloat16",
) -> Plan:
    """FactorVAE metric against reconstruction for a product of Student-t priors, over nu, with beta 1 (section 6.1).

    The limit of many degrees of freedom is the isotropic Gaussian. The KL has no closed form, and is taken at the
    sample. The authors' command has nu 9; the other values are ours.
    """

    def run(prior: Any) -> Run:
        return _shapes_run(prior, 1.0, dataset, seeds=seeds, steps=steps, precision=precision)

    heavy, gaussian = {"prior": "Student-t"}, {"prior": ISOTROPIC}
    least = {"nu": min(nus)}
    moderate = heavy | {"nu": [nu for nu in nus if min(nus) < nu <= 20]}
    return Plan(
        cases=[
            case(run(uw.priors.standard_normal), **gaussian),
            *(case(run(uw.priors.student_t(nu)), **heavy, nu=nu) for nu in nus),
        ],
        measures=_shapes_measures(votes, size),
        claims=[
            Higher("Student-t priors score higher than the Gaussian", SCORE, moderate, gaussian),
            Trend("The score rises as nu falls, down to the lowest", SCORE, "nu", _above(heavy, nus), rising=False),
            Higher("At the lowest nu the score drops again", SCORE, moderate, heavy | least),
            Higher("At the lowest nu the score is still above the Gaussian's", SCORE, heavy | least, gaussian),
            # Two nats are a tenth of the loss at beta 1, and far less than what doubling beta costs.
            NotHigher("The reconstruction penalty is minor", "reconstruction", moderate, gaussian, within=2.0),
        ],
        figures={"fig2-right": _tradeoff("nu")},
        caveats=[DRAWN],
    )


def _above(where: Mapping[str, Any], nus: Sequence[float]) -> dict[str, Any]:
    return {**where, "nu": [nu for nu in nus if nu > min(nus)]}


def _tradeoff(along: str) -> Any:
    words = {"reconstruction": "reconstruction loss (nats)", SCORE: "FactorVAE metric", "beta": "β", "nu": "ν"}
    return lambda outcome: figures.tradeoff(outcome.rows, "reconstruction", SCORE, along, by="prior", labels=words)


# --- Figure 3: clusters -------------------------------------------------------------------------------------------


def _pinwheel_run(method: uw.Objective, dataset: Spec, **settings: Any) -> Run:
    common = dict(network="mathieu_pinwheel", lr=1e-3, optimiser="amsgrad", sampling="epochs", log_every=10)
    return Run(method, dict(dataset), watch=("entropy",), **common, **settings)


@experiment(
    "mathieu2019/fig3",
    "beta controls the overlap of clusters, alpha the match of the aggregate posterior with the prior",
    smoke={"seeds": "0-1", "steps": 3, "betas": (0.01, 1.2), "alphas": (1.0, 8.0), "points": 20},
    small={"seeds": "0-3"},
)
def fig3(
    seeds: str = "0-9",
    steps: int = 500,
    betas: tuple[float, ...] = (0.01, 0.5, 1.0, 1.2),
    alphas: tuple[float, ...] = (1.0, 3.0, 5.0, 8.0),
    points: int = 100,
) -> Plan:
    """The aggregate posterior of the pinwheel under a prior of four clusters (section 6.2).

    Top: alpha 0, over beta. Bottom: beta 0, over alpha, the weight of KL(p || q). The whole set is one batch, so an
    epoch is a step. The authors' commands have (beta, alpha) = (1, 0) and (0, 1); the other values are ours. The paper
    shows one model of each; we train ten to test what it says. Overlap is the entropy of the encodings, and I(x; z).
    """
    data = {"name": "pinwheel", "points": points}

    def clusters(beta: float, alpha: float) -> Case:
        prior, likelihood = uw.priors.mixture_of_normals(), uw.likelihoods.learned_gaussian
        method = decomposition_vae(alpha, beta, "kl_prior_aggregate", likelihood, prior)
        run = _pinwheel_run(method, data, latents=2, batch_size=4 * points, seeds=seeds, steps=steps)
        return case(run, beta=beta, alpha=alpha)

    top, bottom = {"alpha": 0.0}, {"beta": 0.0}
    largest, middle = {"beta": max(betas), **top}, {"beta": sorted(betas)[1], **top}
    return Plan(
        cases=[*(clusters(beta, 0.0) for beta in betas), *(clusters(0.0, alpha) for alpha in alphas)],
        measures=[Scored([INFORMATION]), Logged(["entropy", "divergence"], last=0.1)],
        claims=[
            Trend("Increasing beta increases the variance of encodings", "entropy", "beta", top),
            Trend("Increasing beta increases their overlap", INFORMATION, "beta", top, rising=False),
            # Less than a bit: not even two halves of the data are told apart.
            Beyond("With too large a beta encodings lose meaning", INFORMATION, largest, math.log(2), above=False),
            Higher("Too large a beta causes a mismatch of q(z) and p(z): KL(q || p)", MISMATCH, largest, middle),
            Higher("Too large a beta causes a mismatch: KL(p || q)", "divergence", largest, middle),
            Trend("Increasing alpha improves the match of q(z) and p(z)", "divergence", "alpha", bottom, rising=False),
            Trend("Increasing alpha increases overlap too", INFORMATION, "alpha", bottom, rising=False),
            # Codes still tell more than which of the four clusters an example is in.
            Beyond(
                "A large alpha does not collapse the encodings to a mode",
                INFORMATION,
                {"alpha": max(alphas), **bottom},
                math.log(4),
            ),
        ],
        figures={"fig3": lambda outcome: _density_figure(outcome, betas, alphas)},
        caveats=["The authors' decoder learns a scale for each coordinate of each point, ours one for all points."],
    )


def _density_figure(outcome: Outcome, betas: Sequence[float], alphas: Sequence[float]) -> Figure:
    shown = [(beta, 0.0) for beta in betas] + [(0.0, alpha) for alpha in alphas]
    encoded = [_posteriors(outcome.trained(beta=beta, alpha=alpha)) for beta, alpha in shown]
    means, variances = (np.stack(arrays) for arrays in zip(*encoded, strict=True))
    result = analysis.aggregate_density(means, variances, bounds=((-2.0, 2.0), (-2.0, 2.0)))
    titles = [f"β = {beta:g}, α = {alpha:g}" for beta, alpha in shown]
    return figures.density(result, titles=titles, across=len(betas), common=False)


# --- Figures 4 and 5: sparsity ------------------------------------------------------------------------------------

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
        steps=600,
        betas=(1.0,),
        alphas=(0.0, 1000.0),
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
    batch_size: int = 500,
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
    small=dict(seeds="0-3", steps=600, batch_size=100, base=16, examples=5_000, precision="float32"),
)
def fig5(
    seeds: str = "0-7",
    steps: int = 9_600,
    alpha: float = 1000.0,
    beta: float = 1.0,
    gamma: float = 0.8,
    dataset: Spec = FASHION,
    batch_size: int = 500,
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
    return figures.magnitudes(table, names=[_class_name(trained, number) for number in table.classes], threshold=0.5)


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
