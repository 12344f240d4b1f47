"""What engines are given and what they give back: the same for all of them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from untwine.errors import Interrupted, UntwineError, brief
from untwine.failures import failure

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Outcome:
    """What became of one spec.

    Args:
        number: The place of the spec among all.
        value: What the function returned.
        error: Why it did not, in one line; None where it did.
        details: The traceback of an error that is not one of ours.
    """

    number: int
    value: Any = None
    error: str | None = None
    details: str = ""


@dataclass(frozen=True)
class Means:
    """What an engine may use.

    Args:
        workers: The most specs that are worked on at once; None leaves it to the engine.
        gpus: The GPUs that each spec needs; None is one where there are any. Ray also takes parts, such as 0.5.
        retries: How often a spec whose worker died is tried again.
        address: The address of a Ray cluster; None is this machine.
        prepare: Is called in each worker first, to import a user's own parts.
    """

    workers: int | None = None
    gpus: float | None = None
    retries: int = 3
    address: str | None = None
    prepare: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise UntwineError(f"workers must be 1 or more, not {self.workers}")
        if self.gpus is not None and not self.gpus >= 0:
            raise UntwineError(f"gpus must be 0 or more, not {self.gpus}")
        if self.retries < 0:
            raise UntwineError(f"retries must be 0 or more, not {self.retries}")


def attempt(function: Function, number: int, spec: Any) -> Outcome:
    """Call the function for one spec. Its errors become an outcome; an interruption goes on up.

    Args:
        function: The function.
        number: The place of the spec among all.
        spec: The spec.
    """
    try:
        return Outcome(number, function(spec))
    except Interrupted:
        raise
    except UntwineError as error:
        return Outcome(number, error=str(error))
    except SystemExit as stop:  # it would end a user's script here, and a worker elsewhere
        return Outcome(number, error=f"it called sys.exit({'' if stop.code is None else repr(stop.code)})")
    except Exception as error:
        line = failure(error)  # a full disk, no memory: no bug, and nobody wants its traceback
        if line is not None:
            return Outcome(number, error=line)
        return Outcome(number, error=brief(error), details=traceback.format_exc())


def prepared(prepare: Callable[[], None] | None) -> None:
    """Call what a worker does first; an UntwineError says why it cannot begin."""
    if prepare is None:
        return
    try:
        prepare()
    except UntwineError as error:
        raise UntwineError(f"a worker cannot begin: {error}") from None
    except (Exception, SystemExit) as error:
        raise UntwineError(f"a worker cannot begin: {brief(error)}") from error


def packed(value: Any, what: str, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """A value as other processes can read it.

    Args:
        value: The function, or a spec.
        what: What it is, for the error where that cannot be.
        dumps: Does it; Ray has one that takes more.
    """
    try:
        return dumps(value)
    except Exception as error:
        why = f"{what} cannot be sent to other processes ({brief(error)})"
        raise UntwineError(f"{why}: a function stands at the top of a module; or take the engine inline") from None


def sent(outcome: Outcome, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """An outcome as another process can read it; a result that cannot be sent is the failure of its spec.

    Args:
        outcome: The outcome.
        dumps: As in `packed`.
    """
    try:
        return dumps(outcome)
    except Exception as error:  # of pickle, which has many
        why = f"what it returned cannot be sent to another process: {brief(error)}"
        return dumps(Outcome(outcome.number, error=why))


def received(number: int, content: bytes) -> Outcome:
    """The outcome that `sent` made; a result that cannot be read here is the failure of its spec.

    Args:
        number: The place of the spec among all.
        content: What was sent.
    """
    try:
        return pickle.loads(content)
    except Exception as error:  # of the classes in it, which are a user's
        return Outcome(number, error=f"what it returned cannot be read by another process: {brief(error)}")


def packed_work(
    function: Function, prepare: Callable[[], None] | None, dumps: Callable[[Any], bytes] = pickle.dumps
) -> bytes:
    """A function and what is called before it, as other processes can read them.

    Args:
        function: The function.
        prepare: What is called first.
        dumps: As in `packed`.
    """
    packed(prepare, "prepare", dumps)
    return packed((function, prepare), "the function", dumps)


def attempt_packed(function: Function, number: int, spec: bytes) -> Outcome:
    """As `attempt`, of a spec that `packed` returned: one that cannot be read here fails alone.

    Args:
        function: The function.
        number: The place of the spec among all.
        spec: The spec.
    """
    return attempt(lambda text: function(pickle.loads(text)), number, spec)
