"""`untwine explore`: models under one's fingers, on a page of this machine."""

from __future__ import annotations

import os

from untwine.cli import flags, output
from untwine.cli.readers import whole
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.errors import UntwineError
from untwine.progress import waiting

ABOUT = """Explore trained models on a page in the browser: move a latent, and see the picture change.

The page has a slider for each latent, the Jacobian column of each at the present point, pictures of the data or of your
own to start from, and two models side by side. It is served by this machine to itself: nothing is sent elsewhere. A
folder without a run of its own stands for all runs below it. Ctrl-C stops the server.

Examples:
- untwine explore runs/jl1
- untwine explore runs/beta runs/jl1 --open
- over ssh: ssh -L 8422:localhost:8422 HOST untwine explore runs/jl1
"""
USAGE = "untwine explore RUN [RUN ...] [OPTIONS]"
EXTRA = "explore needs further packages: pip install 'untwine[explore]'"


def explore(args: list[str]) -> None:
    paths, rest = flags.folders_first(args)
    fields = [
        flags.flag("port", whole, default=None, help="The port; a free one if 8422 is taken.", shown="8422"),
        flags.flag("device", str, default="auto", help="auto, cpu, cuda or mps."),
        flags.switch("open", "Open the page in a browser."),
    ]
    parsed = flags.parse("untwine explore RUN [RUN ...]", ABOUT, fields, rest)
    if not paths:
        raise UsageError(f"explore needs the folder of a run, before any options: {USAGE}")
    if parsed.port is not None and not 0 < parsed.port < 2**16:
        raise UsageError(f"a port is a number from 1 to 65535, not {parsed.port}")
    try:
        with waiting("loading PyTorch"):
            from untwine.explore import serving
            from untwine.explore.answers import Answers
            from untwine.explore.computing import Computer
            from untwine.explore.runs import open_runs
            from untwine.explore.server import application
            from untwine.train.devices import pick_device
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise UntwineError(EXTRA) from None
    with as_usage_errors():
        pick_device(parsed.device)
    runs = open_runs(paths, parsed.device)
    listener = serving.listen(parsed.port)
    address = serving.address(listener)

    def started() -> None:
        what = ", ".join(runs) if len(runs) <= 4 else f"{len(runs)} runs"
        output.say(f"Exploring {what} at {address}\nCtrl-C stops it.")
        if parsed.open:
            serving.open_browser(address)

    computer = Computer()
    serving.serve(application(Answers(runs), computer), listener, started)
    print("Stopped.", flush=True)
    if computer.busy:  # with a download, say: Python would end its thread in the middle of torch
        os._exit(0)
