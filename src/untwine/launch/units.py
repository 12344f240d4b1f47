"""Units of work: a run of one pack to train and to score, wherever an engine sends it."""

from __future__ import annotations

import contextlib
import functools
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from untwine import data
from untwine.errors import Diverged, Unavailable, UntwineError
from untwine.launch.mapping import Engine, outcomes
from untwine.launch.members import Members
from untwine.launch.tasks import Means, Outcome
from untwine.locks import InUse, locked
from untwine.progress import counter, duration
from untwine.scores.scores import Scores
from untwine.scoring.evaluation import PartlyScored, evaluate
from untwine.scoring.results import members as known_members
from untwine.train.folders.record import FINISHED, Record
from untwine.train.remarks.describing import title
from untwine.train.remarks.progress import Reporter
from untwine.train.run import Run
from untwine.train.seeds import seeds_in_words

PATIENCE = 60.0  # seconds to wait for a folder: the worker of a driver that was killed may still be saving
STILL = 300.0  # seconds without a write after which a folder is not waited for; checkpoints are more frequent


@dataclass(frozen=True)
class Unit:
    """What one worker does at a time.

    Args:
        root: The folder of all members.
        folder: The folder of the run.
        run: What to train there; None where all of it is trained.
        device: auto, cpu, cuda or mps.
        scoring: Arguments of `evaluate`; None scores nothing.
    """

    root: Path
    folder: Path
    run: Run | None
    device: str = "auto"
    scoring: Mapping[str, Any] | None = field(default=None)

    @property
    def title(self) -> str:
        """What it trains, in a few words."""
        if self.run is None:
            return self.folder.name
        return f"{title(self.run.spec())}, seeds {seeds_in_words(self.run.seeds)}"

    def problem(self, why: str) -> str:
        """A sentence about what went wrong with it, in which it is named.

        Args:
            why: What went wrong.
        """
        return f"{self.title} (runs/{self.folder.name}): {why}" if self.run else f"runs/{self.folder.name}: {why}"

    @property
    def steps(self) -> int:
        """The steps of all its members together."""
        return 0 if self.run is None else self.run.steps * len(self.run.seeds)

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes, which may stand in other folders, make the run anew from its JSON, and the data with it."""
        run = None if self.run is None else self.run.to_json()
        return _unit, (str(self.root.absolute()), str(self.folder.absolute()), run, self.device, self.scoring)


def _unit(root: str, folder: str, run: dict[str, Any] | None, device: str, scoring: Mapping[str, Any] | None) -> Unit:
    made = None if run is None else Run.from_json(run, stored=True)
    return Unit(Path(root), Path(folder), made, device, scoring)


def work(
    units: Sequence[Unit], engine: Engine, means: Means, what: str, progress: bool | None = None
) -> Iterator[tuple[Unit, dict[str, Any]]]:
    """Compute units by an engine, and yield each with what `compute` returns, as soon as it is done.

    Args:
        units: The units.
        engine: inline, processes or ray.
        means: What the engine may use.
        what: What the bar says.
        progress: Whether to show a bar; None shows one where there is a terminal.
    """
    for root in {unit.root for unit in units}:
        root.mkdir(parents=True, exist_ok=True)
    with counter(what, sum(unit.steps for unit in units) or None, progress) as advance:
        here = engine == "inline"  # others cannot tell of single steps
        function = functools.partial(compute, advance=advance) if here else compute
        for outcome in outcomes(function, units, engine, means):
            unit = units[outcome.number]
            if not here:
                advance(unit.steps)
            yield unit, outcome.value if outcome.error is None else _failed(unit, outcome)


def _failed(unit: Unit, outcome: Outcome) -> dict[str, Any]:
    """What `compute` would return of a unit that failed; the traceback of a bug is a note."""
    notes = [outcome.details] if outcome.details else []
    return {"members": {}, "problems": [unit.problem(str(outcome.error))], "notes": notes, "pace": None, "seconds": 0.0}


def compute(unit: Unit, advance: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Train and score a unit; what was done before is not done again. Its members' results, and what went wrong.

    Warnings come back as `notes`: the terminal of another machine is no place for them.

    Args:
        unit: The unit.
        advance: Is told of steps that are done.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)

        def notes() -> list[str]:
            return [str(warning.message).replace(str(unit.folder), f"runs/{unit.folder.name}") for warning in caught]

        store, name = Members(unit.root), unit.folder.name
        done = _compute(unit, advance or (lambda more: None), lambda: store.keep_notes(name, notes()))
    return {**done, "notes": list(dict.fromkeys([*store.notes(name), *notes()]))}


def _wait(folder: Path) -> None:
    """Wait until no other process has a folder, for as long as that process makes progress."""
    told = False
    while True:
        try:
            with locked(folder, patience=PATIENCE):
                return
        except InUse as error:
            if time.time() - _last_written(folder) > STILL:
                still = f"nothing was written there for {duration(STILL)}"
                raise UntwineError(f"{error}; {still}: end that process, then the same command goes on") from None
            if not told:
                print(f"untwine: {folder} is trained by another process: waiting for it", file=sys.stderr, flush=True)
            told = True


def _last_written(folder: Path) -> float:
    """When a file of a run was last written, but for the lock."""
    last = 0.0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it was just renamed
            if path.name != ".lock":
                last = max(last, path.stat().st_mtime)
    return last


def _compute(unit: Unit, advance: Callable[[int], None], begun: Callable[[], None]) -> dict[str, Any]:
    if not unit.root.is_dir():
        raise UntwineError(f"there is no {unit.root} on {platform.node()}: all machines of a cluster share that folder")
    start, problems, pace = time.monotonic(), [], None
    if unit.folder.is_dir():
        _wait(unit.folder)
    if unit.run is not None:
        counting = Counting(advance, begun)
        try:
            run = unit.run.replace(dataset=_dataset(json.dumps(unit.run.dataset, sort_keys=True)))
            Members(unit.root).train(run, unit.folder, unit.device, counting)
        except Diverged:
            pass  # the folder says which, and at which step
        except Unavailable as error:
            problems.append(_first_line(error))  # the same for all units with these data, so it names none
        pace = counting.pace()
    scores: dict[str, dict[str, float | None]] = {}
    if unit.scoring is not None and _is_alive(unit.folder):
        try:
            scored = evaluate(unit.folder, device=unit.device, progress=False, **unit.scoring)
        except PartlyScored as error:
            scored = error.scores
            problems.append(unit.problem(_first_line(error)))
        except UntwineError as error:
            scored = Scores([])
            problems.append(unit.problem(_first_line(error)))
        scores = _by_member(scored)
    members = {} if not (unit.folder / "run.json").exists() else _results(unit.folder, scores)
    return {"members": members, "problems": problems, "pace": pace, "seconds": time.monotonic() - start}


class Counting(Reporter):
    """Counts the steps of all members.

    Args:
        advance: Is told how many are done.
        begins: Is called before the first step.
    """

    def __init__(self, advance: Callable[[int], None], begins: Callable[[], None] = lambda: None):
        self.advance, self.begins, self.members, self.done = advance, begins, 0, 0
        self.begun, self.first = 0.0, 0

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        self.begins()
        self.members, self.done = len(pack["members"]), 0
        self.step(step)
        self.begun, self.first = time.monotonic(), step

    def step(self, step: int) -> None:
        self.advance((step - self.done) * self.members)
        self.done = step

    def pace(self) -> float | None:
        """The seconds of a step of one member, in the last pack."""
        taken = (self.done - self.first) * self.members
        return (time.monotonic() - self.begun) / taken if taken else None


@functools.lru_cache(maxsize=2)
def _dataset(spec: str) -> data.Dataset:
    """The dataset of a spec; the units of a worker mostly share one."""
    return data.build(json.loads(spec))


def _is_alive(folder: Path) -> bool:
    """Whether a folder has a trained member."""
    return (folder / "run.json").exists() and any(entry["state"] == "done" for entry in Record.read(folder).entries)


def _by_member(scores: Scores) -> dict[str, dict[str, float | None]]:
    """The scores of each member by their labels."""
    found: dict[str, dict[str, float | None]] = {}
    for row in scores.rows():
        found.setdefault(row["member"], {})[row["metric"]] = row["value"]
    return found


def _results(folder: Path, scores: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
    """What is known of each finished member of a folder, by id."""
    known = known_members(folder)
    return {
        entry["id"]: {
            "state": entry["state"],
            "terms": known[entry["name"]]["terms"],
            "scores": dict(scores.get(entry["name"], {})),
        }
        for entry in Record.read(folder).entries
        if entry["state"] in FINISHED
    }


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(":")
