"""`untwine report`: one HTML page about runs."""

from __future__ import annotations

from untwine.cli import flags, output
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.progress import amount, waiting

ABOUT = """Write one HTML page about runs, which needs no other file and no network.

It shows what was trained, reasons for doubt (models that collapsed, diverged, or had not settled), loss curves, stored
scores with intervals and tests between runs, traversals to scrub through, reconstructions, Jacobian columns, active
latents, the aggregate posterior, what latents know about factors, distances along factors, and the commands that do it
again. Nothing is trained or scored: untwine evaluate computes scores first.

A folder that holds folders of runs, such as that of a sweep, stands for all of them.

Examples:
- untwine report runs/jl1
- untwine report runs/beta runs/jl1 --out compared.html
- untwine report runs/sweep
"""
USAGE = "untwine report RUN [RUN ...] [OPTIONS]"


def report(args: list[str]) -> None:
    paths, rest = flags.folders_first(args)
    with waiting("loading PyTorch"):
        from untwine.report.page import writing
        from untwine.train.devices import pick_device

    shown = {"out": "report.html, in the folder where a single one was given"}
    options = flags.arguments(writing.write_report, prefix=False, shown=shown, leave_out=("runs", "progress"))
    fields = [("report", options), flags.switch("json", flags.JSON)]
    parsed = flags.parse("untwine report RUN [RUN ...]", ABOUT, fields, rest)
    if not paths:
        raise UsageError(f"report needs the folder of a run, before any options: {USAGE}")
    with as_usage_errors():
        pick_device(parsed.report.device)
        writing.refuse_page(parsed.report.out)
    page = writing.write_report(paths, **flags.values(parsed.report))
    size = page.stat().st_size
    if parsed.json:
        output.as_json({"out": str(page), "bytes": size})
    else:
        output.say(f"Wrote {page} ({amount(size)}): open it in a browser.")
