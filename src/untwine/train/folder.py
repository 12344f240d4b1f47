"""A run's folder: `run.json`, `log.jsonl`, `checkpoint/`, `members/`, and the lock on all of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import warnings
from pathlib import Path
from typing import Any

from torch import Tensor

from untwine._version import __version__
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.parts import is_each
from untwine.train import checkpoint
from untwine.train.run import SILENT, Member, Run

FORMAT = 1
FINISHED = ("done", "diverged")


def read(path: Path) -> dict[str, Any]:
    """The content of a folder's `run.json`."""
    file = path / "run.json"
    if not file.is_file():
        raise UntwineError(f"{path} holds no run: there is no run.json in it")
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UntwineError(f"{file} cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UntwineError(f"{file} is not a run that untwine {__version__} can read")
    wrong = _damage(content)
    if wrong:
        raise UntwineError(f"{file} is damaged: {wrong}")
    return content


_ENTRY = {"name": str, "id": str, "seed": int, "data_seed": int, "state": str, "spec": dict}


def _damage(content: dict[str, Any]) -> str:
    """What is wrong with the outline of a `run.json`, if anything is."""
    for key, kind in (("run", dict), ("shape", list), ("data_size", int), ("members", list), ("packs", list)):
        if not isinstance(content.get(key), kind):
            return f"its {key!r} is missing or not what it should be"
    for entry in content["members"]:
        for key, kind in _ENTRY.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(key), kind):
                return f"the {key!r} of a member is missing or not what it should be"
        if entry["state"] in FINISHED and not isinstance(entry.get("file"), str):
            return f"{entry['name']} has no file"
    names = {entry["name"] for entry in content["members"]}
    for pack in content["packs"]:
        if not isinstance(pack, dict) or not isinstance(pack.get("members"), list) or "state" not in pack:
            return "a pack is not what it should be"
        if not set(pack["members"]) <= names:
            return "a pack has a member that is not in the list"
    if not _is_standard(content.get("standard"), content["shape"]):
        return "its 'standard' is not what it should be"
    return "" if content["members"] else "it has no members"


def _is_standard(value: Any, shape: list[int]) -> bool:
    """Nothing, or a mean and a positive standard deviation for each channel."""
    if value is None:
        return True
    rows = value if isinstance(value, list) and len(value) == 2 else []
    numbers = [one for row in rows if isinstance(row, list) and len(row) == shape[0] for one in row]
    return len(numbers) == 2 * shape[0] and all(isinstance(one, float) for one in numbers) and min(rows[1]) > 0


def to_member(entry: dict[str, Any]) -> Member:
    """A member from its entry in `run.json`."""
    return Member(entry["seed"], entry["data_seed"], entry["spec"], entry["name"])


def how_to_resume(path: Path) -> str:
    return f"untwine train --resume {shlex.quote(str(path))}"


def stored(path: str | Path) -> Run:
    """The run of a folder with all its members: numbers that differ by member are gathered from them."""
    content = read(Path(path))
    entries, spec = content["members"], content["run"]
    seeds = {key: [entry[key[:-1]] for entry in entries] for key in ("seeds", "data_seeds")}
    trained = {key: value for key, value in spec.items() if key not in SILENT}
    try:
        gathered = _gathered(trained, [entry["spec"] for entry in entries])
    except (KeyError, IndexError, TypeError):
        Run.from_json({**spec, "seeds": [0]})  # says what is wrong with the run itself, if it is that
        raise UntwineError(f"{path}/run.json is damaged: its run and its members do not agree") from None
    return Run.from_json({**spec, **gathered, **seeds})


def _gathered(spec: Any, members: list[Any]) -> Any:
    if isinstance(spec, dict) and not is_each(spec):
        return {key: _gathered(value, [member[key] for member in members]) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_gathered(value, [member[i] for member in members]) for i, value in enumerate(spec)]
    return {"each": members} if is_each(spec) or len(set(members)) > 1 else spec


def split(names: list[str], size: int | None, number: int = 0) -> list[dict[str, Any]]:
    """Packs of at most `size` members (all of them if None), numbered from `number` on."""
    starts = range(0, len(names), size or max(1, len(names)))
    return [
        {"number": n, "members": names[i : i + starts.step], "state": "waiting"} for n, i in enumerate(starts, number)
    ]


class Folder:
    """What is known of a run on disk. Every change is written at once, whole."""

    def __init__(self, path: Path, run: Run, info: Info):
        self.path = path
        if (path / "run.json").exists():
            self.content = read(path)
            self._agree(run, info)
            self._verify()
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
                "content": run.make_dataset().content,
                "standard": info.standard and [list(one) for one in info.standard],
                "members": [],
                "packs": [],
            }
        self._add(run.members())

    def _verify(self) -> None:
        """A finished member whose weights are gone or damaged waits to be trained again."""
        for entry in self.content["members"]:
            if entry["state"] in FINISHED:
                try:
                    checkpoint.read_tensors(self.path / entry["file"], entry["sha256"])
                except (OSError, ValueError) as error:
                    warnings.warn(f"the weights of {entry['name']} are lost ({error}); it trains again", stacklevel=5)
                    entry["state"] = "waiting"

    def _agree(self, run: Run, info: Info) -> None:
        """A folder gathers members of one spec; only seeds, and numbers given by member, may differ."""
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
        if kept and info.standard and kept != [list(one) for one in info.standard]:
            raise UntwineError(
                f"the images of {self.path} had another mean or standard deviation; choose another folder"
            )
        old, new = self.content["run"], run.spec()
        for key in new:
            if key not in SILENT and _differ(old.get(key), new[key]):
                name, was, wanted = _where(key, old.get(key), new[key])
                raise UntwineError(
                    f"{self.path} holds another run: its {name} is {_short(was)}, not {_short(wanted)}; "
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

    def member(self, name: str, run: Run) -> Member:
        """A member as it was planned, logged as the run of now wants it."""
        member = to_member(self.entry(name))
        return dataclasses.replace(member, spec={**member.spec, **{key: run.spec()[key] for key in SILENT}})

    def packs(self, size: int | None) -> list[dict[str, Any]]:
        """Packs still to train: those planned earlier as they are, then new ones of waiting members."""
        planned = {name for pack in self.content["packs"] if pack["state"] != "done" for name in pack["members"]}
        waiting = [e["name"] for e in self.content["members"] if e["state"] == "waiting" and e["name"] not in planned]
        self.content["packs"] += split(waiting, size, len(self.content["packs"]))
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
        lines = file.read_text(errors="replace").splitlines(keepends=True)
        kept = []
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line may be cut off
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
    if is_each(old) or is_each(new):
        return False
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() != new.keys() or any(_differ(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(map(_differ, old, new))
    return old != new


def _where(name: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The innermost place where two specs differ, and what they have there."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *new):
            if _differ(old.get(key), new.get(key)):
                return _where(f"{name}.{key}", old.get(key), new.get(key))
    return name, old, new


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 120 else text[:117] + "..."
