"""A run's folder: `run.json`, `log.jsonl`, `checkpoint/`, `members/`, and the lock on all of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from untwine import files
from untwine._version import __version__
from untwine.errors import UntwineError, warn
from untwine.methods import methods
from untwine.methods.registry import as_stored
from untwine.model.info import Info
from untwine.parts import is_each
from untwine.train.folders import checkpoint
from untwine.train.folders.log import Log
from untwine.train.folders.names import file_stem, named
from untwine.train.folders.outline import leads_out
from untwine.train.folders.record import FINISHED, FORMAT, Record
from untwine.train.member import SILENT, Member
from untwine.train.run import Run


def split(names: list[str], size: int | None, number: int = 0) -> list[dict[str, Any]]:
    """Plan packs of members.

    Args:
        names: The names of the members.
        size: The most members that a pack may have; None puts all of them into one.
        number: The number of the first pack.
    """
    starts = range(0, len(names), size or max(1, len(names)))
    return [
        {"number": n, "members": names[i : i + starts.step], "state": "waiting"} for n, i in enumerate(starts, number)
    ]


def refuse_strangers(path: Path) -> None:
    """Refuse a folder that holds no run but other files; one that does not exist holds nothing."""
    if path.is_dir() and not (path / "run.json").exists():
        names = sorted(file.name for file in path.iterdir() if file.name != ".lock")
        strangers = [name for name in names if not files.is_left_behind(name, "run.json")]
        if strangers:
            raise UntwineError(f"{path} holds no run but other files ({strangers[0]!r}); choose another folder")


class Folder:
    """A run on disk. Every change is written at once.

    Args:
        path: The folder; if it holds a run already, that must agree with `run`.
        run: What to train.
        info: What is known of the data.
    """

    def __init__(self, path: Path, run: Run, info: Info):
        self.path, self.log = path, Log(path / "log.jsonl")
        for part in ("members", "checkpoint", "log.jsonl", "tensorboard"):
            if leads_out(path, part):
                raise UntwineError(f"{path / part} is a link that leads out of the run's folder: remove it")
        if (path / "run.json").exists():
            self.content = Record.read(path).content
            self._agree(run, info)
            self._verify()
        else:
            refuse_strangers(path)
            self.content = {
                "format": FORMAT,
                "untwine": __version__,
                "run": {**run.spec()},
                "shape": list(info.shape),
                "data_size": info.data_size,
                "content": run.make_dataset().content,
                "standard": info.standard and [list(row) for row in info.standard],
                "members": [],
                "packs": [],
            }
        self._add(run.members())

    def _verify(self) -> None:
        """Let finished members whose weights are gone or damaged wait to be trained again."""
        for entry in self.content["members"]:
            if entry["state"] in FINISHED:
                try:
                    self.record().weights(entry)
                except (OSError, ValueError) as error:
                    warn(f"the weights of {entry['name']} are lost ({error}); it trains again")
                    entry["state"] = "waiting"

    def _agree(self, run: Run, info: Info) -> None:
        """Refuse a run of another spec: only seeds, and numbers by member, may differ in a folder."""
        old, new = (_with_added(spec) for spec in (self.content["run"], run.spec()))
        self._refuse_other(old, new, ["holdout"])  # first, as it changes the number of examples
        if (self.content["shape"], self.content["data_size"]) != (list(info.shape), info.data_size):
            raise UntwineError(
                f"{self.path} was trained on {self.content['data_size']:,} examples of {self.content['shape']}, "
                f"but the dataset has {info.data_size:,} of {list(info.shape)} now; choose another folder"
            )
        before, now = self.content.get("content"), run.make_dataset().content
        if before is not None and before != now:
            raise UntwineError(
                f"the data has changed since {self.path} was begun, though it has the same name; choose another folder"
            )
        kept = self.content.get("standard")
        if kept and info.standard and kept != [list(row) for row in info.standard]:
            raise UntwineError(
                f"the images of {self.path} had another mean or standard deviation; choose another folder"
            )
        self._refuse_other(old, new, [key for key in new if key not in SILENT])

    def _refuse_other(self, old: dict[str, Any], new: dict[str, Any], keys: list[str]) -> None:
        """Refuse a run whose spec has other values under these keys, apart from numbers by member."""
        for key in keys:
            if _differ(old.get(key), new.get(key)):
                name, was, wanted = _where(key, old.get(key), new.get(key))
                raise UntwineError(
                    f"{self.path} holds another run: its {name} is {_short(was)}, not {_short(wanted)}; "
                    "choose another folder"
                )

    def _add(self, members: list[Member]) -> None:
        """Add the members that are not there yet."""
        known = {entry["id"] for entry in self.content["members"]}
        specs = {entry["name"]: entry["spec"] for entry in self.content["members"]}
        for member in named([member for member in members if member.id not in known], specs):
            entry = {"name": member.name, "id": member.id, "seed": member.seed, "data_seed": member.data_seed}
            self.content["members"].append({**entry, "state": "waiting", "spec": member.spec})
        self.write()

    def write(self) -> None:
        """Write `run.json`, with a checksum of its content."""
        self.content = files.sealed(self.content)
        files.write_json(self.path / "run.json", self.content)

    def entry(self, name: str) -> dict[str, Any]:
        """What is written of a member."""
        return next(entry for entry in self.content["members"] if entry["name"] == name)

    def member(self, name: str, run: Run) -> Member:
        """A member as it was planned, logged as the run asks for now."""
        entry = self.entry(name)
        for member in run.members():
            if member.id == entry["id"]:
                return dataclasses.replace(member, name=name)
        spec = run.spec()
        return self.record().member(entry, **{key: spec[key] for key in SILENT})

    def record(self) -> Record:
        """What `run.json` says now."""
        return Record(self.path, self.content)

    def packs(self, size: int | None) -> list[dict[str, Any]]:
        """The packs that are left to train: those planned earlier, then new ones of waiting members.

        Args:
            size: The most members that a new pack may have; None puts all of them into one.
        """
        planned = {name for pack in self.content["packs"] if pack["state"] != "done" for name in pack["members"]}
        waiting = [e["name"] for e in self.content["members"] if e["state"] == "waiting" and e["name"] not in planned]
        self.content["packs"] += split(waiting, size, len(self.content["packs"]))
        self.write()
        left = [pack for pack in self.content["packs"] if pack["state"] != "done"]
        if not left:  # a kill amid the removal of the last checkpoints leaves some
            checkpoint.clear(self.path / "checkpoint")
        return left

    def finish(
        self,
        pack: dict[str, Any],
        states: list[dict[str, Tensor]],
        died: list[int],
        steps: int,
        causes: Mapping[str, str] | None = None,
    ) -> None:
        """Write the members of a pack, mark it as done, and only then delete its checkpoints.

        Args:
            pack: The pack as it was planned.
            states: The state dict of each member.
            died: The step at which each member diverged, else -1.
            steps: The steps of the run.
            causes: Why members diverged, by name.
        """
        for name, state, step in zip(pack["members"], states, died, strict=True):
            file = f"members/{file_stem(name)}.safetensors"
            sha256 = checkpoint.write_tensors(self.path / file, state)
            end = {"state": "done", "steps": steps} if step < 0 else {"state": "diverged", "steps": step}
            if name in (causes or {}):
                end["cause"] = (causes or {})[name]
            self.entry(name).update(end, file=file, sha256=sha256)
        self.log.settle()
        pack.update(state="done", logged=self.log.counts[pack["number"]])
        self.write()
        checkpoint.clear(self.path / "checkpoint")

    def rewind_log(self, pack: int, step: int, logged: int | None) -> None:
        """Drop what a pack logged after its checkpoint, so that the log is that of a run without interruption.

        Args:
            pack: The number of the pack.
            step: The step of the checkpoint.
            logged: How many lines it had logged by then; None where the checkpoint does not say.
        """
        known = {other["number"]: other.get("logged") for other in self.content["packs"]} | {pack: logged}
        self.log.rewind(pack, step, {number: count for number, count in known.items() if count is not None})


def _with_added(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a run, with the arguments that its method got after such specs were stored."""
    method = spec.get("method")
    if not isinstance(method, dict) or str(method.get("name")) not in methods:
        return spec
    arguments = {key: value for key, value in method.items() if key != "name"}
    return {**spec, "method": {"name": method["name"], **as_stored(method["name"], arguments, stored=True)}}


def _differ(old: Any, new: Any) -> bool:
    """Whether two specs differ in more than numbers that one of them has by member."""
    if is_each(old) or is_each(new):
        return False
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() != new.keys() or any(_differ(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(map(_differ, old, new))
    return old != new


def _where(name: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The innermost place where two specs differ, and both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *new):
            if _differ(old.get(key), new.get(key)):
                return _where(f"{name}.{key}", old.get(key), new.get(key))
    return name, old, new


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 120 else text[:117] + "..."
