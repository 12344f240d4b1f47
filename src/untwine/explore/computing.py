"""A thread that computes answers, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any


class Computer:
    """Calls functions one by one in a thread of its own.

    It is one thread because torch starts its own threads for every thread that calls it. The process does not wait for
    it to end, as it would for a `ThreadPoolExecutor`: a model's data may be on their way for minutes.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
        self.busy = False
        Thread(target=self._work, name="explore", daemon=True).start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The future result of a function, which is called after those that were asked for before.

        Args:
            function: The function.
            arguments: Its arguments.
        """
        future: Future[Any] = Future()
        self._jobs.put((future, function, arguments))
        return future

    def _work(self) -> None:
        while True:
            future, function, arguments = self._jobs.get()
            if not future.set_running_or_notify_cancel():  # the page was closed meanwhile
                continue
            self.busy = True
            try:
                result = function(*arguments)
            except BaseException as error:
                self.busy = False
                future.set_exception(error)
            else:
                self.busy = False
                future.set_result(result)
