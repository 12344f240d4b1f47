"""`untwine demo`: two methods on a small dataset, side by side."""

from __future__ import annotations

import os
from typing import Any

from untwine.cli import flags, output, tables
from untwine.cli.usage import UsageError

ABOUT = """Train two seeds of beta-VAE and two of JL1-VAE on small pictures of three dots, and compare them.

It ends with local MIG and local modularity of both, and a t-test between them. It takes a few minutes on two CPU
cores. Started again, it resumes where it was stopped.

Examples:
- untwine demo
- untwine demo --steps 200 --out runs/short-demo
"""


def demo(args: list[str]) -> None:
    # On a busy machine, threads that spin while they wait make it many times slower. This must be set before torch is
    # loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from untwine.experiments import demo

    fields = [("demo", flags.arguments(demo.run_demo, prefix=False)), flags.switch("json", flags.JSON)]
    parsed = flags.parse("untwine demo", ABOUT, fields, args)
    settings = flags.values(parsed.demo)
    if settings["steps"] < 1:
        raise UsageError(f"steps must be a whole number, 1 or more, not {settings['steps']}")
    before = _finished(demo.outcome(settings["out"]))
    results = demo.run_demo(**settings)
    if parsed.json:
        output.as_json({"out": str(settings["out"]), **results})
        return
    trained = results["methods"]
    if before == _finished(trained):
        print("The demo was finished before; nothing was trained.")
    rows = {f"{flags.hyphens(method)} {name}": m for method, members in trained.items() for name, m in members.items()}
    output.members(rows, terms=("reconstruction", "kl", "jacobian_l1"))
    print("Lower is better. JL1-VAE gives up a little of the first two for a much smaller Jacobian.\n")
    print("Do codes follow single dots, near a picture? Local scores, from 0 to 1, higher is better:")
    for method, summary in results["scores"].items():
        tables.scores(flags.hyphens(method), summary)
    tables.comparisons(results["comparisons"])
    print("Two seeds and a thousand steps are a first look, not a result: the papers have ten, and 300,000.")
    print(
        f"Results are in {settings['out']}; in Python: untwine.load({str(demo.folder(settings['out'], 'jl1_vae'))!r})"
    )


def _finished(methods: dict[str, dict[str, Any]]) -> set[str]:
    """The ids of all members that are trained."""
    from untwine.train.record import FINISHED

    return {m["id"] for members in methods.values() for m in members.values() if m["state"] in FINISHED}
