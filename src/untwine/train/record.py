"""The record of a run: what its folder's `run.json` says, read once and checked."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine._version import __version__
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.vae import VAE
from untwine.train import checkpoint
from untwine.train.joining import gathered
from untwine.train.member import SILENT, Member
from untwine.train.run import Run
from untwine.train.steps.pack import build

FORMAT = 1
FINISHED = ("done", "diverged")
_ENTRY = {"name": str, "id": str, "seed": int, "data_seed": int, "state": str, "spec": dict}


@dataclass(frozen=True)
class Record:
    """A run's folder and the content of its `run.json`."""

    path: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """The record of a folder; one that is damaged is refused."""
        return cls(Path(path), read(Path(path)))

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What is written of each member: its name, seeds, state, spec and file."""
        return self.content["members"]

    def run(self) -> Run:
        """The run with all its members: numbers that differ by member are gathered from them."""
        entries, spec = self.entries, self.content["run"]
        seeds = {key: [entry[key[:-1]] for entry in entries] for key in ("seeds", "data_seeds")}
        trained = {key: value for key, value in spec.items() if key not in SILENT}
        try:
            own = gathered(trained, [entry["spec"] for entry in entries])
        except (KeyError, IndexError, TypeError):
            Run.from_json({**spec, "seeds": [0]}, stored=True)  # says what is wrong with the run itself, if it is that
            raise UntwineError(f"{self.path}/run.json is damaged: its run and its members do not agree") from None
        return Run.from_json({**spec, **own, **seeds}, stored=True)

    def info(self) -> Info:
        """What the parts of its models may know; the data need not be there."""
        standard = self.content.get("standard")
        standard = None if standard is None else (tuple(standard[0]), tuple(standard[1]))
        latents = self.content["run"]["latents"]
        return Info(latents, tuple(self.content["shape"]), self.content["data_size"], standard)

    def member(self, entry: dict[str, Any], **settings: Any) -> Member:
        """A member from its entry.

        Args:
            entry: One of `entries`.
            settings: Values of its spec that take the place of those that are written.
        """
        spec = {**entry["spec"], **settings}
        try:
            return Member.from_json(entry["seed"], entry["data_seed"], spec, entry["name"])
        except KeyError as error:
            raise UntwineError(f"{self.path}/run.json is damaged: {entry['name']} has no {error} in its spec") from None

    def trained(self, entry: dict[str, Any], info: Info) -> tuple[Member, VAE]:
        """A finished member, and its model with the weights of its file.

        Args:
            entry: One of `entries`.
            info: What `info` returns.
        """
        member = self.member(entry)
        model = build(member, info)
        try:
            model.load_state_dict(checkpoint.read_tensors(self.path / entry["file"], entry["sha256"]))
        except (OSError, ValueError) as error:
            raise UntwineError(f"the weights of {member.name} cannot be used: {error}") from None
        except RuntimeError as error:
            raise UntwineError(f"the weights of {member.name} do not fit its network: {error}") from None
        return member, model


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
    damage = _damage(content)
    if damage:
        raise UntwineError(f"{file} is damaged: {damage}")
    return content


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
        if entry["state"] in FINISHED and (Path(entry["file"]).is_absolute() or ".." in Path(entry["file"]).parts):
            return f"the file of {entry['name']} lies outside of the run's folder"
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
    """Whether this is nothing, or a mean and a positive standard deviation for each channel."""
    if value is None:
        return True
    rows = value if isinstance(value, list) and len(value) == 2 else []
    numbers = [number for row in rows if isinstance(row, list) and len(row) == shape[0] for number in row]
    return len(numbers) == 2 * shape[0] and all(isinstance(number, float) for number in numbers) and min(rows[1]) > 0


def stored(path: str | Path) -> Run:
    """The run of a folder with all its members."""
    return Record.read(path).run()


def how_to_resume(path: Path) -> str:
    """The command that resumes the run of a folder."""
    return f"untwine train --resume {shlex.quote(str(path))}"
