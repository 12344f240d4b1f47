"""Two questions of our own: how to estimate the Jacobian, and what its columns cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import untwine as uw
from untwine.arguments import Count
from untwine.bench import pace
from untwine.bench.variants import read_variant
from untwine.errors import UntwineError, refuse_unknown
from untwine.experiments.engine.comparisons import Alike, Higher
from untwine.experiments.engine.contract import Case, Fact, Plan, Trained, case, experiment
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.measures import Computed
from untwine.experiments.engine.rows import Row
from untwine.experiments.rhodes2021.published import ALIKE, BETA_VAE, MEASURES, WORDS
from untwine.experiments.rhodes2021.runs import (
    SMALL,
    SMALL_SCORES,
    SMOKE,
    SMOKE_SCORES,
    TOO_SHORT,
    Size,
    boxes,
    dots_run,
    scored,
    size_caveats,
)
from untwine.train.run import Precision
from untwine.train.seeds import parse_seeds

ONE, ALL = "one sampled column", "every column"
EXACT, DEFAULT, PAPER = "exact, every column", "differences of .1", "differences of .001, every column"

# Arguments of jl1_vae that differ from its defaults (one sampled column, differences of .1).
ESTIMATORS: dict[str, dict[str, Any]] = {
    EXACT: {"columns": None, "estimator": "exact"},
    "exact": {"estimator": "exact"},
    "central differences of .1": {"estimator": "central"},
    PAPER: {"columns": None, "eps": 0.001},
    "differences of .1, every column": {"columns": None},
    "differences of .001": {"eps": 0.001},
    "differences of .01": {"eps": 0.01},
    "differences of .03": {"eps": 0.03},
    DEFAULT: {},
    "differences of .3": {"eps": 0.3},
    "differences of 1": {"eps": 1.0},
}
COSTS: dict[str, dict[str, Any]] = {
    PAPER: {"columns": None, "eps": 0.001},
    "one column at every fourth step": {"every": 4},
    "one column at every second step": {"every": 2},
    "one column of a quarter of the images": {"images": 0.25},
    "one column": {},
    "two columns": {"columns": 2},
    "five columns": {"columns": 5},
    "every column": {"columns": None},
}


def cases(models: Mapping[str, Mapping[str, Any]], anneal: int, beta: float, gamma: float, *rest: Any) -> list[Case]:
    """β-VAE, if it is among the models, and JL1-VAE with the arguments of each; `rest` as in `dots_run`."""
    made = []
    for label, arguments in models.items():
        sparse = {**arguments, "beta": beta, "gamma": gamma, "anneal": anneal}
        plain = label == BETA_VAE
        method = uw.methods.beta_vae(beta=beta, anneal=anneal) if plain else uw.methods.jl1_vae(**sparse)
        made.append(case(dots_run(method, *rest), **columns_of(label, arguments)))
    return made


def columns_of(label: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a model's rows; those of differences have a step, too."""
    columns: dict[str, Any] = {"model": label}
    if label != BETA_VAE and "estimator" not in arguments:
        taken = arguments.get("columns", 1)
        which = {None: ALL, 1: ONE}.get(taken, f"{taken} sampled columns")
        columns |= {"eps": arguments.get("eps", 0.1), "columns": which}
    return columns


def known_scores(path: str, steps: int, models: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """The scores of a file of `untwine bench quality`, as rows, with the seconds that a model took on its GPU.

    Args:
        path: The file.
        steps: The step at which models were scored.
        models: The arguments of `jl1_vae` by the model's name. Variants that are not among them are left out.
    """
    try:
        stored = json.loads(Path(path).read_text())["rows"]
    except (OSError, ValueError, KeyError) as error:
        raise UntwineError(f"{path} is no file of `untwine bench quality`: {error}") from None
    rows: list[Row] = []
    for row in stored:
        label = _model(row["variant"], models)
        if label is None or row["step"] != steps or row.get("diverged"):
            continue
        seeds = parse_seeds(row["seeds"])
        own = columns_of(label, models[label])
        for measure in MEASURES:
            for radius in row["radii"]:
                both = zip(seeds, row[f"{measure} {radius:g} values"], strict=True)
                rows += [{**own, "rho": radius, "seed": s, "measure": measure, "value": v} for s, v in both]
        if row.get("ms_per_step"):
            each = row["ms_per_step"] / 1e3 * steps / len(seeds)
            rows += [{**own, "seed": seed, "measure": "seconds", "value": each} for seed in seeds]
    return rows


def _model(variant: str, models: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The model whose arguments a stored variant has; None if there is none."""
    try:
        known = read_variant(variant, 1, "float32")
    except UntwineError:  # an option that was taken out since
        return None
    if known.layout:
        return None
    if known.method == "beta_vae":
        return BETA_VAE if BETA_VAE in models else None
    return next((label for label, own in models.items() if label != BETA_VAE and dict(known.arguments) == own), None)


def seconds(trained: Trained, steps: int) -> list[Row]:
    """The seconds that a member takes to train, in a pack of all members: timed anew, a block of steps for each."""
    members = trained.ensemble.members
    run = uw.Run.from_json({**members[0].spec, "seeds": [member.seed for member in members]}, stored=True)
    each = pace.measured(run, trained.ensemble.device, steps, blocks=len(members)).blocks
    return trained.rows("seconds", [run.steps * second for second in each])


def _planned(
    models: Sequence[str], arguments: Mapping[str, Mapping[str, Any]], known: str, anneal: int, *rest: Any
) -> dict[str, Any]:
    """The cases of a plan, the scores that a file has of other models, and what to say of these.

    Args:
        models: The names of models; with none, all of `arguments`, or with a file those that it has.
        arguments: The arguments of each model by its name.
        known: The file; "" trains every model.
        anneal: As in `cases`, like `rest` from there on.
    """
    refuse_unknown("model", models, arguments)
    size, steps = rest[2], rest[4]
    chosen = {label: dict(arguments[label]) for label in models or arguments}
    if not known:
        return dict(cases=cases(chosen, anneal, *rest), caveats=size_caveats(size))
    before = {row["model"] for row in known_scores(known, steps, chosen)}
    if not before:
        raise UntwineError(f"{known} has no scores of these models after {steps:,} steps")
    missing = {label: chosen[label] for label in models if label not in before}
    caveat = (
        f"Of these models, {'; '.join(label for label in chosen if label in before)}: scores and seconds are those of "
        f"{Path(known).name}, which `untwine bench quality` wrote over time, with its own seeds, on its own hardware, "
        "and not all with the same version, whose kernels became quicker."
    )
    facts = [Fact("known scores", known_scores, dict(path=known, steps=steps, models=chosen))]
    return dict(cases=cases(missing, anneal, *rest), facts=facts, caveats=[*size_caveats(size), caveat])


def _better(text: str, first: str, second: str) -> Claim:
    return Higher(text, "local_mig", {"model": first}, {"model": second}, {"rho": 0.1})


def _equal(text: str, first: str, second: str) -> Claim:
    return Alike(text, "local_mig", {"model": first}, {"model": second}, ALIKE["local_mig"], {"rho": 0.1})


def _whose(label: str) -> str:
    return "the paper's own estimator" if label == PAPER else label


_ESTIMATORS = {BETA_VAE: {}, **ESTIMATORS}
_COSTS = {BETA_VAE: {}, **COSTS}


@experiment(
    "rhodes2021/estimators",
    claim="ours: one column by differences of .1 scores as the paper's estimator does, exact columns lower",
    smoke={**SMOKE, **SMOKE_SCORES, "models": (BETA_VAE, EXACT, DEFAULT, "differences of .3")},
    small={**SMALL, **SMALL_SCORES, "seeds": "0-2", "models": ("exact", DEFAULT, "differences of .001")},
    hidden={"small": TOO_SHORT},
)
def estimators(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gamma: float = 0.1,
    models: tuple[str, ...] = (),
    known: str = "",
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    rho: tuple[float, ...] = (0.03, 0.1),
    windows: Count = 20,
    points: Count = 10_000,
) -> Plan:
    """Local scores by the estimator of the Jacobian: exact, one-sided and central differences, and their step.

    Not in the paper, which takes every column by differences of .001. All else is as in Figure 4. `known` is a file of
    `untwine bench quality`: models that it scored after so many steps are not trained again, and without `models`
    these alone are compared.
    """
    planned = _planned(models, _ESTIMATORS, known, anneal, beta, gamma, size, seeds, steps, lr, precision)
    return Plan(
        **planned,
        measures=scored(rho, windows, points),
        claims=[
            claim(text, first, second)
            for claim, text, first, second in (
                (_better, "one column by differences of .1 beats every exact one", DEFAULT, EXACT),
                (_equal, "one column by differences of .1 is as good as every column by .001", DEFAULT, PAPER),
                (_equal, "one exact column is as good as every exact column", "exact", EXACT),
                (_better, "one column by differences of .1 beats one by .001", DEFAULT, "differences of .001"),
            )
            if not models or {first, second} <= set(models)
        ],
        figures={
            "estimators": lambda outcome: boxes(outcome, "model"),
            "steps": lambda outcome: uw.figures.lines(
                [row for row in outcome.rows.where(measure=list(MEASURES), rho=0.1) if "eps" in row],
                x="eps",
                by="columns",
                log=True,
                labels={**WORDS, "eps": "step of differences"},
            ),
        },
    )


@experiment(
    "rhodes2021/cost-of-columns",
    claim="ours: sampled columns keep the score of every column for a fraction of the GPU seconds",
    smoke={**SMOKE, **SMOKE_SCORES, "models": (BETA_VAE, "one column", "every column"), "timed": 1},
    small={**SMALL, **SMALL_SCORES, "seeds": "0-2", "models": (BETA_VAE, "one column", "every column"), "timed": 20},
    hidden={"small": TOO_SHORT},
)
def cost_of_columns(
    seeds: str = "0-9",
    steps: Count = 300_000,
    anneal: Count = 100_000,
    beta: float = 4.0,
    gamma: float = 0.1,
    models: tuple[str, ...] = (),
    known: str = "",
    size: Size = 64,
    lr: float = 1e-4,
    precision: Precision = "bfloat16",
    rho: tuple[float, ...] = (0.1,),
    windows: Count = 20,
    points: Count = 10_000,
    timed: Count = 256,
) -> Plan:
    """Local MIG against the seconds that a model takes to train, by how many columns of the Jacobian are taken.

    Not in the paper. All else is as in Figure 4, differences of .1. Seconds are those of one model in a pack of all
    seeds, by blocks of `timed` steps on the machine that scores, compiling aside. `known` is as in `estimators`.
    """
    every = [label for label in ("every column", PAPER) if not models or label in models]
    planned = _planned(models, _COSTS, known, anneal, beta, gamma, size, seeds, steps, lr, precision)
    return Plan(
        **planned,
        measures=[*scored(rho, windows, points), Computed("seconds", seconds, dict(steps=timed))],
        claims=[
            claim
            for label in every
            for claim in (
                _equal(f"one column scores as {_whose(label)} does", "one column", label),
                Higher(f"{_whose(label)} takes longer", "seconds", {"model": label}, {"model": "one column"}),
            )
        ],
        figures={
            "cost": lambda outcome: uw.figures.scatter(
                [row for row in outcome.rows if row["measure"] == "seconds" or row.get("rho") == 0.1],
                x="seconds",
                y="local_mig",
                by="model",
                same=("model", "seed"),
                labels={**WORDS, "seconds": "seconds of training a model"},
            )
        },
    )
