"""Serve the page until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from untwine.errors import UntwineError

HOST = "127.0.0.1"
PORT = 8422
# The server prints nothing of its own, and does not wait long for pages that are open when it stops.
QUIET: dict[str, Any] = {
    "lifespan": "off",
    "log_config": None,
    "log_level": "critical",
    "access_log": False,
    "server_header": False,
    "timeout_graceful_shutdown": 2,
}


def listen(port: int | None = None) -> socket.socket:
    """A socket on this machine alone.

    Args:
        port: Its port; None takes the usual one, or a free one where that is taken.
    """
    for wanted in (PORT, 0) if port is None else (port,):
        # asyncio sends at once (TCP_NODELAY) only where the protocol is named: else an answer would wait 40 ms.
        listener = socket.socket(proto=socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, wanted))
            listener.listen(64)  # now, so that a second server that was started meanwhile finds the port taken
            return listener
        except (OSError, OverflowError):
            listener.close()
    raise UntwineError(f"port {port} cannot be used: it is taken, or not allowed. Without --port a free one is chosen")


def address(listener: socket.socket) -> str:
    """The address of the page."""
    return f"http://{HOST}:{listener.getsockname()[1]}/"


def serve(application: ASGIApp, listener: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Serve an application until the process is told to stop.

    Args:
        application: The application.
        listener: The socket from `listen`.
        started: Called once the server answers.
    """
    server = Announcing(uvicorn.Config(application, **QUIET), started)
    with listener, _signals(lambda: setattr(server, "should_exit", True)):
        server.run(sockets=[listener])


class Announcing(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]):
        super().__init__(config)
        self.announce = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.announce()


def open_browser(url: str) -> threading.Thread:
    """Show an address in the user's browser, if there is one with a window. The server does not wait for it."""

    def show() -> None:
        with contextlib.suppress(webbrowser.Error, OSError):
            # A browser of the terminal would take the place of what the server says.
            if type(webbrowser.get()) is not webbrowser.GenericBrowser:
                webbrowser.open(url)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """A context in which Ctrl-C and SIGTERM only stop the server.

    uvicorn handles both while it serves, and afterwards raises what it has caught once more: that ends here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
