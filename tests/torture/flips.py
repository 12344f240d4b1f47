"""Damage to files: one flipped bit, a cut or a deletion, and what whoever reads them makes of it."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import untwine as uw
from tests.torture.children import done
from tests.torture.moments import Moments, killed_at
from tests.torture.targets import (
    METRICS,
    SCORING,
    STEPS,
    Workshop,
    download,
    public_file,
    score,
    sweep,
    train,
    train_with_checkpoints,
)
from tests.torture.verdicts import Verdict, fault_of_lines, lost
from untwine.data.files import stamps
from untwine.data.files.verify import check_derived_files, check_file
from untwine.errors import Unavailable, UntwineError
from untwine.failures import failure
from untwine.launch.members import Members
from untwine.train.remarks.progress import Reporter

Found = dict[str, Any]
MAY_LACK = "/seconds"  # how long a run took may be unknown, but not wrong


@dataclass(frozen=True)
class State:
    """A folder whose files are damaged, and how it is used then.

    Args:
        name: Its name.
        make: Makes the folder.
        use: Returns all that a user gets of it, by name.
        told: For the names of files what may differ in what is found, if a warning says so.
        keeps_time: Whether damage leaves a file's time as it was, as that of a disk does.
    """

    name: str
    make: Callable[[Path], object]
    use: Callable[[Path], Found]
    told: Mapping[str, set[str]]
    keeps_time: bool = False


class Damage:
    """Tries of one state.

    Args:
        state: The state.
        workshop: Where its folders are.
    """

    def __init__(self, state: State, workshop: Workshop):
        self.state, self.workshop = state, workshop
        self.template = workshop.root / f"state-{state.name.replace(' ', '-')}"
        self.template.mkdir()
        if (ended := done(lambda: state.make(self.template))).code not in (0, -9):
            raise RuntimeError(f"{state.name} cannot be made: {ended.said}")
        self.files = [str(file.relative_to(self.template)) for file in _files(self.template)]
        self.expected: Found | None = None

    def judged(self, number: int, rng: random.Random) -> Verdict:
        """The verdict of a try; it is made in this process, which should be a child."""
        if self.expected is None:
            self.expected, _ = self._used(self.workshop.copy(self.template))
        folder = self.workshop.copy(self.template)
        name = self.files[number % len(self.files)]
        what = damage(folder / name, rng, self.state.keeps_time)
        try:
            verdict = self._verdict(folder, name)
        finally:
            shutil.rmtree(folder)
        return Verdict(verdict.word, f"{name}, {what}: {verdict.why}")

    def _verdict(self, folder: Path, name: str) -> Verdict:
        assert self.expected is not None
        try:
            found, said = self._used(folder)
        except Exception as error:
            line = str(error) if isinstance(error, UntwineError) else failure(error)
            if line is None:
                return lost(f"{type(error).__name__}: {error}")
            wrong = fault_of_lines(line.splitlines(), _names(name), isinstance(error, Unavailable))
            return lost(wrong) if wrong else Verdict("named", line)
        differing = {
            key.rpartition("/")[2]
            for key, value in self.expected.items()
            if found.get(key) != value and (key in found or not key.endswith(MAY_LACK))
        }
        if not differing:
            return Verdict("same", said[0]) if said else Verdict("harmless")
        allowed = {what for part, parts in self.state.told.items() if part in name for what in parts}
        if differing <= allowed and any(text in line for line in said for text in _names(name)):
            return Verdict("named", said[0])
        return lost(f"{differing} changed; said was {said}")

    def _used(self, folder: Path) -> tuple[Found, list[str]]:
        """What is found in a folder, and what was warned of."""
        stamps._in_process.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self.state.use(folder)
        said = [str(warning.message) for warning in caught]
        return found, [line for line in said if str(folder) in line and "no latent is active" not in line]


def damage(file: Path, rng: random.Random, keeps_time: bool = False) -> str:
    """Damage a file, and say how."""
    content, before = bytearray(file.read_bytes()), file.stat()
    kind = rng.choices(["flip", "cut", "deletion"], [17, 3, 0 if keeps_time else 1])[0]
    if kind == "deletion" or not content:
        file.unlink()
        return "deletion"
    if kind == "flip":
        bit = rng.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        file.write_bytes(content)
    else:
        bit = 8 * rng.randrange(len(content))
        file.write_bytes(content[: bit // 8])
    if keeps_time:
        import os

        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return f"{kind} at bit {bit}"


def _files(folder: Path) -> list[Path]:
    """The files that hold something; locks do not."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".lock")]


def _names(name: str) -> list[str]:
    """Texts of which one must be in what is said of a file."""
    path = Path(name)
    stem = path.name.removeprefix(".").removesuffix(".stamp.json").removesuffix(".part.json").removesuffix(".part")
    return [
        str(path),
        f"{path.parent}/{stem}",
        str(path.with_suffix("")),
        *([stem] if "checkpoint" not in name else []),
    ]


# --- the states ---------------------------------------------------------------------------------------------


def _members(ensemble: uw.Ensemble) -> Found:
    states = [ensemble.member(i).state_dict() for i in range(len(ensemble))]
    weights = [(key, value.numpy().tobytes()) for state in states for key, value in state.items()]
    return {"weights": weights, "history": list(ensemble.history)}


def _finished(folder: Path) -> None:
    train(folder, pack_size=None)
    score(folder)


def _loaded(folder: Path) -> Found:
    """What one gets of a finished and scored run: nothing has to be computed again."""
    ensemble = uw.load(folder / "run", "cpu")
    scores = uw.evaluate(ensemble, METRICS, **SCORING)
    return _members(ensemble) | {"scores": scores.entries}


def _resumed(folder: Path) -> Found:
    """What one gets of a run that is resumed, whatever state it was in."""
    return _members(uw.resume(folder / "run", "cpu", progress=False))


class _StopAt(Reporter):
    def step(self, step: int) -> None:
        if step == STEPS - 3:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)


def _swept(folder: Path) -> Found:
    """What one gets of a sweep that is done: its table, the same again, its runs, and the times of both."""
    sweep(folder)
    home = folder / "sweep"
    found: Found = {file.name: file.read_bytes() for file in sorted(home.glob("table.*"))}
    store = Members(home)
    for path in sorted((home / "runs").iterdir()):
        ensemble = uw.load(path, "cpu")
        found |= {f"{path.name}/{key}": value for key, value in _members(ensemble).items()}
        found[f"{path.name}/scores"] = uw.evaluate(ensemble, ["mig"], **SCORING).entries
        if seconds := store.seconds(path.name):
            found[f"{path.name}/seconds"] = seconds
    return found


def _downloaded(folder: Path) -> Found:
    return {"content": download(folder / "data")}


def _checked(folder: Path) -> Found:
    """What `untwine data check` says of each file; what it does not complain of is used."""
    import os

    os.environ["UNTWINE_DATA"] = str(folder / "data" / "data")
    for check in [check_file(public_file()), *check_derived_files()]:
        if not check.ok:
            raise UntwineError(f"{check.path or check.name} {check.why or check.state}")
    return _downloaded(folder)


def _interrupted_download(folder: Path) -> None:
    data = folder / "data"
    Moments(data, killed_at(14)).install()
    download(data)


STATES = {
    state.name: state
    for state in (
        State("finished run", _finished, _loaded, {"log.jsonl": {"history"}}),
        State(
            "interrupted run",
            lambda folder: train_with_checkpoints(folder, _StopAt()),
            _resumed,
            {"log.jsonl": {"history"}},
        ),
        State("finished run, resumed", _finished, _resumed, {"log.jsonl": {"history"}, "members/": {"history"}}),
        State("sweep", sweep, _swept, {"log.jsonl": {"history"}}),
        State("data", lambda folder: download(folder / "data"), _downloaded, {}),
        State("data, rotten", lambda folder: download(folder / "data"), _checked, {}, keeps_time=True),
        State("partial download", _interrupted_download, _downloaded, {}),
    )
}
