"""What is tortured: small pieces of work that can be begun again, and what they leave behind."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import untwine as uw
from tests.data.files.file_helpers import CONTENT, md5
from tests.torture.children import done
from untwine.data.files import store
from untwine.data.files.public import File
from untwine.data.files.tables import cached_table
from untwine.launch import sweeping
from untwine.train.remarks.progress import Reporter

STEPS = 40
METRICS = ("mig", "hoyer")
SCORING: dict[str, Any] = {"points": 100, "examples": 50, "device": "cpu", "progress": False}
SWEEP: dict[str, Any] = {
    "run": {
        "dataset": {"name": "synthetic_linear", "samples": 200},
        "network": {"name": "mlp", "hidden": [8]},
        "latents": 2,
        "steps": 12,
        "batch_size": 16,
        "log_every": 4,
        "seeds": "0-1",
    },
    "runs": [{"method": "beta_vae", "grid": {"method.beta": [0.1, 0.2]}}, {"method": "ae"}],
    "score": {"metrics": ["mig"], "points": 100},
}
TABLE = (400, 1000)  # the shape of the table that is derived from the downloaded file


@dataclass(frozen=True)
class Target:
    """A piece of work in a folder; done again, it goes on where it was interrupted.

    Args:
        name: Its name.
        work: Does it.
        begin: Makes what must be in the folder before.
        workers: Whether other processes do it.
        advice: Whether its errors have further lines, which say how to get a file by hand.
        shows: Whether it has something to show where nothing can be written, once it is done.
    """

    name: str
    work: Callable[[Path], object]
    begin: Callable[[Path], object] = lambda folder: None
    workers: bool = False
    advice: bool = False
    shows: bool = False


def run(**changes: Any) -> uw.Run:
    """A run of a quarter of a second."""
    settings: dict[str, Any] = {
        "method": uw.methods.beta_vae(0.1, likelihood="squared_error"),
        "dataset": dataset(),
        "network": uw.networks.mlp(hidden=(8,)),
        "latents": 2,
        "seeds": [0, 1],
        "steps": STEPS,
        "batch_size": 16,
        "lr": 1e-3,
        "log_every": 4,
    }
    return uw.Run(**(settings | changes))


@functools.cache
def dataset() -> uw.Dataset:
    """The data of all runs."""
    return uw.datasets.synthetic_linear(samples=200)


def train(folder: Path, device: str = "cpu", **options: Any) -> uw.Ensemble:
    """Train two packs, one after the other."""
    return uw.fit(run(), folder / "run", device, **({"progress": False, "pack_size": 1} | options))


def train_with_checkpoints(folder: Path, progress: Reporter | bool = False) -> uw.Ensemble:
    """Train a pack, with a checkpoint after each step."""
    return uw.fit(run(), folder / "run", "cpu", progress=progress, checkpoint_seconds=0)


def score(folder: Path) -> uw.Scores:
    """Score a run by two metrics."""
    return uw.evaluate(folder / "run", METRICS, **SCORING)


def sweep(folder: Path, engine: str = "inline", forked: bool = False) -> None:
    """Train and score two packs of a sweep; what went wrong with one of them is an error.

    Args:
        folder: Where.
        engine: By which engine.
        forked: Whether its workers are forked: importing torch anew takes seconds for each.
    """
    if forked:
        forks = Forks()
        multiprocessing.get_context = lambda how=None: forks  # type: ignore[assignment]
    workers = None if engine == "inline" else 2
    table = sweeping.sweep(SWEEP, folder / "sweep", engine, "cpu", workers=workers, gpus=0, progress=False)
    if table.problems:
        raise uw.UntwineError(" ".join(table.problems))


class Forks:
    """What starts processes by forking, and otherwise as if they were spawned: they have no other's connections."""

    def __init__(self) -> None:
        self.context: Any = multiprocessing.get_context("fork")
        self.ours: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def Pipe(self) -> Any:
        ours, theirs = self.context.Pipe()
        self.ours.append(ours)
        return ours, theirs

    def Process(self, target: Callable[..., object], args: tuple[Any, ...], daemon: bool = False) -> Any:
        def work() -> None:
            for connection in self.ours:
                connection.close()
            for descriptor in os.listdir("/proc/self/fd"):  # a lock would outlive a driver that is killed
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".lock"):
                        os.close(int(descriptor))
            target(*args)

        return self.context.Process(target=work, daemon=daemon)


def public_file(checksum: bool = True) -> File:
    """The file that is downloaded from this machine."""
    address = f"{os.environ['UNTWINE_TORTURE_SERVER']}/slowly/data.bin"
    return File("sub/data.bin", (address,), md5() if checksum else None, len(CONTENT))


def download(folder: Path, checksum: bool = True) -> bytes:
    """Download a file, derive a table from it, and return all that it holds."""
    os.environ |= {"UNTWINE_DATA": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    path = store.fetch(public_file(checksum))
    parts = lambda: np.array_split(np.frombuffer(path.read_bytes(), np.uint8), 10)
    table = cached_table("sub/table-v1.npy", TABLE, parts, "deriving the table")
    if np.asarray(table).tobytes() != CONTENT:
        raise AssertionError("the table is wrong")
    return path.read_bytes()


TARGETS = {
    target.name: target
    for target in (
        Target("train", train),
        Target("checkpoint", train_with_checkpoints),
        Target("download", download, advice=True, shows=True),
        Target("score", score, begin=lambda folder: train(folder, pack_size=None), shows=True),
        Target("sweep", sweep),
        Target("sweep-processes", functools.partial(sweep, engine="processes", forked=True), workers=True),
        Target("sweep-spawned", functools.partial(sweep, engine="processes"), workers=True),
    )
}


# --- what they leave behind ---------------------------------------------------------------------------------

_TIMES = ("seconds", "paces.json")  # how long things took is never the same


def outcome(folder: Path) -> dict[str, str]:
    """The checksum of every file below a folder, by its path, but for locks and for what tells of times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_dir() or path.name.endswith(".lock") or set(place.parts) & set(_TIMES):
            continue
        content = path.read_bytes()
        if path.name.endswith(".stamp.json"):
            content = json.dumps({**json.loads(content), "mtime_ns": 0}).encode()
        found[str(place)] = hashlib.sha256(content).hexdigest()
    return found


def differences(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """The files that are not as they should be, too many or missing."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


class Workshop:
    """Folders for tries, and what each target leaves without a fault.

    Args:
        root: Where they lie.
    """

    def __init__(self, root: Path):
        self.root, self.number = root, 0
        self._begun: dict[str, Path] = {}

    def fresh(self, target: Target) -> Path:
        """A new folder in which a target may begin."""
        if target.name not in self._begun:
            template = self.root / f"begun-{target.name}"
            template.mkdir()
            if (ended := done(functools.partial(target.begin, template))).code:
                raise RuntimeError(f"{target.name} cannot begin: {ended.said}")
            self._begun[target.name] = template
        return self.copy(self._begun[target.name])

    def copy(self, folder: Path) -> Path:
        """A copy of a folder, with the times of its files."""
        self.number += 1
        return Path(shutil.copytree(folder, self.root / f"try-{os.getpid()}-{self.number}", symlinks=True))

    @contextlib.contextmanager
    def tidied(self) -> Iterator[None]:
        """A context at whose end what was made in it is removed, but for what many tries begin with."""
        before = set(self.root.iterdir())
        yield
        for path in set(self.root.iterdir()) - before:
            if path.is_dir() and not path.name.startswith("begun-"):
                shutil.rmtree(path, ignore_errors=True)
