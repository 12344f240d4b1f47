"""The record of a run: what its folder's `run.json` says, read once and checked."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from untwine import files
from untwine._version import __version__
from untwine.errors import Unavailable, UntwineError, brief
from untwine.locations import run_folder
from untwine.model.info import Info
from untwine.model.vae import VAE
from untwine.train.folders import checkpoint
from untwine.train.folders.outline import FINISHED, damage, leads_out
from untwine.train.joining import gathered
from untwine.train.member import SILENT, Member
from untwine.train.run import Run
from untwine.train.steps.pack import build

__all__ = ["FINISHED", "FORMAT", "Record", "how_to_resume", "read", "stored"]

FORMAT = 1


def how_to_resume(path: Path) -> str:
    """The command that resumes the run of a folder."""
    return f"untwine train --resume {shlex.quote(str(path))}"


@dataclass(frozen=True)
class Record:
    """A run's folder and the content of its `run.json`."""

    path: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """The record of a folder; one that is damaged is refused."""
        folder = run_folder(path)
        return cls(folder, read(folder))

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What is written of each member: its name, seeds, state, spec and file."""
        return self.content["members"]

    def identities(self) -> dict[str, dict[str, Any]]:
        """The id of each member by its name, and the checksum of its weights, if it has any yet."""
        return {entry["name"]: {"id": entry["id"], "weights": entry.get("sha256")} for entry in self.entries}

    def run(self) -> Run:
        """The run with all its members: numbers that differ by member are gathered from them."""
        entries, spec = self.entries, self.content["run"]
        seeds = {key: [entry[key[:-1]] for entry in entries] for key in ("seeds", "data_seeds")}
        trained = {key: value for key, value in spec.items() if key not in SILENT}
        try:
            own = gathered(trained, [entry["spec"] for entry in entries])
        except (KeyError, IndexError, TypeError):
            raise UntwineError(f"{self.path}/run.json is damaged: its run and its members do not agree") from None
        with self._reading():
            return Run.from_json({**spec, **own, **seeds}, stored=True)

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """A context whose errors name the file that is read, but for those of data that are not here."""
        try:
            yield
        except Unavailable:
            raise
        except UntwineError as error:
            raise type(error)(f"{self.path}/run.json: {error}") from None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """A context in which whatever goes wrong is the file's fault."""
        try:
            with self.named():
                yield
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UntwineError(f"{self.path}/run.json is damaged: {brief(error)}") from None

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
        with self._reading():
            return Member.from_json(entry["seed"], entry["data_seed"], spec, entry["name"])

    def weights(self, entry: dict[str, Any]) -> dict[str, Tensor]:
        """The weights of a finished member; an OSError or a ValueError where they are not what they should be."""
        if leads_out(self.path, entry["file"]):
            raise ValueError(f"{self.path / entry['file']} is a link that leads out of the run's folder")
        return checkpoint.read_tensors(self.path / entry["file"], entry["sha256"])

    def trained(self, entry: dict[str, Any], info: Info) -> tuple[Member, VAE]:
        """A finished member, and its model with the weights of its file.

        Args:
            entry: One of `entries`.
            info: What `info` returns.
        """
        member = self.member(entry)
        try:
            weights = self.weights(entry)
            with self._reading():
                model = build(member, info)
            model.load_state_dict(weights)
        except (OSError, ValueError) as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
            raise UntwineError(
                f"the weights of {member.name} cannot be used: {why}; to train them again: {how_to_resume(self.path)}"
            ) from None
        except RuntimeError as error:
            why = f"do not fit its network: {_in_one_line(error)}"
            raise UntwineError(f"the weights of {member.name} in {self.path} {why}") from None
        return member, model


def read(path: Path) -> dict[str, Any]:
    """The content of a folder's `run.json`."""
    file = path / "run.json"
    if not file.is_file():
        raise UntwineError(f"{path} holds no run: there is no run.json in it")
    try:
        content = files.parse_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UntwineError(f"{file} cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UntwineError(f"{file} is not a run that untwine {__version__} can read")
    try:
        wrong = damage(content)
    except (ValueError, TypeError, OverflowError) as error:
        wrong = brief(error)
    if wrong:
        raise UntwineError(f"{file} is damaged: {wrong}")
    return content


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def stored(path: str | Path) -> Run:
    """The run of a folder with all its members, to resume it: a dataset that cannot be is refused."""
    record = Record.read(path)
    run = record.run()
    with record.named():
        run.make_dataset()
    return run
