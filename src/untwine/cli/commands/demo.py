"""`untwine demo`: two methods on a small dataset, side by side, in pictures and four numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untwine.cli import flags, output
from untwine.cli.usage import as_usage_errors

ABOUT = """Train models of β-VAE and of JL1-VAE on small pictures of three dots, and see what sets them apart.

It writes pictures (reconstructions, traversals, Jacobian columns), a page about both runs, and ends with four numbers,
each with a test. It takes a few minutes on two CPU cores. Started again, it resumes where it was stopped.

Examples:
- untwine demo
- untwine demo --steps 200 --out runs/short-demo
"""
START = "β-VAE first, then JL1-VAE: models with seeds {seeds}, {steps:,} steps each."
# What to type next, and what for; {runs} stands for the folders of both runs.
NEXT = {
    "untwine explore {runs}": "move the latents of both by sliders",
    "untwine evaluate {runs} --metrics mig modularity --compare": "score all places at once rather than near a picture",
    "untwine reproduce rhodes2021/fig2 --scale paper": "train as the paper does (on a GPU)",
    "untwine train jl1-vae --dataset images --dataset.source FOLDER --seeds 0-2": "your own pictures",
}


def demo(args: list[str]) -> None:
    from untwine.cli.lengths import Forecast
    from untwine.experiments import demo

    options = flags.arguments(demo.run_demo, prefix=False, leave_out=("progress",))
    fields = [("demo", options), flags.switch("json", flags.JSON)]
    parsed = flags.parse("untwine demo", ABOUT, fields, args)
    settings = flags.values(parsed.demo)
    with as_usage_errors():
        demo.check_demo(**{name: settings[name] for name in ("out", "seeds", "steps", "windows", "points", "device")})
    before = demo.finished(settings["out"])
    if not parsed.json:
        output.paragraph(START.format(**settings))
    story = demo.run_demo(**settings, progress=Forecast)
    if parsed.json:
        output.as_json(story)
        return
    if before == demo.finished(settings["out"]):
        output.say("The models were trained before; nothing was trained.\n")
    show(story)


def show(story: Mapping[str, Any]) -> None:
    """Print where the pictures are, the four numbers with a sentence each, and what to type next.

    Args:
        story: What `run_demo` returns.
    """
    from untwine.experiments.demo.plan import LOOK, METHODS, TEST

    output.say(f"Look at these, in {story['pages']}:")
    for picture in story["pictures"]:
        output.paragraph(f"  {picture:22} {LOOK[picture.removesuffix('.png')]}", " " * 25)
    output.say(f"All about both runs, on one page for a browser: {story['report']}\n")
    rows = [[line["what"], *(line["values"][method] for method in METHODS)] for line in story["numbers"]]
    output.table(["mean over models (95%)", *METHODS], rows, numbers=True)
    for line in story["numbers"]:
        output.paragraph(f"- {line['sentence']}")
    output.say()
    output.paragraph(story["small"], "")
    output.paragraph(TEST, "")
    output.say("\nNext:")
    runs = " ".join(story["runs"].values())
    for command, what in NEXT.items():
        output.say(f"  {command.format(runs=runs)}\n      {what}")
