"""What `untwine train` does with a run: train what is left of it, and say what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from untwine.cli import output
from untwine.errors import UntwineError


def fit(run: Any, out: Path, options: dict[str, Any], as_json: bool) -> None:
    """Train what is left to train, then say what there is."""
    from untwine.scoring import results
    from untwine.train import loop
    from untwine.train.folder import FINISHED

    def finished() -> list[str]:
        return [name for name, member in results.members(out).items() if member["state"] in FINISHED]

    before = finished()
    failure = None
    try:
        loop.fit(run, out, **options)
    except (loop.Interrupted, loop.Refused):
        raise
    except UntwineError as error:
        if {member["state"] for member in results.members(out).values()} != {"diverged"}:
            raise
        failure = UntwineError("every model diverged: try a smaller learning rate (--lr), or --clip 1")
        failure.__cause__ = error
    found = results.members(out)
    trained = [name for name in finished() if name not in before]
    if as_json:
        output.as_json({"out": str(out), "trained": trained, "members": found})
    else:
        _say(out, found, trained)
    if failure is not None:
        raise failure


def _say(out: Path, found: dict[str, Any], trained: list[str]) -> None:
    if not trained:
        print(f"Nothing to train: {out} is finished.")
    elif len(trained) < len(found):
        print(f"Trained {', '.join(trained)}; the others were there already.")
    output.members(found)
    print(f"Results are in {out}")
    if any(member["state"] == "done" for member in found.values()):
        print(f'Go on in Python: import untwine; ensemble = untwine.load("{out}")')
