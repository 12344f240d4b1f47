"""The server of the page: this machine only, and nothing but the page itself may talk to it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from untwine.errors import UntwineError, brief
from untwine.explore.answers import Answers
from untwine.explore.computing import Computer

PAGE = Path(__file__).parent / "page"
LARGEST_QUESTION = 2**16  # bytes of JSON
LARGEST_UPLOAD = 20 * 2**20  # bytes of a picture
HOSTS = {"127.0.0.1", "localhost", "::1"}
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Refused(UntwineError):
    """A request that is not answered.

    Args:
        status: The HTTP status.
        why: The reason.
    """

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def application(answers: Answers, computer: Computer) -> ASGIApp:
    """The page, and the questions that it asks.

    Args:
        answers: What answers them.
        computer: Where the answers are computed.
    """

    async def computed(function: Callable[..., dict[str, Any]], *arguments: Any) -> Response:
        begun = time.perf_counter()
        try:
            answer = await asyncio.wrap_future(computer.call(function, *arguments))
        except UntwineError as error:  # no failure of the request, and none in the browser's log: the page shows it
            answer = {"error": str(error)}
        except Exception as error:  # a fault of ours: one line here, and one on the page
            print(f"untwine: {function.__name__} failed: {brief(error)}", file=sys.stderr)
            answer = {"error": f"this failed by a fault of untwine ({brief(error)})"}
        took = 1000 * (time.perf_counter() - begun)
        return JSONResponse(answer, headers={"Server-Timing": f"answer;dur={took:.1f}"})

    def asked(function: Callable[[Any], dict[str, Any]]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return await computed(function, _question(await _body(request, LARGEST_QUESTION)))

        return answer

    async def overview(request: Request) -> Response:
        return JSONResponse(answers.overview())

    async def upload(request: Request) -> Response:
        return await computed(answers.upload, dict(request.query_params), await _body(request, LARGEST_UPLOAD))

    questions = {name: getattr(answers, name) for name in ("model", "decode", "columns", "start")}
    routes = [
        *(Route(path, _file(file)) for path, file in _files().items()),
        Route("/api/runs", overview),
        Route("/api/upload", upload, methods=["POST"]),
        *(Route(f"/api/{name}", asked(function), methods=["POST"]) for name, function in questions.items()),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={Refused: _refusal, ClientDisconnect: _gone}))


class Guard:
    """Refuses requests that were not sent to this machine by name, or not by the page itself.

    A page on the internet can make its own name point to 127.0.0.1 and so reach a local server ("DNS rebinding"): the
    Host header then has that name. It can also post to a local server from its own origin. Ports are left out, so that
    the page may be forwarded to another one, as ssh -L does.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(key.lower().encode(), value.encode()) for key, value in _HEADERS.items()]
            await send(message)

        why = _suspicious(Request(scope))
        if why:
            await JSONResponse({"error": why}, 403)(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)


def _suspicious(request: Request) -> str:
    """Why a request is refused; empty if it is not."""
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or _name(f"//{hosts[0]}") not in HOSTS:
        return "this server answers only to 127.0.0.1 and localhost"
    if any(origin != f"http://{hosts[0]}" for origin in request.headers.getlist("origin")):
        return "this server answers only to its own page"
    return ""


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _files() -> dict[str, Path]:
    """The files of the page by their addresses. Nothing else on the disk has an address."""
    return {"/": PAGE / "index.html", **{f"/{file.name}": file for file in PAGE.iterdir() if file.suffix in _KINDS}}


def _file(file: Path) -> Callable[[Request], Any]:
    content, kind = file.read_bytes(), _KINDS[file.suffix]

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


async def _body(request: Request, most: int) -> bytes:
    """The body of a request, refused as soon as it is known to be too large."""
    why = f"this is too large: {most // 2**20} MB are the most" if most >= 2**20 else "this question is too long"
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > most:
        raise Refused(413, why)
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > most:
            raise Refused(413, why)
    return bytes(content)


def _question(body: bytes) -> dict[str, Any]:
    try:
        question = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "this question is not JSON") from None
    if not isinstance(question, dict):
        raise Refused(400, "a question is a JSON object")
    return question


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse({"error": str(error)}, error.status)


async def _gone(request: Request, error: Exception) -> Response:
    """No one reads this: the page was closed while it asked."""
    return Response(status_code=400)
