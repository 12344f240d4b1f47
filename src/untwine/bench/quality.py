"""What cheaper training costs in quality: local scores of variants of a method, over several seeds."""

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
from untwine.bench.variants import read_variant
from untwine.data.contract import Dataset
from untwine.data.families.dots import three_dots
from untwine.errors import UntwineError, brief
from untwine.scoring.requests import Conditions, requests
from untwine.scoring.scorer import Scorer
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.ensemble import Ensemble
from untwine.train.paths import check_path
from untwine.train.seeds import parse_seeds
from untwine.train.steps.table import Table

# All exact columns. The paper's own estimator is "columns=none eps=0.001".
EXACT = "jl1-vae columns=none estimator=exact"
VARIANTS = (
    "beta-vae anneal=100000",
    "jl1-vae",
    "jl1-vae every=2",
    "jl1-vae every=4",
    "jl1-vae images=0.25",
    "jl1-vae eps=0.001",
    "jl1-vae columns=none eps=0.001",
    "jl1-vae estimator=central",
    EXACT,
    f"{EXACT} through=both",
    f"{EXACT} images=0.25",
    "jl1-vae estimator=exact",
    "jl1-vae columns=2 estimator=exact",
    "jl1-vae columns=3 estimator=exact",
    "jl1-vae estimator=exact images=0.25",
    "jl1-vae estimator=exact through=both",
    "jl1-vae estimator=exact images=0.25 through=both",
    "beta-vae anneal=100000 decoder_activation=silu",
    "jl1-vae estimator=exact decoder_activation=silu",
    "jl1-vae estimator=exact decoder_activation=softplus",
    "jl1-vae estimator=exact decoder_activation=gelu",
    f"{EXACT} decoder_activation=silu",
    "jl2-vae",
    "jl2-vae columns=none estimator=exact",
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

    A variant is a method with what differs from its defaults: "jl1-vae columns=1 images=0.25 precision=bfloat16
    padding=same log_variance=0 decoder_activation=silu anneal=60000 steps=160000". Several values of a number,
    "gamma=0.05,0.1", train side by side in one pack, and each has a row. Rows are written as soon as they are known,
    and rows that the file has already are not computed again. Several of these commands on one GPU, each with its own
    file, compile at the same time and train in turn.

    Args:
        variants: What to train.
        seeds: The seeds of each variant, such as 0-4.
        steps: Training steps of variants that do not name them.
        at: Steps at which members are scored besides the last.
        precisions: float32, bfloat16, or both, for variants that do not name one.
        radii: Radii of the windows, as fractions of each factor's range.
        windows: How many windows.
        points: States in each window.
        path: auto, plain or fast.
        device: auto, cpu, cuda or mps.
        limit_minutes: Begin nothing that would end later, judging by the speed of the first steps.
        keep: A folder for checkpoints, from which training that was stopped resumes.
        out: A JSON file to which the rows are added.
        size: Width and height of the images.
        examples: Training examples.
    """
    deadline = math.inf if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    chosen = pick_device(device)
    check_path(path, chosen, "vmap")
    if windows < 1 or points < 2 or not radii or min(radii) <= 0:
        raise UntwineError("scores need one window or more of two points or more, and radii above zero")
    chosen_variants = list(
        dict.fromkeys(read_variant(text, steps, precision) for text in variants for precision in precisions)
    )
    for variant in chosen_variants:
        check_precision(variant.precision, chosen)
    dataset = three_dots(size=size, examples=examples)
    score = functools.partial(score_members, dataset=dataset, radii=radii, windows=windows, points=points)
    # A run that cannot be made is refused before anything trains.
    runs = [variant.to_run(dataset, parse_seeds(seeds)) for variant in chosen_variants]
    rows = Rows(out, KEYS, describe(chosen))
    with exact(chosen):
        table = Table(dataset, chosen)
        for variant, spec in zip(chosen_variants, runs, strict=True):
            if time.monotonic() > deadline:
                break
            key = {
                "steps": spec.steps,
                "precision": variant.precision,
                "path": path,
                "seeds": seeds,
                "radii": list(radii),
                "windows": windows,
                "points": points,
                "dataset": dict(dataset.spec),
            }
            wanted = sorted({*(step for step in at if 0 < step < spec.steps), spec.steps})
            if all(rows.find(key | {"variant": name, "step": step}) for name in variant.names for step in wanted):
                continue
            free(chosen)
            folder = None if keep is None else Path(keep) / spec.id
            try:
                course = Course(variant, spec, table, chosen, path, deadline, folder)
                with alone(chosen):
                    for row in course.rows(wanted, score):
                        rows.put(key | row)
            except Exception as error:  # out of memory, say: the other variants can still train
                message = f"{variant.names[0]} ({variant.precision}) failed: {brief(error)}"
                warnings.warn(message, stacklevel=2)
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
    scorer = Scorer(ensemble, dataset, progress=False)
    conditions = [Conditions(radius, windows, points) for radius in radii]
    wanted = [request.under(one) for one in conditions for request in requests(METRICS)]
    scores = {}
    for request, score in scorer.scores(wanted):
        if isinstance(score, UntwineError):
            raise score
        scores[f"{request.name} {request.conditions.rho:g}"] = score.values.tolist()
    return scores
