"""A process that calls a function for one spec at a time, and what it tells the process that started it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Mapping
from multiprocessing.connection import wait
from typing import Any

from untwine.errors import Interrupted, UntwineError, brief
from untwine.launch.tasks import attempt_packed, prepared, sent

PATIENCE = 60.0  # seconds that a worker has to save its work when it is interrupted

# What a worker says first of an answer.
READY, REFUSED, STOPPED, DONE = "ready", "refused", "stopped", "done"


class Worker:
    """A process of this machine.

    Args:
        place: Variables of its environment, which say what it may use.
        work: The function and what is called before it, as `packed` returned them.
    """

    def __init__(self, place: Mapping[str, str], work: bytes):
        self.place, self.number, self.ready = place, -1, False
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, work), daemon=True)
        with _environment(place), _interrupts_held():
            self.process.start()
        theirs.close()

    def give(self, number: int, spec: bytes) -> None:
        """Send a spec to work on; a worker that died meanwhile is noticed when its answer is read.

        Args:
            number: The place of the spec among all.
            spec: The spec, as `packed` returned it.
        """
        self.number = number
        with contextlib.suppress(OSError):
            self.connection.send((number, spec))

    def answer(self) -> tuple[str, Any] | None:
        """What it says: one of the words above, and a reason or the outcome in bytes. None where the process died."""
        try:
            word, content = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.ready = self.ready or word == READY
        return word, content

    def interrupt(self) -> None:
        """Ask it to save its work and to stop."""
        self.process.terminate()

    def end(self) -> int | None:
        """Wait until it has ended, and return its exit code: below zero, the signal that ended it."""
        self.connection.close()
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


def _work(connection: Any, work: bytes) -> None:
    """What a worker does: answer until there is nothing left, or until its parent is gone."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        with terminated_as_interrupted():
            try:
                function, prepare = pickle.loads(work)
                prepared(prepare)
            except Interrupted:
                raise
            except Exception as error:
                said = str(error) if isinstance(error, UntwineError) else f"a worker cannot begin: {brief(error)}"
                connection.send((REFUSED, said))
                return
            connection.send((READY, ""))
            while True:
                number, spec = connection.recv()
                connection.send((DONE, sent(attempt_packed(function, number, spec))))
    except Interrupted as error:
        with contextlib.suppress(OSError):
            connection.send((STOPPED, str(error)))
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            connection.send((STOPPED, ""))
    except (EOFError, OSError):
        pass


def _follow_parent() -> None:
    """Stop this process, with its work saved, when its parent has died: else it would keep the folder locked."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold SIGINT back while a process is started, which never sees one then: a terminal sends Ctrl-C to all.

    The process that started it says when to stop, and how (`Worker.interrupt`).
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment while a process is started."""
    old = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
