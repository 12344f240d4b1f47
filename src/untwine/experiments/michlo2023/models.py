"""What is trained: the datasets and models of appendices B and C, with their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from untwine import methods
from untwine.experiments.engine.contract import Case, case
from untwine.experiments.engine.measures import Scored
from untwine.train.run import Precision, Run

Framework = Literal["β-VAE", "Ada-GVAE"]
Loss = Literal["MSE", "overlap"]
Data = Literal["Cars3D", "3D Shapes", "Small NORB", "dSprites", "XYSquares"]

METHODS: Mapping[Framework, Callable[..., Any]] = {"β-VAE": methods.beta_vae, "Ada-GVAE": methods.ada_gvae}
# The paper's names, each with the name of our dataset and its channels.
DATA: Mapping[Data, tuple[str, int]] = {
    "Cars3D": ("cars3d", 3),
    "3D Shapes": ("shapes3d", 3),
    "Small NORB": ("smallnorb", 1),
    "dSprites": ("dsprites", 1),
    "XYSquares": ("xy_squares", 3),
}
BENCHMARKS: tuple[Data, ...] = ("Cars3D", "3D Shapes", "Small NORB", "dSprites")  # Figure 2
SQUARES: tuple[Data, ...] = ("XYSquares",)
SCORES = {"mig": "MIG", "dci": "DCI disentanglement"}
LEVELS = ("latent means", "posterior KL", "reconstructions")
SWEEP = (0.000316, 0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0)  # the betas of Figure 6 (Table A4)
SPACINGS = (8, 7, 6, 5, 4, 3, 2, 1)

# Settings of small scales. XYSquares of 16 px has 8 positions of squares of 2 px, without overlap if the spacing is 2.
QUICK = {"steps": 2, "batch_size": 4, "precision": "float32"}
TINY = {**QUICK, "size": 16, "network": "conv", "seeds": "0-1"}
SMALLER: dict[str, Any] = {"name": "conv", "channels": [16, 32], "hidden": 128}  # for more steps in the same time
SMALL = {"size": 16, "network": "conv", "seeds": "0-2", "batch_size": 32, "precision": "float32"}
DRAWN = "dSprites and 3D Shapes are drawn by our own renderers; rendered=false reads the published files."


def spec(name: Data, rendered: bool = True, spacing: int | None = None, size: int = 64) -> dict[str, Any]:
    """The spec of a dataset by the paper's name.

    Args:
        name: The paper's name.
        rendered: Whether dSprites and 3D Shapes are drawn, in place of their published files.
        spacing: Pixels from one position of XYSquares to the next; None is without overlap.
        size: Width of the images; squares of XYSquares are an eighth as wide. 3D Shapes has no other width than 64.
    """
    if name == "XYSquares":
        return {"name": DATA[name][0], "spacing": spacing or size // 8, "size": size, "square": size // 8}
    own: dict[str, Any] = {"rendered": rendered} if name in ("dSprites", "3D Shapes") else {}
    own |= {"size": size} if size != 64 else {}
    return {"name": DATA[name][0], **own}


def likelihood(loss: Loss, size: int = 64) -> str:
    """The text of a likelihood; the overlap's box reaches across an image of this width (section 6.1: radius 31)."""
    width = size - 1
    return "squared-error" if loss == "MSE" else f"overlap(squared-error, radius={width // 2}, weight={width**2})"


def weight(beta: float, latents: int, elements: int) -> float:
    """The weight of a KL in nats beside a sum of squares, for the paper's beta, which is of means (B.1).

    >>> weight(0.001, latents=9, elements=3 * 64 * 64)
    1.3653333333333333
    """
    return beta * elements / latents


def vae(
    name: Data,
    framework: Framework,
    beta: float,
    latents: int,
    seeds: str,
    steps: int,
    batch_size: int,
    precision: Precision,
    rendered: bool = True,
    spacing: int | None = None,
    size: int = 64,
    network: str | dict[str, Any] = "michlo64",
    loss: Loss = "MSE",
) -> Case:
    """A model of appendix C with its columns. Figures that need the same model share its run."""
    elements = DATA[name][1] * size * size
    run = Run(
        method=METHODS[framework](beta=weight(beta, latents, elements), likelihood=likelihood(loss, size)),
        dataset=spec(name, rendered, spacing, size),
        network=network,
        latents=latents,
        seeds=seeds,
        steps=steps,
        batch_size=batch_size,
        lr=1e-3,
        optimiser={"name": "adam", "eps": 1e-8 * elements},
        sampling="iid",
        precision=precision,
        standardise=True,
    )
    columns = {"dataset": name, "framework": framework, "loss": loss, "beta": beta, "latents": latents}
    return case(run, **columns, **({"spacing": run.dataset["spacing"]} if name == "XYSquares" else {}))


def scored(points: int | None) -> Scored:
    """MIG and DCI (section 5.2), on so many states; None takes those of each metric's design."""
    return Scored(list(SCORES), settings={} if points is None else {"points": points})


def caveats(rendered: bool = False, size: int = 64) -> list[str]:
    """In what the data differ from the paper's."""
    smaller = (
        f"Images have {size} px and squares of XYSquares {size // 8} px, the paper's 64 px and 8 px; the network is "
        "smaller too."
    )
    return [DRAWN] * rendered + [smaller] * (size != 64)
