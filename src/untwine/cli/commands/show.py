"""`untwine show`: single pictures of a run's models."""

from __future__ import annotations

from untwine.cli import flags, output
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.progress import waiting

ABOUT = """Draw a picture of a run's models.
- traversals: images along each latent, the most useful first, over the range of its codes
- columns: what a small step along each latent would change (columns of the decoder's Jacobian), the largest first
- reconstructions: images, and what each model makes of them
- curves: every logged term over the steps, the mean over models with a band from the least to the largest
- information: the share of each factor's entropy that each latent knows

Examples:
- untwine show runs/jl1 --what traversals
- untwine show runs/jl1 --what columns --members seed-0 seed-1 --out columns.svg
- untwine report runs/jl1 writes a page with all of them
"""
USAGE = "untwine show RUN [--what traversals|columns|reconstructions|curves|information] [OPTIONS]"


def show(args: list[str]) -> None:
    paths, rest = flags.folders_first(args)
    with waiting("loading PyTorch"):
        from untwine.report.runs import show
        from untwine.train.devices import pick_device

    options = flags.arguments(show.show, prefix=False, shown={"out": "shown/RUN-WHAT.png"}, leave_out=("run",))
    fields = [("show", options), flags.switch("json", flags.JSON)]
    parsed = flags.parse("untwine show RUN", ABOUT, fields, rest)
    if len(paths) != 1:
        raise UsageError(f"show needs the folder of one run, before any options: {USAGE}")
    settings = flags.values(parsed.show)
    with as_usage_errors():
        pick_device(settings["device"])
        show.check_show(*(settings[name] for name in ("what", "out", "latents", "examples", "seed")))
    files = show.show(paths[0], **settings)
    if parsed.json:
        output.as_json({"files": [str(file) for file in files]})
    else:
        output.say(f"Wrote {', '.join(map(str, files))}")
