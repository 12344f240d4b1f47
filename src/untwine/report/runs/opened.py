"""Runs as they are opened to be shown: whatever can be read, and a caution for whatever cannot."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from untwine.data import Dataset
from untwine.differences import in_words, own_numbers
from untwine.errors import UntwineError
from untwine.scores import storage
from untwine.scores.scores import Scores
from untwine.scoring.collapse import active_counts
from untwine.train.devices import pick_device
from untwine.train.ensemble import Ensemble
from untwine.train.folders.history import History
from untwine.train.folders.log import read_log
from untwine.train.folders.record import Record
from untwine.train.loading import gather
from untwine.train.member import Member
from untwine.train.remarks.cautions import Caution, Known, cautions

Source = str | Path | Ensemble

_IDENTITY = re.compile(r"[0-9a-f]{16}$")


@dataclass
class OpenedRun:
    """A run, with what could be read of it.

    Args:
        name: Its name on the page: that of its folder.
        path: Its folder; None for an ensemble in memory.
        members: All members, also those that are not finished.
        states: The state of each member by name.
        ended: The step at which members diverged, by name.
        causes: Why they did, by name, where that is known.
        history: The log.
        scores: The stored scores.
        ensemble: The finished members whose weights could be read.
        damage: What could not be read.
    """

    name: str
    path: Path | None
    members: list[Member]
    states: dict[str, str]
    ended: dict[str, int] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    history: History = field(default_factory=list)
    scores: Scores = field(default_factory=lambda: Scores([]))
    ensemble: Ensemble | None = None
    damage: list[Caution] = field(default_factory=list)

    @functools.cached_property
    def dataset(self) -> Dataset | None:
        """The data of the run; None, and a caution, where they cannot be had."""
        try:
            if self.ensemble is not None:
                return self.ensemble.dataset()
        except UntwineError as error:
            self.damage.append(Caution("data", f"The data is not there: {error}", "Nothing of it is shown.", False))
        return None

    @functools.cached_property
    def active(self) -> dict[str, int | None]:
        """The number of active latents of each finished member, by name."""
        if self.ensemble is None or self.dataset is None:
            return {}
        names = [member.name for member in self.ensemble.members]
        try:
            return dict(zip(names, active_counts(self.ensemble, self.dataset), strict=True))
        except UntwineError:  # such as images that have changed since
            return {}

    def spec(self) -> dict[str, Any]:
        """The spec of the first member."""
        return self.members[0].spec


@dataclass(frozen=True)
class Case:
    """The members of a run that have the same hyperparameters, and so are seeds of one thing.

    Args:
        run: Their run.
        label: What tells this case from the others on the page.
        members: The members.
    """

    run: OpenedRun
    label: str
    members: tuple[Member, ...]

    @property
    def names(self) -> list[str]:
        """The names of all members."""
        return [member.name for member in self.members]

    def finished(self) -> list[int]:
        """The places in the run's ensemble of those members that can be looked at."""
        ensemble = self.run.ensemble
        names = set(self.names)
        return [] if ensemble is None else [i for i, m in enumerate(ensemble.members) if m.name in names]

    def history(self) -> list[dict[str, Any]]:
        """The log of these members."""
        names = set(self.names)
        kept = [
            {**line, "members": {name: terms for name, terms in line["members"].items() if name in names}}
            for line in self.run.history
        ]
        return [line for line in kept if line["members"]]

    def cautions(self) -> list[Caution]:
        """What makes these members doubtful."""
        run = self.run
        return cautions(Known(self.members, run.states, self.history(), run.ended, run.causes, run.active))


def found(sources: Sequence[Source]) -> list[Source]:
    """The runs below each folder that is not itself a run, in the order of their paths; others as they are.

    Args:
        sources: Folders of runs, folders that hold such folders, and ensembles.
    """
    runs: list[Source] = []
    for source in sources:
        if isinstance(source, Ensemble) or (Path(source) / "run.json").exists():
            runs.append(source)
            continue
        if not Path(source).is_dir():
            raise UntwineError(f"{source} is no folder: give the folder of a run, such as runs/jl1-vae-three-dots")
        below = sorted(file.parent for file in Path(source).rglob("run.json"))
        if not below:
            raise UntwineError(f"{source} holds no run: there is no run.json in it or below it")
        runs += below
    return list(dict.fromkeys(runs))


def opened(source: Source, device: str = "auto") -> OpenedRun:
    """A run with all that can be read of it. A folder whose `run.json` cannot be read is refused.

    Args:
        source: A run's folder, or an ensemble.
        device: Where to compute.
    """
    if isinstance(source, Ensemble):
        members, record = source.members, source.record
        name = source.path.name if source.path else members[0].method.replace("_", "-")
        states = {member.name: "done" for member in members}
        run = OpenedRun(name, source.path, members, states, history=list(source.history), ensemble=source)
        if run.path is None:
            run.scores = source.scores
    else:
        record = Record.read(source)
        entries = record.entries
        members = [record.member(entry) for entry in entries]
        states = {entry["name"]: entry["state"] for entry in entries}
        ended = {entry["name"]: entry["steps"] for entry in entries if entry["state"] == "diverged"}
        causes = {entry["name"]: entry["cause"] for entry in entries if "cause" in entry}
        run = OpenedRun(Path(source).resolve().name, Path(source), members, states, ended, causes)
        run.history = read_log(run.path / "log.jsonl", record.content["packs"]) if run.path else []
        run.ensemble = _ensemble(record, device, run.damage)
    if record is not None:
        try:
            run.scores = Scores(storage.of_members(storage.read(record.path), record.identities()))
        except UntwineError as error:
            run.damage.append(Caution("scores", str(error), "Score the run again: untwine evaluate.", False))
    return run


def _ensemble(record: Record, device: str, damage: list[Caution]) -> Ensemble | None:
    """The finished members whose weights can be read; a caution for each of the others."""
    target = pick_device(device)
    done = [entry["id"] for entry in record.entries if entry["state"] == "done"]
    if not done:
        return None
    try:
        return gather(record, target, done)
    except UntwineError:
        readable = []
    for member in done:
        try:
            gather(record, target, [member])
            readable.append(member)
        except UntwineError as error:
            text = f"{str(error)[:1].upper()}{str(error)[1:]}."
            damage.append(Caution("damage", text, "Train it again: untwine train --resume does so."))
    return gather(record, target, readable) if readable else None


def cases(runs: Sequence[OpenedRun]) -> list[Case]:
    """The cases of all runs, each with a label of its own.

    Args:
        runs: Opened runs, whose names tell them apart.
    """
    result = []
    for run in runs:
        groups: dict[str, list[Member]] = {}
        for member, own in zip(run.members, own_numbers([member.spec for member in run.members]), strict=True):
            groups.setdefault(in_words(own), []).append(member)
        for text, members in groups.items():
            parts = [run.name if len(runs) > 1 or not text else "", text]
            result.append(Case(run, " · ".join(filter(None, parts)), tuple(members)))
    return result


def name_apart(runs: Sequence[OpenedRun]) -> None:
    """Give each run a name that no other has: that of its folder, with as many of its parents as it takes.

    Folders that a store names by the identity of their run, which says nothing to people, are named by method and by
    the numbers that set them apart.

    Args:
        runs: Opened runs, whose names are changed.
    """
    for run, own in zip(runs, own_numbers([run.spec() for run in runs]), strict=True):
        if _IDENTITY.match(run.name):
            within = own_numbers([member.spec for member in run.members])[0]
            apart = in_words({key: value for key, value in own.items() if key not in within})
            run.name = f"{run.members[0].method.replace('_', '-')} {apart}".strip()
        elif run.path is not None:
            parts = run.path.resolve().parts
            others = [other.path.resolve().parts for other in runs if other is not run and other.path is not None]
            alike = max((_common_end(parts, other) for other in others), default=0)
            run.name = "/".join(parts[-1 - alike :])
    names = [run.name for run in runs]
    for i, run in enumerate(runs):
        if names.count(run.name) > 1:
            run.name = f"{run.name} #{names[: i + 1].count(run.name)}"


def _common_end(first: Sequence[str], second: Sequence[str]) -> int:
    """How many parts at their ends two paths share."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
