"""What a cheaper way of training costs in quality: variants of a method, several seeds each, and their local scores."""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from untwine.bench.course import Course
from untwine.bench.devices import alone, describe, free
from untwine.bench.rows import Row, Rows
from untwine.bench.variants import read
from untwine.data.contract import Dataset
from untwine.data.families.dots import three_dots
from untwine.errors import UntwineError, brief
from untwine.scoring.requests import requests
from untwine.scoring.scorer import Scorer
from untwine.scoring.sources import Source
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.ensemble import Ensemble
from untwine.train.paths import check_path
from untwine.train.seeds import parse_seeds
from untwine.train.table import Table

VARIANTS = (
    "beta-vae anneal=100000",
    "jl1-vae",
    "jl1-vae columns=1",
    "jl1-vae columns=2",
    "jl1-vae columns=3",
    "jl1-vae columns=1 images=0.25",
    "jl1-vae images=0.25",
    "jl1-vae through=both",
    "jl1-vae columns=1 through=both",
    "jl1-vae columns=1 images=0.25 through=both",
    "jl1-vae columns=1 estimator=finite",
)
METRICS = ("local-mig", "local-modularity")
KEYS = ("variant", "step", "steps", "seeds", "path", "precision", "radii", "windows", "points", "dataset")


def run(
    variants: tuple[str, ...] = VARIANTS,
    seeds: str = "0-4",
    steps: int = 300_000,
    at: tuple[int, ...] = (),
    precisions: tuple[str, ...] = ("float32",),
    radii: tuple[float, ...] = (0.1, 0.03),
    windows: int = 20,
    points: int = 10_000,
    path: str = "auto",
    device: str = "auto",
    limit_minutes: float | None = None,
    keep: str | None = None,
    out: str | None = None,
    size: int = 64,
    examples: int = 500_000,
) -> list[Row]:
    """Local MIG and local modularity of variants on three_dots: means over seeds with Student's 95% intervals.

    A variant is a method with whatever differs from its defaults: "jl1-vae columns=1 images=0.25 precision=bfloat16
    padding=same log_variance=0 anneal=60000 steps=160000". Several values of a number, "gamma=0.05,0.1", train side by
    side in one pack, a row for each. Every row is written as soon as it is known, and what the file has already is not
    computed again. Several of these commands on one GPU, with files of their own, compile at once and train in turn.

    Args:
        variants: What to train.
        seeds: Of each variant, such as 0-4.
        steps: Of training, for variants that do not say it.
        at: Steps at which members are scored besides the last.
        precisions: float32, bfloat16, or both, for variants that do not say it.
        radii: Of the windows.
        windows: How many.
        points: States in each.
        path: auto, plain or fast.
        device: auto, cpu, cuda or mps.
        limit_minutes: Do not begin what would end later, going by the speed of its first steps.
        keep: A folder for checkpoints: what was stopped goes on there.
        out: A JSON file to which the rows are added.
        size: Width and height of the images.
        examples: Training examples.
    """
    deadline = math.inf if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    chosen = pick_device(device)
    check_path(path, chosen, "vmap")
    if windows < 1 or points < 2 or not radii or min(radii) <= 0:
        raise UntwineError("scores need one window or more of two points or more, and radii above zero")
    plans = list(dict.fromkeys(read(text, steps, precision) for text in variants for precision in precisions))
    for plan in plans:
        check_precision(plan.precision, chosen)
    dataset = three_dots(size=size, examples=examples)
    score = functools.partial(score_members, dataset=dataset, radii=radii, windows=windows, points=points)
    specs = [plan.run(dataset, parse_seeds(seeds)) for plan in plans]  # a word that is wrong is refused before all else
    rows = Rows(out, KEYS, describe(chosen))
    with exact(chosen):
        table = Table(dataset, chosen)
        for plan, spec in zip(plans, specs, strict=True):
            if time.monotonic() > deadline:
                break
            key = {"steps": spec.steps, "precision": plan.precision, "path": path, "seeds": seeds, "radii": list(radii)}
            key |= {"windows": windows, "points": points, "dataset": dict(dataset.spec)}
            wanted = sorted({*(step for step in at if 0 < step < spec.steps), spec.steps})
            if all(rows.find(key | {"variant": name, "step": step}) for name in plan.names for step in wanted):
                continue
            free(chosen)
            where = None if keep is None else Path(keep) / spec.id
            try:
                course = Course(plan, spec, table, chosen, path, deadline, where)
                with alone(chosen):
                    for row in course.rows(wanted, score):
                        rows.put(key | row)
            except Exception as error:  # out of memory, say: the others need not suffer
                why = brief(error)
                warnings.warn(f"{plan.names[0]} ({plan.precision}) failed: {why}", stacklevel=2)
    return rows.new


def score_members(
    ensemble: Ensemble, dataset: Dataset, radii: Sequence[float], windows: int, points: int
) -> dict[str, list[float]]:
    """The members' scores by metric and radius, such as `local_mig 0.1`.

    Args:
        ensemble: The members.
        dataset: The data to score them on.
        radii: Radii of the windows.
        windows: How many windows of each radius.
        points: States in each window.
    """
    source = Source(ensemble, dataset, examples=2, jacobians=2, seed=0)
    scorer = Scorer(source, windows, points, progress=False)
    wanted = [request.at(radius) for radius in radii for request in requests(METRICS)]
    scores = {}
    for request, score in scorer.scores(wanted):
        if isinstance(score, UntwineError):
            raise score
        scores[f"{request.name} {request.radius:g}"] = score.values.tolist()
    return scores
