"""A folder of trained members that many sweeps and figures share: nothing in it is trained twice."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from untwine import files
from untwine.errors import UntwineError
from untwine.train.folders.folder import refuse_strangers
from untwine.train.folders.record import FINISHED, Record
from untwine.train.joining import groups, run_of, structure
from untwine.train.loop import fit
from untwine.train.member import Member, digest
from untwine.train.remarks.progress import Reporter
from untwine.train.run import Run

PACK = 20  # the most members that train at once
SECONDS = "seconds"  # how long each run has trained, a file for each
NOTES = "notes"  # what was warned of before each run began, a file for each
PACES = "paces.json"  # how long a step of a member takes


class Members:
    """A folder with `runs/`, which has the folder of a run for all members that were trained together.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._records: list[Record] | None = None  # read once, and after training
        self._damaged: set[Path] = set()  # folders without a record that can be read

    def records(self) -> list[Record]:
        """The record of every run. Damaged folders are reported."""
        if self._records is None:
            self._records, self._damaged = [], set()
            for path in sorted((self.path / "runs").glob("*")):
                try:
                    refuse_strangers(path)
                    if (path / "run.json").exists():
                        self._records.append(Record.read(path))
                except UntwineError as error:
                    self._damaged.add(path)
                    warnings.warn(f"{error}; what it holds is trained again, in another folder", stacklevel=2)
        return self._records

    def forget(self) -> None:
        """Read the folder again: something was trained, here or by another process."""
        self._records = None

    def finished(self) -> dict[str, tuple[Record, dict[str, Any]]]:
        """Every finished member: its run's record and its entry there, by id."""
        return {
            entry["id"]: (record, entry)
            for record in self.records()
            for entry in record.entries
            if entry["state"] in FINISHED
        }

    def places(self) -> dict[str, tuple[Record, dict[str, Any]]]:
        """Where every member is, by id: its run's record and its entry there. One that is finished comes first."""
        entries = [(entry["id"], (record, entry)) for record in self.records() for entry in record.entries]
        return dict(entries) | self.finished()

    def missing(self, members: Sequence[Member], pack: int = PACK) -> list[tuple[Run, Path]]:
        """What has to be trained for these members: runs of one pack each, and their folders.

        Runs that were begun and are not finished go on. All others are cut from all the members that are asked for,
        whatever is finished already, so that an interruption does not change which members train together.

        Args:
            members: The members.
            pack: The most members of a run.
        """
        known, wanted = self.finished(), {member.id: member for member in members}
        missing = {name for name in wanted if name not in known}
        found: list[tuple[Run, Path]] = []
        for record in self.records():
            left = {entry["id"] for entry in record.entries if entry["state"] not in FINISHED}
            if left and left <= missing:
                try:
                    found.append((record.run(), record.path))
                except UntwineError as error:  # a part of it is not known here
                    warnings.warn(f"{error}; its members are trained elsewhere", stacklevel=2)
                    continue
                missing -= left
        for group in groups(list(wanted.values())):
            for i in range(0, len(group), pack):
                here = [member for member in group[i : i + pack] if member.id in missing]
                if here:
                    run = run_of(here)
                    found.append((run, self.folder(run)))
        return found

    def folder(self, run: Run) -> Path:
        """Where a run is trained: its name follows from its members. A damaged folder stays as it is."""
        self.records()
        name = digest(sorted(member.id for member in run.members()))
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        return next(path for name in names if (path := self.path / "runs" / name) not in self._damaged)

    def train(self, run: Run, folder: Path, device: str, reporter: Reporter | bool | None = None) -> None:
        """Train the members of a run, or go on where that was interrupted.

        Args:
            run: One of `missing`.
            folder: Its folder.
            device: auto, cpu, cuda or mps.
            reporter: Is told of every step.
        """
        begun = time.monotonic()
        try:
            fit(run, folder, device, progress=reporter)
        finally:
            self.forget()
            if folder.is_dir():
                before = self.seconds(folder.name)
                files.write_sealed(self.path / SECONDS / f"{folder.name}.json", before + time.monotonic() - begun)

    # --- what was warned of ------------------------------------------------------------------------

    def notes(self, folder: str) -> list[str]:
        """What was warned of before a run began to train: nobody says it again once it is trained."""
        return files.read_sealed(self.path / NOTES / f"{folder}.json") or []

    def keep_notes(self, folder: str, texts: Sequence[str]) -> None:
        """Write down what was warned of.

        Args:
            folder: The name of the run's folder.
            texts: The warnings.
        """
        known = self.notes(folder)
        kept = list(dict.fromkeys([*known, *texts]))
        if kept != known:
            files.write_sealed(self.path / NOTES / f"{folder}.json", kept)

    # --- times -------------------------------------------------------------------------------------

    def seconds(self, folder: str) -> float:
        """How long a run has trained; 0 where nobody wrote it down."""
        file = self.path / SECONDS / f"{folder}.json"
        value = files.read_sealed(file)
        if value is None and file.exists():
            warnings.warn(f"{file} is damaged: the time of that run is not counted", stacklevel=2)
        return float(value) if isinstance(value, int | float) else 0.0

    def paces(self, members: Sequence[Member], hardware: str) -> list[float | None]:
        """The seconds of a step of each member, from the last time that one like it trained; None where none did.

        Args:
            members: The members.
            hardware: What they would train on.
        """
        known = files.read_sealed(self.path / PACES) or {}
        return [known.get(kind(member, hardware)) for member in members]

    def note_pace(self, member: Member, hardware: str, seconds: float) -> None:
        """Write down the seconds of a step of one member, in a pack as it trained.

        Args:
            member: One of the members.
            hardware: What it trained on.
            seconds: The seconds.
        """
        known = files.read_sealed(self.path / PACES) or {}
        files.write_sealed(self.path / PACES, known | {kind(member, hardware): seconds})


def check_pack(pack: int) -> None:
    """Refuse packs without members."""
    if pack < 1:
        raise UntwineError(f"pack must be 1 or more, not {pack}")


def kind(member: Member, hardware: str) -> str:
    """A name for members that cost the same: they differ in numbers, seeds and steps alone.

    Args:
        member: One of the members.
        hardware: What it trains on.
    """
    return digest([structure({**member.spec, "steps": 0, "log_every": 0, "watch": []}), hardware])
