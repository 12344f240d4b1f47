"""`untwine demo`: two methods on a small dataset, side by side."""

from __future__ import annotations

import os
from typing import Any

from untwine.cli import UsageError, flags, output, tables

ABOUT = """Train two seeds of beta-VAE and two of JL1-VAE on small pictures of three dots, and compare them.

It ends with local MIG and local modularity of both, and a t-test between them. It takes a few minutes on two CPU
cores. Started again, it goes on where it was stopped.
"""


def demo(args: list[str]) -> None:
    # On a machine that is busy with other things, threads that spin while they wait make it many times slower.
    # It counts only before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from untwine.experiments import demo

    fields = [("demo", flags.arguments(demo.run, prefix=False)), flags.switch("json", flags.JSON)]
    given = flags.parse("untwine demo", ABOUT, fields, args)
    chosen = flags.values(given.demo)
    if chosen["steps"] < 1:
        raise UsageError(f"steps must be a whole number, 1 or more, not {chosen['steps']}")
    before = _finished(demo.outcome(chosen["out"]))
    found = demo.run(**chosen)
    if given.json:
        output.as_json({"out": str(chosen["out"]), **found})
        return
    trained = found["methods"]
    if before == _finished(trained):
        print("The demo was finished before; nothing was trained.")
    rows = {f"{flags.hyphens(method)} {name}": m for method, members in trained.items() for name, m in members.items()}
    output.members(rows, terms=("reconstruction", "kl", "jacobian_l1"))
    print("Lower is better. JL1-VAE gives up a little of the first two for a much smaller Jacobian.\n")
    print("Do codes follow single dots, near a picture? Local scores, from 0 to 1, higher is better:")
    for method, summary in found["scores"].items():
        tables.scores(flags.hyphens(method), summary)
    tables.comparisons(found["comparisons"])
    print("Two seeds and a thousand steps are a first look, not a result: the papers have ten, and 300,000.")
    print(f"Results are in {chosen['out']}; in Python: untwine.load({str(demo.folder(chosen['out'], 'jl1_vae'))!r})")


def _finished(found: dict[str, dict[str, Any]]) -> set[str]:
    from untwine.train.folder import FINISHED

    return {m["id"] for members in found.values() for m in members.values() if m["state"] in FINISHED}
