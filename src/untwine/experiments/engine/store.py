"""What experiments have trained and measured, on disk: shared between figures, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from untwine import files
from untwine._version import __version__
from untwine.errors import Diverged, Unavailable, UntwineError
from untwine.experiments.engine.contract import Case, Trained
from untwine.experiments.engine.rows import Row
from untwine.launch.members import Members
from untwine.launch.units import Unit
from untwine.train.ensemble import Ensemble
from untwine.train.folders.names import named
from untwine.train.loading import gather
from untwine.train.member import digest

OUT = "reproduced"  # the folder by default


class Store(Members):
    """A folder of runs and of what was measured of them.

    `runs/` has the folders of runs, which sweeps know too; `measured/` has a file for each measure of each set of
    members.
    """

    def refuse_place(self, folder: Path) -> None:
        """Refuse a place where nothing can be written, before hours of training, and the folder of a run.

        Args:
            folder: Where the result goes.
        """
        if (self.path / "run.json").exists():
            raise UntwineError(f"{self.path} holds a run of its own: choose another folder (--out)")
        for place in (self.path / "runs", self.path / "measured", folder):
            files.refuse_place(place, folder=True)

    def units(self, cases: Sequence[Case], device: str) -> list[Unit]:
        """What has to be trained for these cases.

        Args:
            cases: The cases.
            device: auto, cpu, cuda or mps.
        """
        members = [member for case in cases for member in case.run.members()]
        return [Unit(self.path, folder, run, device) for run, folder in self.missing(members)]

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
        return {
            "members": len(ids),
            "diverged": sum(entry["state"] == "diverged" for _, entry in mine),
            "trained_on": [dict(items) for items in dict.fromkeys(tuple(one.items()) for one in seen)],
            "training_seconds": round(sum(map(self.seconds, folders)), 1),
        }

    # --- measurements ------------------------------------------------------------------------------

    def measured(self, key: Mapping[str, Any], members: Sequence[str] = ()) -> list[Row] | None:
        """The rows that were measured before, in the same way by the same version; None if there are none.

        Args:
            key: What was measured, as JSON.
            members: Of which members, by id.
        """
        known = files.read_sealed(self._file(key, members))
        return None if known is None else known["rows"]  # what is damaged is measured again

    def keep(self, key: Mapping[str, Any], members: Sequence[str], rows: Sequence[Row]) -> None:
        """Write down what was measured."""
        content = {"key": dict(key), "members": list(members), "rows": list(rows)}
        files.write_sealed(self._file(key, members), content)

    def _file(self, key: Mapping[str, Any], members: Sequence[str]) -> Path:
        return self.path / "measured" / f"{digest([dict(key), list(members), __version__])}.json"


def of_member(history: Sequence[Mapping[str, Any]], name: str) -> Iterator[Row]:
    """The lines of a log that are about a member."""
    for line in history:
        if name in line["members"]:
            yield {"step": line["step"], **line["members"][name]}
