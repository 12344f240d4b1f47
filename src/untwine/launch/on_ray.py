"""The engine of Ray: this machine, or a cluster by its address."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from untwine.errors import Interrupted, Unavailable, UntwineError, brief
from untwine.launch.tasks import Function, Means, Outcome, attempt_packed, packed, packed_work, prepared, received, sent
from untwine.launch.worker import PATIENCE, terminated_as_interrupted

AHEAD = 1000  # tasks that Ray is given at a time; it starts as many as there is room for
SECONDS_TO_ANSWER = 20.0  # for a cluster
TOKEN = "RAY_AUTH_MODE"  # whether Ray shows a cluster its token
PASSED_ON = ("UNTWINE_", "OMP_", "ATEN_CPU_CAPABILITY")  # what such variables begin with reaches a cluster's workers


def outcomes(function: Function, specs: Sequence[Any], means: Means) -> Iterator[Outcome]:
    """The outcome of each spec, as soon as it is known. Ray gives the spec of a worker that died to another.

    Args:
        function: Is called for each spec, wherever Ray has room.
        specs: What it is called with.
        means: The cluster, what each spec needs, and how often it is tried.
    """
    ray = _ray()
    with contextlib.redirect_stdout(_WithoutRay(sys.stdout)):
        begun = not ray.is_initialized()
        if begun:
            _connect(ray, means)
        try:
            with terminated_as_interrupted():
                yield from _outcomes(ray, function, specs, means)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; what was done is kept") from None
        finally:
            if begun:
                ray.shutdown()


class _WithoutRay(io.TextIOBase):
    """What others print to a stream; Ray prints pages about every worker that dies, and has them in its log too."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        return len(text) if threading.current_thread().name.startswith("ray_") else self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


def check(means: Means) -> None:
    """Refuse parts of several GPUs, a cluster that does not answer, and all where Ray is not installed."""
    if means.gpus is not None and means.gpus > 1 and means.gpus != int(means.gpus):
        raise UntwineError(f"Ray gives a part of one GPU, or whole ones; not {means.gpus}")
    _show_token(means)
    _ray()
    if means.address is not None:
        _refuse_unreachable(means.address)


def _outcomes(ray: Any, function: Function, specs: Sequence[Any], means: Means) -> Iterator[Outcome]:
    dumps = ray.cloudpickle.dumps
    gpus = _gpus(ray, means)
    work = ray.put((packed_work(function, means.prepare, dumps), os.getcwd(), sys.path, gpus))
    texts = [packed(spec, f"spec {number}", dumps) for number, spec in enumerate(specs)]
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=means.retries, retry_exceptions=False)(_task)
    pending: dict[Any, int] = {}
    left = iter(enumerate(texts))
    ahead = min(AHEAD, means.workers or AHEAD)
    try:
        while True:
            while len(pending) < ahead and (following := next(left, None)) is not None:
                pending[task.remote(work, *following)] = following[0]
            if not pending:
                return
            (ready,), _ = ray.wait(list(pending), num_returns=1)
            answer = _answer(ray, ready, pending[ready], means)
            del pending[ready]
            if not isinstance(answer, Outcome):
                raise Interrupted(answer)
            yield answer
    finally:
        for reference in pending:
            ray.cancel(reference)
        if pending:  # those that train save their work
            with contextlib.suppress(ray.exceptions.RayError):
                ray.wait(list(pending), num_returns=len(pending), timeout=PATIENCE)


def _answer(ray: Any, reference: Any, number: int, means: Means) -> Outcome | str:
    """What came of a task; a text where it was interrupted."""
    errors = ray.exceptions
    died = (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.LocalRayletDiedError)
    try:
        answer = ray.get(reference)
        return received(number, answer) if isinstance(answer, bytes) else answer
    except errors.TaskCancelledError:
        return "interrupted: the task was cancelled"
    except died as error:
        why = str(error).strip().partition("\n")[0]
        return Outcome(number, error=f"its worker died {means.retries + 1} times, the last time: {why}")
    except errors.RayTaskError as error:
        return Outcome(number, error=f"a worker cannot do it: {brief(error.cause)}", details=str(error))
    except errors.RayError as error:
        return Outcome(number, error=f"Ray: {brief(error)}")


def _task(work: tuple[bytes, str, list[str], float], number: int, spec: bytes) -> bytes | str:
    """What a worker of Ray does, in the folder of the driver: an outcome; a text where it was interrupted."""
    from ray import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps  # type: ignore[attr-defined]
    text, folder, places, gpus = work
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore what cancels a task
    sys.path += [place for place in places if place not in sys.path]  # it finds the modules that the driver finds
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        function, prepare = pickle.loads(text)
        prepared(prepare)
        return sent(attempt_packed(function, number, spec), dumps)
    except (Interrupted, KeyboardInterrupt) as error:
        return str(error) or "interrupted"
    except UntwineError as error:
        return sent(Outcome(number, error=str(error)))


def _gpus(ray: Any, means: Means) -> float:
    """The GPUs of each task; nobody would say anything of tasks that wait for more than there are."""
    most = max((node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    each = (1 if most else 0) if means.gpus is None else means.gpus
    if each > most:
        has = "this machine has" if means.address is None else "the largest node of the cluster has now"
        sentence = f"each worker would need {each:g} GPUs, but {has} {most:g}"
        if means.address is None:
            raise UntwineError(sentence)
        warnings.warn(f"{sentence}: tasks wait until there is a larger one", stacklevel=2)
    return each


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # where no GPU is asked for, none is hidden
    try:
        import ray
    except ImportError:
        raise Unavailable("Ray is not installed: pip install 'untwine[ray]'") from None
    return ray


def _connect(ray: Any, means: Means) -> None:
    """Start Ray on this machine, or join a cluster."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if means.address is None:  # its processes have this one's environment
        settings |= {"include_dashboard": False, "num_cpus": means.workers, "address": "local"}
    else:
        variables = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        settings |= {"address": means.address, "runtime_env": {"env_vars": variables}}
    try:
        ray.init(**settings)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        where = "on this machine" if means.address is None else f"at {means.address}"
        first = str(error).strip().partition("\n")[0]
        raise UntwineError(f"Ray cannot be reached {where}: {first}") from None


def _show_token(means: Means) -> None:
    """Show a cluster the token that this user has: where one exists, `ray start` makes clusters that ask for it.

    Ray does so by itself for "auto" alone. A cluster that asks for none takes no notice. The variable is read when
    Ray is imported; a user's own value stays.
    """
    has = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (Path.home() / ".ray/auth_token").exists()
    if means.address not in (None, "auto") and has:
        os.environ.setdefault(TOKEN, "token")


@functools.cache  # an error is not kept
def _refuse_unreachable(address: str) -> None:
    """Refuse the address of a machine that does not answer, or of no cluster: Ray would try for minutes.

    A process of its own asks, since Ray cannot be asked with a limit of time.
    """
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdecimal():
        return  # "auto", or another name that Ray knows
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER).close()
        asked = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER)
    except (OSError, OverflowError) as error:  # at once, where nobody listens: Ray would ask again and again
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    except subprocess.TimeoutExpired:
        why = f"nothing of Ray's answers within {SECONDS_TO_ANSWER:g} s"
    else:
        if asked.returncode == 0:
            return
        if "AuthenticationError" in asked.stderr:
            raise UntwineError(
                f"the Ray cluster at {address} asks for a token: copy ~/.ray/auth_token of the machine on which it was "
                "started to this one, or set RAY_AUTH_TOKEN; or start it with RAY_AUTH_MODE=disabled"
            )
        why = asked.stderr.strip().rpartition("\n")[2] or f"exit code {asked.returncode}"
    raise UntwineError(f"there is no Ray cluster at {address} ({why:.200}): ray start --head says its address")
