"""`untwine export`: trained models as ONNX files, and on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from untwine.cli import flags, output
from untwine.cli.usage import UsageError, as_usage_errors

ABOUT = """Take trained models elsewhere.

- --onnx: an encoder (means and log variances) and a decoder for each model, which need no Python; checked against torch
- --hub-folder: a folder as the Hugging Face hub has it: weights, JSON, and a model card to edit
- --hub: such a folder, published; log in first with: hf auth login

Scores become tables with: untwine evaluate RUN --table scores.csv scores.tex

Examples:
- untwine export runs/jl1 --onnx
- untwine export runs/jl1 --onnx --members seed-0 --out models
- untwine export runs/jl1 --hub-folder for-the-hub
- untwine export runs/jl1 --hub my-name/jl1-dots
"""
USAGE = "untwine export RUN [OPTIONS]"


def export(args: list[str]) -> None:
    """Write the files that the flags ask for."""
    path = args[0] if args and not args[0].startswith("-") else None
    fields = [
        flags.switch("onnx", "Write ONNX files (needs untwine[onnx])."),
        flags.flag("out", Path, default=None, help="The folder of the ONNX files.", shown="RUN/onnx"),
        flags.flag("members", str, True, (), "The models to write as ONNX, such as seed-0.", shown="all"),
        flags.flag("hub_folder", Path, default=None, help="Write a folder for the hub: a new one, or empty."),
        flags.flag("hub", str, default=None, help="Publish under this name, user/model (needs untwine[hub])."),
        flags.switch("public", "Let everyone see what is published; else a new repository is private."),
        flags.switch("json", flags.JSON),
    ]
    parsed = flags.parse("untwine export RUN", ABOUT, fields, args[path is not None :])
    if path is None:
        raise UsageError(f"export needs the folder of a run, before any options: {USAGE}")
    if not (parsed.onnx or parsed.hub_folder or parsed.hub):
        raise UsageError(f"say what to write: --onnx, --hub-folder DIR or --hub USER/NAME, as in: {USAGE} --onnx")
    for flag, given, needed in (
        ("--members", parsed.members, "--onnx"),
        ("--out", parsed.out, "--onnx"),
        ("--public", parsed.public, "--hub"),
    ):
        if given and not getattr(parsed, needed[2:]):
            raise UsageError(f"{flag} belongs to {needed}, which was not given")
    if parsed.hub:
        from untwine.sharing.hub import refuse_name

        with as_usage_errors():
            refuse_name(parsed.hub)
    written = _write(path, parsed)
    if parsed.json:
        output.as_json(written)


def _write(path: str, parsed: Any) -> dict[str, Any]:
    """Write what was asked for, say so unless JSON is wanted, and return what was written."""
    from untwine.sharing.hub import push_to_hub, save_for_hub
    from untwine.sharing.onnx_files import export_onnx

    written: dict[str, Any] = {}
    say = (lambda text: None) if parsed.json else output.paragraph
    if parsed.onnx:
        written["onnx"] = export_onnx(path, parsed.out, parsed.members)
        for model in written["onnx"]:
            say(f"{model['encoder']}, {model['decoder']}: the same as torch within {model['difference']:.1g}")
    if parsed.hub_folder:
        folder = save_for_hub(path, parsed.hub_folder)
        written["hub_folder"] = str(folder)
        say(f"{folder}: a run's folder with the card {folder / 'README.md'}, which names no licence yet")
        say(f'Load it, here or from the hub: import untwine; ensemble = untwine.from_hub("{folder}")')
    if parsed.hub:
        written["hub"] = push_to_hub(path, parsed.hub, private=not parsed.public)
        say(f"Published at {written['hub']}. Its card names no licence: add one in the header of README.md")
    return written
