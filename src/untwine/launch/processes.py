"""The engine of processes on this machine: one for each GPU, or a share of the cores for each."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

from untwine.errors import Interrupted, UntwineError
from untwine.launch.tasks import Function, Means, Outcome, packed, packed_work, received
from untwine.launch.worker import DONE, REFUSED, STOPPED, Worker, terminated_as_interrupted
from untwine.threads import usable_cores

UNGUARDED = 'if it is a script that calls this, the call stands below: if __name__ == "__main__":'


def outcomes(function: Function, specs: Sequence[Any], means: Means) -> Iterator[Outcome]:
    """The outcome of each spec, as soon as it is known. A spec whose worker dies is given to a new worker.

    Args:
        function: Is called for each spec, in another process.
        specs: What it is called with.
        means: How many workers there are, what they do first, and how often a spec is tried.
    """
    work = packed_work(function, means.prepare)
    texts = [packed(spec, f"spec {number}") for number, spec in enumerate(specs)]
    waiting = deque(range(len(specs)))
    deaths = [0] * len(specs)
    busy: dict[Any, Worker] = {}  # by their connections
    try:
        with terminated_as_interrupted():
            for place in environments(means, len(specs)) if specs else ():
                _give(Worker(place, work), waiting, texts, busy)
            while busy:
                for connection in wait(list(busy)):
                    worker = busy[connection]
                    answer = worker.answer()
                    if answer is None or answer[0] == STOPPED:  # it died, or somebody told it alone to stop
                        del busy[connection]
                        why = _ended(worker, stopped=answer is not None)
                        deaths[worker.number] += 1
                        if deaths[worker.number] <= means.retries:
                            waiting.appendleft(worker.number)
                        else:
                            text = f"its worker died {deaths[worker.number]} times, the last time {why}"
                            yield Outcome(worker.number, error=text)
                        if waiting:
                            _give(Worker(worker.place, work), waiting, texts, busy)
                        continue
                    word, content = answer
                    if word == DONE:
                        del busy[connection]
                        number = worker.number
                        _give(worker, waiting, texts, busy)
                        yield received(number, content)
                    elif word == REFUSED:
                        raise UntwineError(content)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; what was done is kept") from None
    finally:
        for worker in busy.values():
            worker.interrupt()
        for worker in busy.values():
            worker.end()


def check(means: Means) -> None:
    """Refuse more GPUs than there are, or a part of one, a cluster, and workers of workers."""
    if means.address is not None:
        raise UntwineError("the engine processes works on this machine alone: an address is for ray")
    if multiprocessing.current_process().daemon:
        raise UntwineError("a worker of the engine processes starts no further ones: take the engine inline in it")
    environments(means, 1)


def _give(worker: Worker, waiting: deque[int], texts: Sequence[bytes], busy: dict[Any, Worker]) -> None:
    """Give the next spec to a worker; without one the worker ends."""
    if not waiting:
        worker.end()
        return
    number = waiting.popleft()
    worker.give(number, texts[number])
    busy[worker.connection] = worker


def _ended(worker: Worker, stopped: bool) -> str:
    """How a worker ended; an error where trying again would not help, since it could not even begin."""
    code = worker.end()
    if stopped:
        return "because it was told to stop (SIGTERM)"
    if code is not None and code < 0:
        return f"by signal {-code}"
    if not worker.ready:
        raise UntwineError(f"a worker ended with code {code} before it could begin; {UNGUARDED}")
    return f"with code {code}"


def environments(means: Means, most: int) -> list[dict[str, str]]:
    """The environment of each worker: its GPUs, or its share of the cores.

    Args:
        means: How many workers there are, and the GPUs of each.
        most: The most workers that have something to do.
    """
    import torch

    devices = visible_gpus(torch.cuda.device_count())
    each = (1 if devices else 0) if means.gpus is None else means.gpus
    if each != int(each):
        raise UntwineError(f"processes need whole GPUs, not {means.gpus}; a part of one is for the engine ray")
    if each:
        count = len(devices) // int(each)
        if not count:
            raise UntwineError(f"each worker would need {int(each)} GPUs, but there are {len(devices)}")
        count = min(count, means.workers or count, most)
        groups = [devices[i * int(each) : (i + 1) * int(each)] for i in range(count)]
        return [{"CUDA_VISIBLE_DEVICES": ",".join(group)} for group in groups]
    cores = usable_cores()
    count = max(1, min(means.workers or cores, most))
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores // count))
    return [{"OMP_NUM_THREADS": threads} | ({"CUDA_VISIBLE_DEVICES": ""} if means.gpus == 0 else {})] * count


def visible_gpus(count: int) -> list[str]:
    """The GPUs of this process, by the names that CUDA_VISIBLE_DEVICES knows."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names.split(",")[:count] if names else [str(i) for i in range(count)]
