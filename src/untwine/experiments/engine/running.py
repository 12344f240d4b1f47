"""Reproduce an experiment: train what is missing, measure, draw, judge, and write it down."""

from __future__ import annotations

import functools
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from untwine._version import __version__
from untwine.arguments import checked
from untwine.bench.devices import describe
from untwine.errors import Diverged, Interrupted, Unavailable, UntwineError, warn
from untwine.experiments.engine import catalogue
from untwine.experiments.engine.contract import Case, Experiment, Fact, Measure, Plan, Trained
from untwine.experiments.engine.costs import changed
from untwine.experiments.engine.findings import judge, overall
from untwine.experiments.engine.result import Result, text_of
from untwine.experiments.engine.rows import Row, Rows, checked_rows
from untwine.experiments.engine.store import OUT, Store
from untwine.launch.costs import hardware
from untwine.launch.mapping import Engine, check
from untwine.launch.tasks import Means
from untwine.launch.units import work
from untwine.locks import locked
from untwine.progress import track
from untwine.report.saving import save
from untwine.train.devices import pick_device
from untwine.train.member import digest

# What leaves a part of an experiment out, and does not end it.
MISSING = (Unavailable, Diverged)
LONGEST = 100  # characters of a folder's name, as systems allow about 255 bytes


@dataclass
class Outcome:
    """What drawings are given: our rows, the paper's, and the trained members of each case."""

    rows: Rows
    published: Rows
    cases: Sequence[Case]
    open: Callable[[Case], Trained]

    def trained(self, **columns: Any) -> Trained:
        """The members of the one case that has these columns."""
        found = [case for case in self.cases if all(case.columns.get(k) == v for k, v in columns.items())]
        if len(found) != 1:
            raise UntwineError(f"{len(found)} cases have {columns}; one is needed")
        return self.open(found[0])


@checked("device")
def reproduce(
    name: str,
    scale: Literal["smoke", "small", "paper"] = "small",
    device: str = "auto",
    out: str | Path = OUT,
    seeds: str | None = None,
    settings: Mapping[str, Any] | None = None,
    again: bool = False,
    engine: Engine = "inline",
    workers: int | None = None,
    gpus: float | None = None,
    address: str | None = None,
    prepare: Callable[[], None] | None = None,
    progress: bool | None = None,
) -> Result:
    """Reproduce a figure or a table, and return what came of it.

    What was trained or measured before in the same folder is not done again, whichever figure it was done for; what
    was interrupted goes on. Data that are not there leave their part out, and the result says so.

    Args:
        name: The paper and the figure: rhodes2021/fig4.
        scale: smoke (seconds: it runs), small (at most 15 minutes on two cores) or paper (its own settings).
        device: auto, cpu, cuda or mps.
        out: The folder of all that is trained, measured and drawn.
        seeds: Other seeds than the scale's, such as 0-4.
        settings: Other settings than the scale's, such as `{"eps": 0.001}`; the result gets a folder of its own.
        again: Measure also what was measured before.
        engine: What trains: inline (here), processes (on this machine, one for each GPU or core) or ray.
        workers: The most packs of models that train at once; by default as many as there are GPUs, or cores.
        gpus: GPUs for each pack; by default one where there are any. Ray also takes parts, such as 0.5.
        address: The address of a Ray cluster, or "auto"; by default Ray is started on this machine.
        prepare: Is called in each worker first, to import parts of your own.
        progress: Whether to show progress bars; by default on a terminal.
    """
    experiment = catalogue.find(name)
    changes = changed(seeds, settings)
    settings = experiment.settings(scale, **changes)
    plan, store, target = experiment.plan(settings), Store(out), pick_device(device)
    folder = store.path / name / folder_name(scale, changes)
    means = Means(workers, gpus, address=address, prepare=prepare)
    check(engine, means)
    store.refuse_place(folder)
    begun = time.monotonic()
    problems: list[str] = []
    published = Rows(plan.published)
    try:
        with locked(folder):  # the same command elsewhere would write the same result
            how = functools.partial(work, engine=engine, means=means, progress=progress)
            _train(plan, store, device, f"{name} ({scale})", problems, how)
            opened: dict[int, Trained] = {}

            def open_case(case: Case) -> Trained:
                if id(case) not in opened:
                    opened[id(case)] = store.trained(case, target)
                return opened[id(case)]

            rows = Rows(_measure(experiment, plan, store, open_case, again, problems, progress))
            with experiment.blamed("a claim"):
                findings = judge(plan.claims, rows, published, experiment.hidden.get(scale, ""))
            outcome = Outcome(rows, published, plan.cases, open_case)
            drawn = tuple(_draw(experiment, plan, outcome, folder, problems))
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted("interrupted; what was done is kept: the same command goes on from there") from None
    about = {"untwine": __version__, "python": platform.python_version(), **describe(target)}
    about |= {"seconds": round(time.monotonic() - begun, 1), **store.facts(plan.cases)}
    result = Result(
        name=name,
        scale=scale,
        claim=experiment.claim,
        settings=settings,
        changes=changes,
        verdict=overall(findings),
        findings=tuple(findings),
        rows=rows,
        published=published,
        figures=drawn,
        caveats=(*plan.caveats, *other_settings(experiment, settings)),
        problems=tuple(dict.fromkeys(problems)),
        about=about,
    )
    result.write(folder)
    return result


def other_settings(experiment: Experiment, settings: Mapping[str, Any]) -> list[str]:
    """A sentence with the settings that are not the paper's, each beside the paper's; none where all are.

    Args:
        experiment: The experiment, whose defaults are the paper's settings.
        settings: The settings of a result.
    """
    usual = experiment.settings("paper")
    other = [
        f"{key} {text_of(value) or 'none'} instead of {text_of(usual[key]) or 'none'}"
        for key, value in settings.items()
        if value != usual[key]
    ]
    return [f"Settings other than those of the scale paper: {'; '.join(other)}."] if other else []


def folder_name(scale: str, changes: Mapping[str, Any]) -> str:
    """The name of a result's folder: the scale, and what differs from its settings.

    Args:
        scale: smoke, small or paper.
        changes: The settings that differ.

    >>> folder_name("paper", {}), folder_name("paper", {"seeds": "0-4", "columns": None})
    ('paper', 'paper-seeds-0-4-columns-none')
    >>> folder_name("smoke", {"betas": [-1, 2]}), len(folder_name("smoke", {"betas": list(range(999))}))
    ('smoke-betas-minus1-2', 117)
    >>> folder_name("paper", {"known": "results/quality.json", "rho": 0.03})
    'paper-known-results-quality-json-rho-0.03'
    """
    words = [word for key, value in changes.items() for word in (key, "none" if value is None else str(value))]
    plain = [re.sub(r"(?<![\w.])-(?=[\d.])", "minus", word) for word in words]
    # A dot stays within numbers alone: the name of a folder must not end as that of a file does.
    name = "-".join([scale, *(re.sub(r"(?:(?<!\d)\.|\.(?!\d)|[^\w.])+", "-", word).strip("-") for word in plain)])
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{digest(words)}"


def _train(
    plan: Plan, store: Store, device: str, what: str, problems: list[str], how: Callable[..., Iterator[Any]]
) -> None:
    """Train what is missing; a run that cannot be trained, for want of its data, is a problem, not the end."""
    for unit, done in how(store.units(plan.cases, device), what=f"training for {what}"):
        problems += done["problems"]
        for note in done["notes"]:
            warn(note)
        if unit.run is not None and done["pace"] is not None:
            store.note_pace(unit.run.members()[0], hardware(device), done["pace"])
    store.forget()


def _measure(
    experiment: Experiment,
    plan: Plan,
    store: Store,
    open_case: Callable[[Case], Trained],
    again: bool,
    problems: list[str],
    progress: bool | None,
) -> Iterator[Row]:
    """The rows of all facts, and of all measures of all cases."""
    for fact in track(plan.facts, "measuring data", len(plan.facts), progress):
        key = {"fact": fact.name, "arguments": dict(fact.arguments)}
        with experiment.blamed(f"the fact {fact.name!r}"):
            known = _kept(store, key, (), functools.partial(_of_fact, fact), again, problems)
        yield from known
    pairs = [(case, measure) for case in plan.cases for measure in plan.measures]
    for case, measure in track(pairs, "measuring models", len(pairs), progress):
        ids = [member.id for member in case.run.members()]
        with experiment.blamed(f"the measure {getattr(measure, 'name', type(measure).__name__)!r}"):
            compute = functools.partial(_of_case, measure, case, open_case)
            known = _kept(store, measure.key, ids, compute, again, problems)
        yield from ({**case.columns, **row} for row in known)


def _of_fact(fact: Fact) -> list[Row]:
    return [dict(row) for row in fact.function(**fact.arguments)]


def _of_case(measure: Measure, case: Case, open_case: Callable[[Case], Trained]) -> list[Row]:
    return measure(open_case(case))


def _kept(
    store: Store,
    key: Mapping[str, Any],
    members: Sequence[str],
    compute: Callable[[], list[Row]],
    again: bool,
    problems: list[str],
) -> list[Row]:
    """Rows that were measured before, or else are measured now; none, and a problem, where that cannot be."""
    known = None if again else store.measured(key, members)
    if known is not None:
        return known
    try:
        rows = checked_rows(compute())
    except MISSING as error:
        problems.append(_first_line(error))
        return []
    store.keep(key, members, rows)
    return rows


def _draw(experiment: Experiment, plan: Plan, outcome: Outcome, folder: Path, problems: list[str]) -> Iterator[str]:
    """Draw every figure as PNG and SVG, and yield the names of the PNGs."""
    for name, draw in plan.figures.items():
        try:
            with experiment.blamed(f"the picture {name!r}"):
                figure = draw(outcome)
                for kind in ("png", "svg"):
                    save(figure, folder / f"{name}.{kind}")
        except UntwineError as error:
            if not problems and not isinstance(error, MISSING):
                raise  # all that it needs is there
            problems.append(f"{name} is not drawn: {_first_line(error)}")
            continue
        yield f"{name}.png"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(":")
