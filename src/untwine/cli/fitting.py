"""Train a run and print its members, for `untwine train` and `untwine train --resume`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from untwine.cli import output
from untwine.differences import listed
from untwine.errors import Interrupted, UntwineError


def fit(run: Any, out: Path, options: dict[str, Any], as_json: bool) -> None:
    """Train the members that are not finished, then print all members.

    Args:
        run: The run.
        out: Its folder.
        options: Arguments of `untwine.fit`.
        as_json: Whether to print JSON.
    """
    from untwine.cli.lengths import Forecast
    from untwine.scoring import results
    from untwine.train import loop
    from untwine.train.folders.record import FINISHED

    def finished() -> list[str]:
        return [name for name, member in results.members(out).items() if member["state"] in FINISHED]

    before = finished()
    failure = None
    left = len(run.seeds) - len(before)
    try:
        loop.fit(run, out, **options, progress=Forecast(left))
    except (Interrupted, loop.Refused):
        raise
    except UntwineError as error:
        ended = results.members(out).values()
        if {member["state"] for member in ended} != {"diverged"}:
            raise
        why = next((member["cause"] for member in ended if "cause" in member), "try a smaller learning rate (--lr)")
        failure = UntwineError(f"every model diverged: {why}")
        failure.__cause__ = error
    members = results.members(out)
    trained = [name for name in finished() if name not in before]
    if as_json:
        output.as_json({"out": str(out), "trained": trained, "members": members})
    else:
        _print_members(out, members, trained)
    if failure is not None:
        raise failure


def _print_members(out: Path, members: dict[str, Any], trained: list[str]) -> None:
    if not trained:
        output.say(f"Nothing to train: {out} is finished.")
    elif len(trained) < len(members):
        output.say(f"Trained {listed(trained)}; the others were there already.")
    output.members(members)
    output.say(f"Results are in {out}")
    if any(member["state"] == "done" for member in members.values()):
        output.say(f"A page about it: untwine report {shlex.quote(str(out))}")
        output.say(f"Continue in Python: import untwine; ensemble = untwine.load({str(out)!r})")
