"""Draw a picture of every metric for docs/metrics.md: what it makes of a few simple representations.

    python docs/pictures/metrics.py    # a minute; writes the pictures, and metrics.json with the scores

Metrics of codes and factors get the same codes: two factors of ten values, and codes that hold them in different ways.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import untwine as uw
from untwine.model.posteriors import DiagonalQ

HERE = Path(__file__).parent
VALUES, DRAWS, NOISE = 10, 30, 0.06
COLOURS = ("#0072B2", "#D55E00", "#009E73")
Toys = Mapping[str, np.ndarray]


def grid() -> np.ndarray:
    """All states of the two factors, each `DRAWS` times."""
    return np.tile(np.indices((VALUES, VALUES)).reshape(2, -1).T, (DRAWS, 1))


def codes() -> dict[str, np.ndarray]:
    """Ways to hold the factors x and y, each with a little noise."""
    x, y = (3 * grid() / (VALUES - 1) - 1.5).T
    random = np.random.default_rng(0)
    noise = random.normal(size=(3, len(x)))
    held = {
        "aligned": (x, y),
        "bent": (np.sign(x) * x**2 / 1.5, np.sinh(y) / 1.4),
        "rotated": ((x + y) / 1.4, (x - y) / 1.4),
        "mixed": (x, (x + y) / 1.4),
        "x twice": (x, y, x),
        "y is lost": (x, random.normal(size=len(x))),
        "noise": tuple(random.normal(size=(2, len(x)))),
    }
    return {name: np.stack(parts, 1) + NOISE * noise[: len(parts)].T for name, parts in held.items()}


def of_codes(name: str) -> dict[str, dict[str, float]]:
    """The scores of a metric of codes and factors, and of its parts, for each way to hold them."""
    metric, factors = uw.metrics.get(name), grid()
    scores: dict[str, dict[str, float]] = {}
    for toy, z in codes().items():
        score = metric(z, factors)
        parts = {part: score.details[part] for part in metric.parts}
        scores[toy] = {name: float(score), **{part: float(np.squeeze(value)) for part, value in parts.items()}}
    return scores


def draw_codes(axes: Axes, z: np.ndarray) -> None:
    """The first two codes: lines on which x, and y, stay the same, or points where nothing is held."""
    means = z[:, :2].reshape(DRAWS, VALUES, VALUES, 2).mean(0)
    if np.ptp(means[:, 0, 0]) > 1 and np.ptp(means[0, :, 1]) > 1:
        axes.plot(*np.moveaxis(means, 2, 0).swapaxes(1, 2), color=COLOURS[0], linewidth=0.8)
        axes.plot(*np.moveaxis(means, 2, 0), color=COLOURS[1], linewidth=0.8)
    else:
        axes.scatter(*z[:600, :2].T, s=1.5, color="0.35", linewidths=0)
    axes.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), xticks=[], yticks=[], aspect="equal")


def picture_of_codes(name: str, scores: dict[str, dict[str, float]]) -> Figure:
    figure = Figure(figsize=(8.4, 2.5), layout="constrained")
    panels = figure.subplots(2, len(scores), height_ratios=(1.5, 1))
    for i, (toy, z) in enumerate(codes().items()):
        draw_codes(panels[0, i], z)
        panels[0, i].set_title(toy, fontsize=9)
        below = panels[1, i]
        values = scores[toy]
        below.bar(range(len(values)), list(values.values()), color=COLOURS[: len(values)], width=0.7)
        for place, value in enumerate(values.values()):
            below.text(place, value + 0.04, f"{value:.2f}", ha="center", fontsize=7.5)
        below.set(ylim=(0, 1.3), yticks=[], xlim=(-0.8, max(1, len(values)) - 0.2), xticks=[])
        below.spines[["top", "right", "left"]].set_visible(False)
        if i == 0:
            below.set_ylabel("score", fontsize=8)
    if len(scores["noise"]) > 1:
        handles = panels[1, 0].patches
        labels = [name, *list(scores["noise"])[1:]]
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def panels(count: int, width: float = 2.0) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * count, 1.9), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


def caption(axes: Axes, title: str, score: float, name: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(f"{name} {score:.2f}", fontsize=9)
    axes.set(xticks=[], yticks=[])


def hoyer() -> tuple[Figure, dict[str, float]]:
    random = np.random.default_rng(0)
    normal = random.normal(size=(2000, 2))
    on = random.random((2000, 2)) < 0.2
    toys = {
        "all latents at once": normal,
        "a sparse prior": np.where(on, normal, 0.22 * normal),
        "one latent at a time": normal * np.eye(2)[random.integers(0, 2, 2000)],
    }
    figure, axes = panels(len(toys))
    scores = {title: float(uw.metrics.hoyer(z)) for title, z in toys.items()}
    for plot, (title, z) in zip(axes, toys.items(), strict=True):
        plot.scatter(*z[:500].T, s=2, color=COLOURS[0], linewidths=0)
        plot.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
        caption(plot, title, scores[title], "hoyer")
    return figure, scores


def udr() -> tuple[Figure, dict[str, float]]:
    held, random = codes(), np.random.default_rng(1)
    first = held["aligned"]
    toys = {
        "reordered, flipped": np.stack([-first[:, 1], first[:, 0] ** 3], 1),
        "rotated": held["rotated"],
        "unrelated": random.normal(size=first.shape),
    }
    figure, axes = panels(len(toys))
    scores = {}
    for plot, (title, second) in zip(axes, toys.items(), strict=True):
        scores[title] = float(uw.metrics.udr([first, second], kl=[np.ones(2), np.ones(2)]).values[0])
        ranks = [np.argsort(np.argsort(code)) for code in (*first.T, *second.T)]
        plot.imshow(np.abs(np.corrcoef(ranks)[:2, 2:]), vmin=0, vmax=1, cmap="viridis")
        caption(plot, title, scores[title], "udr")
        plot.set_ylabel("model A", fontsize=8)
    return figure, scores


def dto() -> tuple[Figure, dict[str, float]]:
    toys = {
        "at right angles": [[1.0, 0.0], [0.0, 0.5]],
        "turned, at right angles": [[0.8, 0.6], [-0.3, 0.4]],
        "at 60 degrees": [[1.0, 0.0], [0.3, 0.52]],
        "at 20 degrees": [[1.0, 0.0], [0.85, 0.31]],
    }
    figure, axes = panels(len(toys))
    scores = {title: float(uw.metrics.dto(np.array([columns]))) for title, columns in toys.items()}
    for plot, (title, columns) in zip(axes, toys.items(), strict=True):
        for column, colour in zip(columns, COLOURS, strict=False):
            plot.annotate("", column, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
        plot.set(xlim=(-0.6, 1.15), ylim=(-0.25, 1), aspect="equal")
        caption(plot, title, scores[title], "dto")
    return figure, scores


def delta_kl() -> tuple[Figure, dict[str, float]]:
    toys = {
        "polarised": [0.002, 0.005, 1.0, 1.0],
        "on the way": [0.05, 0.3, 0.6, 0.95],
        "collapsed": [0.93, 0.96, 0.97, 1.0],
    }
    figure, axes = panels(len(toys))
    scores = {}
    for plot, (title, variances) in zip(axes, toys.items(), strict=True):
        spread = np.random.default_rng(0).normal(size=(2000, 4)) * np.sqrt(1 - np.array(variances))
        scores[title] = float(uw.metrics.delta_kl(spread, np.tile(variances, (2000, 1))))
        plot.bar(range(4), variances, color=COLOURS[0])
        plot.set(ylim=(0, 1.1))
        caption(plot, title, scores[title], "delta_kl")
    axes[0].set_ylabel("posterior variances", fontsize=8)
    return figure, scores


def decomposition() -> tuple[Figure, dict[str, float]]:
    toys = {"apart": (3.0, 0.15), "overlapping": (1.4, 0.5), "all the same": (0.0, 1.0)}
    figure, axes = panels(len(toys))
    scores, z = {}, np.linspace(-4, 4, 400)
    prior = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(1), torch.ones(1)), 1)
    for plot, (title, (reach, deviation)) in zip(axes, toys.items(), strict=True):
        means = torch.linspace(-reach, reach, 5)[:, None]
        posterior = DiagonalQ(means, torch.full((5, 1), 2 * np.log(deviation)))
        scores[title] = float(uw.metrics.decomposition(posterior, prior, draws=2000))
        densities = np.exp(-0.5 * ((z - means.numpy()) / deviation) ** 2) / deviation
        plot.plot(z, densities.T / densities.max(), color=COLOURS[0], linewidth=0.9)
        plot.fill_between(z, densities.mean(0) / densities.max(), color=COLOURS[1], alpha=0.4, linewidth=0)
        caption(plot, title, scores[title], "I(x; z)")
    return figure, scores


OTHERS = {"hoyer": hoyer, "udr": udr, "dto": dto, "delta_kl": delta_kl, "decomposition": decomposition}


def scored(name: str) -> tuple[Figure, dict]:
    """The picture of a metric, and the numbers in it."""
    if name in OTHERS:
        return OTHERS[name]()
    scores = of_codes(name)
    return picture_of_codes(name, scores), scores


def main() -> None:
    numbers = {}
    for name in uw.metrics.names():
        figure, numbers[name] = scored(name)
        uw.figures.save(figure, HERE / f"metric-{name.replace('_', '-')}.png", dpi=100)
        print(name, numbers[name], flush=True)
    rounded = json.loads(json.dumps(numbers), parse_float=lambda text: round(float(text), 3))
    (HERE / "metrics.json").write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    main()
