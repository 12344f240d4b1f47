"""The demo's page, `demo.md`: the pictures, the numbers in words, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untwine.experiments.demo.plan import LOOK, METHODS, TEST

HEAD = """# The demo

This page is written by `untwine demo`; `demo.json` beside it has every number.
"""


def page(story: Mapping[str, Any]) -> str:
    """The page of a demo.

    Args:
        story: What `run_demo` returns.
    """
    settings, about = story["settings"], story["about"]
    lines = [HEAD, story["small"], ""]
    for picture in story["pictures"]:
        name = picture.removesuffix(".png")
        lines += [f"![{name}]({picture})", "", f"{LOOK[name].capitalize()}.".replace("?.", "?"), ""]
    lines += ["## Numbers", "", f"Means over models, with intervals of 95 percent. {TEST}", ""]
    lines += ["| | " + " | ".join(METHODS) + " |", "| --- | --- | --- |"]
    for line in story["numbers"]:
        lines.append(f"| {line['what']} | " + " | ".join(line["values"][method] for method in METHODS) + " |")
    lines += ["", *(f"- {line['sentence']}" for line in story["numbers"]), "", "## How it was made", ""]
    given = " ".join(f"--{key} {value}" for key, value in settings.items())
    lines += [f"    untwine demo {given}", ""]
    lines += [f"- {method}: {_settings(spec)}" for method, spec in story["specs"].items()]
    lines += [f"- {key}: {value}" for key, value in about.items()]
    return "\n".join(lines) + "\n"


def _settings(spec: Mapping[str, Any]) -> str:
    """The settings of a run, in words."""
    kinds = ("method", "dataset", "network")
    parts = [f"{kind} {_call(spec[kind])}" for kind in kinds]
    return ", ".join([*parts, *(f"{key.replace('_', ' ')} {spec[key]}" for key in ("latents", "batch_size", "lr"))])


def _call(spec: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "name" and value is not None)
    return f"{spec['name']}({arguments})"
