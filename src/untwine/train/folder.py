"""A run's folder: `run.json`, `log.jsonl`, `checkpoint/`, `members/`, and the lock on all of it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from untwine._version import __version__
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.train import checkpoint
from untwine.train.run import SILENT, Member, Run

FORMAT = 1
FINISHED = ("done", "diverged")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a folder for this process; the system lets go of it however the process ends."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("a+") as file:
        try:
            _lock(file.fileno())
        except OSError:
            file.seek(0)
            owner = file.read().strip()
            who = f"process {owner}" if owner else "another process"
            raise UntwineError(f"{path} is in use by {who}; wait for it, or choose another folder") from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read(path: Path) -> dict[str, Any]:
    """The content of a folder's `run.json`."""
    file = path / "run.json"
    if not file.is_file():
        raise UntwineError(f"{path} holds no run: there is no run.json in it")
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise UntwineError(f"{file} cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UntwineError(f"{file} is not a run that untwine {__version__} can read")
    return content


def to_member(entry: dict[str, Any]) -> Member:
    """A member from its entry in `run.json`."""
    return Member(entry["seed"], entry["data_seed"], entry["spec"], entry["name"])


def how_to_resume(path: Path) -> str:
    return f"untwine train --resume {shlex.quote(str(path))}"


def stored(path: str | Path) -> Run:
    """The run of a folder with all its members: numbers that differ by member are gathered from them."""
    content = read(Path(path))
    entries = content["members"]
    seeds = {key: [entry[key[:-1]] for entry in entries] for key in ("seeds", "data_seeds")}
    return Run.from_json({**_gathered(content["run"], [entry["spec"] for entry in entries]), **seeds})


def _gathered(spec: Any, members: list[Any]) -> Any:
    if isinstance(spec, dict) and not _is_each(spec):
        return {key: _gathered(value, [member[key] for member in members]) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_gathered(value, [member[i] for member in members]) for i, value in enumerate(spec)]
    return {"each": members} if _is_each(spec) or len(set(members)) > 1 else spec


class Folder:
    """What is known of a run on disk. Every change is written at once, whole."""

    def __init__(self, path: Path, run: Run, info: Info):
        self.path = path
        if (path / "run.json").exists():
            self.content = read(path)
            self._agree(run)
        else:
            others = [p.name for p in path.iterdir() if p.name != ".lock"]
            if others:
                raise UntwineError(f"{path} holds no run but other files ({others[0]!r}); choose another folder")
            self.content = {
                "format": FORMAT,
                "untwine": __version__,
                "run": {**run.spec()},
                "shape": list(info.shape),
                "data_size": info.data_size,
                "members": [],
                "packs": [],
            }
        self._add(run.members())

    def _agree(self, run: Run) -> None:
        """A folder gathers members of one spec; only seeds, and numbers given by member, may differ."""
        old, new = self.content["run"], run.spec()
        for key in new:
            if key not in SILENT and _differ(old.get(key), new[key]):
                raise UntwineError(
                    f"{self.path} holds another run: its {key} is {_short(old.get(key))}, not {_short(new[key])}; "
                    "choose another folder"
                )

    def _add(self, members: list[Member]) -> None:
        known = {entry["id"] for entry in self.content["members"]}
        names = {entry["name"] for entry in self.content["members"]}
        for member in members:
            if member.id in known:
                continue
            member = member.named(names)
            names.add(member.name)
            entry = {"name": member.name, "id": member.id, "seed": member.seed, "data_seed": member.data_seed}
            self.content["members"].append({**entry, "state": "waiting", "spec": member.spec})
        self.write()

    def write(self) -> None:
        checkpoint.write_json(self.path / "run.json", self.content)

    def entry(self, name: str) -> dict[str, Any]:
        return next(entry for entry in self.content["members"] if entry["name"] == name)

    def member(self, name: str) -> Member:
        return to_member(self.entry(name))

    def packs(self, size: int | None) -> list[dict[str, Any]]:
        """Packs still to train: those planned earlier as they are, then new ones of waiting members."""
        planned = {name for pack in self.content["packs"] for name in pack["members"]}
        waiting = [entry["name"] for entry in self.content["members"] if entry["name"] not in planned]
        size = size or max(1, len(waiting))
        for start in range(0, len(waiting), size):
            number = len(self.content["packs"])
            self.content["packs"].append(
                {"number": number, "members": waiting[start : start + size], "state": "waiting"}
            )
        self.write()
        return [pack for pack in self.content["packs"] if pack["state"] != "done"]

    def finish(self, pack: dict[str, Any], states: list[dict[str, Tensor]], died: list[int], steps: int) -> None:
        """Write the members of a pack; only then is it done, and only then do its checkpoints go."""
        for name, state, step in zip(pack["members"], states, died, strict=True):
            file = f"members/{name}.safetensors"
            sha256 = checkpoint.write_tensors(self.path / file, state)
            end = {"state": "done", "steps": steps} if step < 0 else {"state": "diverged", "steps": step}
            self.entry(name).update(end, file=file, sha256=sha256)
        pack["state"] = "done"
        self.write()
        checkpoint.clear(self.path / "checkpoint")

    # --- the log -----------------------------------------------------------------------------------

    def rewind_log(self, pack: int, step: int) -> None:
        """Drop what was logged after a checkpoint, so that the log is that of a run without interruption."""
        file = self.path / "log.jsonl"
        if not file.exists():
            return
        lines = file.read_text().splitlines(keepends=True)
        kept = []
        for line in lines:
            with contextlib.suppress(ValueError):  # a line may be cut off
                entry = json.loads(line)
                if line.endswith("\n") and not (entry["pack"] == pack and entry["step"] > step):
                    kept.append(line)
        if kept != lines:
            checkpoint.write(file, "".join(kept).encode())

    def log(self, entry: dict[str, Any]) -> None:
        with (self.path / "log.jsonl").open("a") as file:
            file.write(json.dumps(entry, allow_nan=False) + "\n")


def _differ(old: Any, new: Any) -> bool:
    """Whether two specs differ in more than numbers that one of them gives by member."""
    if _is_each(old) or _is_each(new):
        return False
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() != new.keys() or any(_differ(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(map(_differ, old, new))
    return old != new


def _is_each(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"each"}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 120 else text[:117] + "..."
