"""What experiments have trained and measured, on disk: shared between figures, and nothing is done twice."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from untwine import files
from untwine._version import __version__
from untwine.errors import Diverged, Unavailable, UntwineError
from untwine.experiments.engine.contract import Case, Trained
from untwine.experiments.engine.rows import Row
from untwine.train.ensemble import Ensemble, gather
from untwine.train.joining import joined, structure
from untwine.train.loop import fit
from untwine.train.member import Member, digest
from untwine.train.names import named
from untwine.train.progress import Reporter
from untwine.train.record import FINISHED, Record
from untwine.train.run import Run

OUT = "reproduced"  # the folder by default
PACK = 20  # the most members that train at once
SECONDS = "seconds.json"  # how long each run has trained
PACES = "paces.json"  # how long a step of a member takes


class Store:
    """A folder of runs and of what was measured of them.

    `runs/` has the folder of a run for all members that were trained together, `measured/` a file for each measure of
    each set of members.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._finished: dict[str, tuple[Record, dict[str, Any]]] | None = None  # read once, and after training

    # --- members -----------------------------------------------------------------------------------

    def finished(self) -> dict[str, tuple[Record, dict[str, Any]]]:
        """Every finished member: its run's record and its entry there, by id. Damaged folders are reported."""
        if self._finished is not None:
            return self._finished
        known: dict[str, tuple[Record, dict[str, Any]]] = {}
        for file in sorted((self.path / "runs").glob("*/run.json")):
            try:
                record = Record.read(file.parent)
            except UntwineError as error:
                warnings.warn(f"{error}; what it holds is trained again", stacklevel=2)
                continue
            known |= {entry["id"]: (record, entry) for entry in record.entries if entry["state"] in FINISHED}
        self._finished = known
        return known

    def missing(self, cases: Sequence[Case]) -> list[Run]:
        """The runs that have to be trained for these cases, as few as there can be."""
        known = self.finished()
        members = [member for case in cases for member in case.run.members()]
        return joined([member for member in members if member.id not in known])

    def train(self, run: Run, device: str, reporter: Reporter | bool | None = None) -> None:
        """Train the members of a run, or go on where that was interrupted.

        Args:
            run: One of `missing`.
            device: auto, cpu, cuda or mps.
            reporter: Is told of every step.
        """
        folder, begun = self.folder(run), time.monotonic()
        try:
            fit(run, folder, device, progress=reporter, pack_size=PACK)
        finally:
            self._finished = None
            if folder.is_dir():
                before = self._numbers(SECONDS).get(folder.name, 0.0)
                self._add(SECONDS, folder.name, before + time.monotonic() - begun)

    def folder(self, run: Run) -> Path:
        """Where a run is trained: its name follows from its members."""
        return self.path / "runs" / digest(sorted(member.id for member in run.members()))

    def trained(self, case: Case, device: torch.device) -> Trained:
        """The trained members of a case; those that diverged are left out.

        Args:
            case: The case, all of whose members are finished.
            device: Where to compute with them.
        """
        known = self.finished()
        wanted = [member.id for member in case.run.members()]
        by_folder: dict[Path, list[str]] = {}
        for name in wanted:
            if name not in known:
                raise Unavailable(f"a model of {dict(case.columns)} is not trained")
            by_folder.setdefault(known[name][0].path, []).append(name)
        alive = [name for name in wanted if known[name][1]["state"] == "done"]
        if not alive:
            raise Diverged(f"every member of {dict(case.columns)} diverged")
        parts = [gather(known[names[0]][0], device, names) for names in by_folder.values() if set(names) & set(alive)]
        models, histories = {}, {}
        for part in parts:
            for i, member in enumerate(part.members):
                models[member.id] = member, part.member(i)
                histories[member.id] = list(of_member(part.history, member.name))
        members = named([models[name][0] for name in alive])
        ensemble = Ensemble(members, [models[name][1] for name in alive], device)
        ensemble.run = case.run
        return Trained(case.columns, ensemble, ensemble.dataset(), [histories[name] for name in alive])

    def facts(self, cases: Sequence[Case]) -> dict[str, Any]:
        """How many members these cases have, how many of them diverged, on what they were trained, and for how long."""
        known, ids = self.finished(), {member.id for case in cases for member in case.run.members()}
        mine = [known[name] for name in ids if name in known]
        folders = {record.path.name: record for record, _ in mine}
        packs = [pack for record in folders.values() for pack in record.content["packs"]]
        seen = [{key: pack.get(key) for key in ("hardware", "path", "torch", "threads")} for pack in packs]
        seconds = self._numbers(SECONDS)
        return {
            "members": len(ids),
            "diverged": sum(entry["state"] == "diverged" for _, entry in mine),
            "trained_on": [dict(items) for items in dict.fromkeys(tuple(one.items()) for one in seen)],
            "training_seconds": round(sum(seconds.get(name, 0.0) for name in folders), 1),
        }

    # --- times -------------------------------------------------------------------------------------

    def paces(self, members: Sequence[Member], hardware: str) -> list[float | None]:
        """The seconds of a step of each member, from the last time that one like it trained; None where none did.

        Args:
            members: The members.
            hardware: What they would train on.
        """
        known = self._numbers(PACES)
        return [known.get(_kind(member, hardware)) for member in members]

    def note_pace(self, member: Member, hardware: str, seconds: float) -> None:
        """Write down the seconds of a step of one member, in a pack as it trained.

        Args:
            member: One of the members.
            hardware: What it trained on.
            seconds: The seconds.
        """
        self._add(PACES, _kind(member, hardware), seconds)

    def _numbers(self, file: str) -> dict[str, float]:
        path = self.path / file
        try:
            return json.loads(path.read_text()) if path.exists() else {}
        except ValueError:
            return {}

    def _add(self, file: str, name: str, number: float) -> None:
        content = self._numbers(file) | {name: number}
        files.write(self.path / file, (json.dumps(content, indent=1) + "\n").encode())

    # --- measurements ------------------------------------------------------------------------------

    def measured(self, key: Mapping[str, Any], members: Sequence[str] = ()) -> list[Row] | None:
        """The rows that were measured before, in the same way by the same version; None if there are none.

        Args:
            key: What was measured, as JSON.
            members: Of which members, by id.
        """
        file = self._file(key, members)
        if not file.exists():
            return None
        try:
            return json.loads(file.read_text())["rows"]
        except (ValueError, KeyError, TypeError):
            return None  # damaged, and so measured again

    def keep(self, key: Mapping[str, Any], members: Sequence[str], rows: Sequence[Row]) -> None:
        """Write down what was measured."""
        content = {"key": dict(key), "members": list(members), "rows": list(rows)}
        files.write(self._file(key, members), (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def _file(self, key: Mapping[str, Any], members: Sequence[str]) -> Path:
        return self.path / "measured" / f"{digest([dict(key), list(members), __version__])}.json"


def _kind(member: Member, hardware: str) -> str:
    """A name for members that cost the same: they differ in numbers, seeds and steps alone."""
    return digest([structure({**member.spec, "steps": 0, "log_every": 0, "watch": []}), hardware])


def of_member(history: Sequence[Mapping[str, Any]], name: str) -> Iterator[Row]:
    """The lines of a log that are about a member."""
    for line in history:
        if name in line["members"]:
            yield {"step": line["step"], **line["members"][name]}
