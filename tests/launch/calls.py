"""Functions that tests send to other processes, and what they do to workers."""

import functools
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS_BEFORE_DEATH = 5


def square(number: float) -> Any:
    """The square; for 7 something that cannot be sent back."""
    if number < 0:
        raise ValueError("a negative number")
    return threading.Lock() if number == 7 else number * number


class OnTwo(Exception):
    """Cannot be made from what it keeps, as many exceptions of users."""

    def __init__(self, one: str, two: str):
        super().__init__(one)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def misbehave(how: str) -> Any:
    """Return or do what reaches beyond a function."""
    if how == "unreadable":
        return OnTwo("a", "b")
    if how == "exit":
        sys.exit(0)
    if how == "mute":
        raise Mute
    if how == "nested":
        import untwine as uw

        return uw.launch.map(square, [2], "processes", workers=1, gpus=0)
    return how


def stop_once(marker: str) -> str:
    """Tell this worker to stop, as a user does with kill, the first time."""
    if first(Path(marker)):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    return "done"


def prepare_badly() -> None:
    raise ValueError("no parts here")


def environment(name: str) -> str | None:
    return os.environ.get(name)


def interrupts(_: object) -> bool:
    """Whether SIGINT interrupts what this process does."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def die(spec: str) -> str:
    """Kill this process: always, or once for each marker."""
    if spec == "always" or first(Path(spec)):
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def first(marker: Path) -> bool:
    """Whether nobody was here before."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def stay(file: str) -> None:
    """Say which process this is, and stay until it is interrupted; then save something, which takes a while."""
    Path(f"{file}.new").write_text(str(os.getpid()))
    Path(f"{file}.new").rename(file)
    try:
        for _ in range(600):
            time.sleep(0.1)
    except KeyboardInterrupt:
        time.sleep(0.2)
        Path(f"{file}.saved").touch()
        raise


def refuse() -> None:
    from untwine.errors import UntwineError

    raise UntwineError("parts.py is not there")


# --- what happens to workers that train ---------------------------------------------------------------------

DEADLY = {"folder": ""}  # where workers that die write; a worker of Ray works for several tests


def die_in_training(folder: str, times: int) -> None:
    """Save every step, note at which step each pack begins, and kill the first workers after a few steps."""
    from untwine.train.loop import fit
    from untwine.train.steps.trainer import Trainer

    DEADLY["folder"] = folder
    steps = Trainer.steps
    if hasattr(steps, "__wrapped__"):
        return
    defaults = inspect.unwrap(fit).__kwdefaults__
    assert defaults is not None
    defaults["checkpoint_seconds"] = 0.0

    @functools.wraps(steps)
    def deadly(self: Any) -> Any:
        folder = DEADLY["folder"] if os.path.isdir(DEADLY["folder"]) else ""  # Ray keeps workers for later tests
        if folder:
            note(folder, "began", str(self.state.step))
        for done, entry in enumerate(steps(self)):
            if done == STEPS_BEFORE_DEATH and folder and any(first(Path(folder) / f"killed-{i}") for i in range(times)):
                os.kill(os.getpid(), signal.SIGKILL)
            yield entry

    Trainer.steps = deadly  # type: ignore[method-assign]


def note_training(folder: str, name: str, seconds: float = 0.0) -> None:
    """Note the members of each run before it is trained, and take a while for it."""
    from untwine.launch import members

    DEADLY["folder"] = ""
    fit = members.fit
    if hasattr(fit, "noted"):
        return

    @functools.wraps(fit)
    def noted(run: Any, *args: Any, **kwargs: Any) -> Any:
        note(folder, name, *(member.id for member in run.members()))
        time.sleep(seconds)
        return fit(run, *args, **kwargs)

    noted.noted = True  # type: ignore[attr-defined]
    members.fit = noted


def note(folder: str, name: str, *lines: str) -> None:
    """Add lines to a file that several processes share."""
    with (Path(folder) / name).open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def noted(folder: Path, name: str) -> list[str]:
    file = folder / name
    return file.read_text().split() if file.exists() else []


def until(happened: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until something happened."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_gone(process: int) -> bool:
    """Whether a process has ended; one that nobody has collected has."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{process}/status")
    return status.exists() and "zombie" in status.read_text()
