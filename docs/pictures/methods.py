"""Draw a picture of what each method makes of the same two datasets, for docs/choosing-a-method.md.

    python docs/pictures/methods.py              # about fifteen minutes on one core; keeps runs in runs/methods
    python docs/pictures/methods.py beta_vae     # some of them

Each image holds two squares, which move up and down in their own halves: two factors. In the first dataset the right
square is dim, so that one factor matters less; in the second both are equally bright. Every model has two latents, so
that a plane shows all: the means of the images of the grid, joined where one square stays where it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import untwine as uw

HERE = Path(__file__).parent
SIZE, SIDE, PLACES = 12, 5, 15
SEEDS = (0, 1, 2)
STEPS = 3_000
DATASETS = {"the right square is dim": 0.6, "both are equally bright": 1.0}
COLOURS = ("#0072B2", "#D55E00")  # the left square stays; the right one does

# What is not the method's default: runs are short and images small, so ramps are short and weights small too.
ARGUMENTS: dict[str, dict] = {
    "ada_gvae": dict(beta=0.1),
    "ada_mlvae": dict(beta=0.1),
    "ae": {},
    "annealed_vae": dict(gamma=10.0, capacity=5.0, anneal=2_500),
    "beta_tcvae": {},
    "beta_vae": dict(beta=2.0),
    "beta_vae_full": dict(beta=0.1),
    "decomposition_vae": dict(alpha=10.0, prior="generalised-normal(p=8)", likelihood="bernoulli"),
    "dip_vae_i": {},
    "dip_vae_ii": {},
    "factor_vae": dict(gamma=5.0, hidden=100, layers=3),
    "info_vae": dict(lam=100.0),
    "jl1_vae": dict(beta=1.0, gamma=0.1, anneal=2_500),
    "jl2_vae": dict(beta=1.0, gamma=0.1, anneal=2_500),
    "vae": {},
    "wae_mmd": {},
}


def coverage(places: np.ndarray) -> np.ndarray:
    """How much of each row a square covers whose upper edge is at each of the places: `[places, rows]`."""
    rows = np.arange(SIZE)
    return np.clip(np.minimum(places[:, None] + SIDE, rows + 1) - np.maximum(places[:, None], rows), 0, 1)


def squares(brightness: float) -> uw.Dataset:
    """An image for each pair of places of the two squares; the brightness is that of the right one."""
    rows = coverage(np.linspace(0, SIZE - SIDE, PLACES))
    images = np.zeros((PLACES, PLACES, SIZE, SIZE))
    images[..., 1 : 1 + SIDE] = rows[:, None, :, None]
    images[..., SIZE - 1 - SIDE : SIZE - 1] = brightness * rows[None, :, :, None]
    factors = np.indices((PLACES, PLACES)).reshape(2, -1).T
    pixels = np.round(255 * images).astype(np.uint8).reshape(-1, 1, SIZE, SIZE)
    return uw.datasets.images(pixels, factors=factors)


def models(name: str, data: uw.Dataset, runs: Path) -> uw.Ensemble:
    """Three trained models of a method."""
    run = uw.Run(
        method=uw.methods.get(name)(**ARGUMENTS[name]),
        dataset=data,
        network={"name": "mlp", "hidden": [64, 64]},
        latents=2,
        seeds=SEEDS,
        steps=STEPS,
        batch_size=64,
        lr=1e-3,
        optimiser="adam",
        sampling="epochs",
    )
    return uw.fit(run, out=runs / run.id, device="cpu")


def drawn(name: str, runs: Path) -> dict[str, list[float]]:
    """Draw the picture of a method, and return the MIG of every model by dataset."""
    figure = Figure(figsize=(9.6, 2.1), layout="constrained")
    axes = figure.subplots(1, len(DATASETS) * len(SEEDS))
    scores = {}
    for i, (title, brightness) in enumerate(DATASETS.items()):
        data = squares(brightness)
        codes = models(name, data, runs).encode(data.examples()).numpy()
        factors = data.factors_of(range(len(data)))
        scores[title] = [round(float(value), 3) for value in uw.metrics.mig(codes, factors).values]
        for j, (plane, score) in enumerate(zip(codes, scores[title], strict=True)):
            grid = np.empty((PLACES, PLACES, 2))
            grid[tuple(factors.T)] = plane
            plot = axes[i * len(SEEDS) + j]
            plot.plot(*np.moveaxis(grid[::2], 2, 0).swapaxes(1, 2), color=COLOURS[0], linewidth=0.7)
            plot.plot(*np.moveaxis(grid[:, ::2], 2, 0), color=COLOURS[1], linewidth=0.7)
            low, high = grid.min((0, 1)), grid.max((0, 1))
            (x, y), half = (low + high) / 2, 0.54 * (high - low).max()
            plot.set(xlim=(x - half, x + half), ylim=(y - half, y + half), xticks=[], yticks=[], aspect="equal")
            plot.set_xlabel(f"MIG {score:.2f}", fontsize=8)
            plot.set_title(title if j == 1 else "", fontsize=9)
    uw.figures.save(figure, HERE / f"method-{name.replace('_', '-')}.png", dpi=100)
    return scores


def main() -> None:
    chosen = sys.argv[1:] or sorted(ARGUMENTS)
    numbers = HERE / "methods.json"
    scores = json.loads(numbers.read_text()) if numbers.exists() else {}
    for name in chosen:
        scores[name] = drawn(name, Path("runs/methods"))
        print(name, scores[name], flush=True)
        numbers.write_text(json.dumps(dict(sorted(scores.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
