"""Which public names each page of docs/api shows, and where mkdocstrings finds them: all of them, each once."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import untwine as uw

# Names of the root package by page; a module stands for its names.
PAGES: dict[str, tuple[str, ...]] = {
    "training": ("Run", "fit", "resume", "load", "Ensemble", "VAE", "each", "UntwineError"),
    "sweeps": ("launch",),
    "scoring": ("evaluate", "Scores", "metrics"),
    "methods": ("methods",),
    "parts": ("Objective", "Penalty", "likelihoods", "posteriors", "priors", "penalties", "pairings", "schedules"),
    "data": ("Dataset", "FactorSpace", "datasets"),
    "networks": ("networks",),
    "decorators": ("method", "metric", "dataset", "network", "part", "Term", "Needs", "Pass", "Info", "Adversary"),
    "analysis": ("write_report", "reproduce", "analysis", "figures"),
    "sharing": ("export_onnx", "save_for_hub", "push_to_hub", "from_hub"),
}
# Machinery that a module offers besides: registries, and types that have no text of their own.
LEFT_OUT = ("untwine.registry.", "builtins.", "collections.", "untwine.parts.Part.")


def home(thing: Any) -> str:
    """The dotted path of what a name stands for: that of a part's class, where it is a part."""
    if isinstance(thing, uw.Penalty):
        thing = thing.term
    described = thing if hasattr(thing, "__name__") else type(thing)
    return f"{described.__module__}.{getattr(described, '__qualname__', described.__name__)}"


def names(of: str) -> list[tuple[str, str]]:
    """Public names with their homes: of a module of the root package all, else the one."""
    thing = getattr(uw, of)
    if not inspect.ismodule(thing):
        return [(f"uw.{of}", home(thing))]
    found = []
    for name in dir(thing):
        member = getattr(thing, name)
        if isinstance(member, ModuleType) and member.__name__.startswith("untwine."):
            inner = getattr(member, "__all__", [n for n, f in vars(member).items() if public(n, f, member)])
            found += [(f"uw.{of}.{name}.{n}", home(getattr(member, n))) for n in inner]
        elif not name.startswith("_"):
            found.append((f"uw.{of}.{name}", home(member)))
    return found


def public(name: str, thing: Any, module: ModuleType) -> bool:
    return not name.startswith("_") and callable(thing) and getattr(thing, "__module__", "") == module.__name__


def pages() -> dict[str, str]:
    """The mkdocstrings directives of every page."""
    seen: set[str] = set()
    texts = {}
    for page, chosen in PAGES.items():
        lines = []
        for name, place in (pair for of in chosen for pair in names(of)):
            if place in seen or place.startswith(LEFT_OUT):
                continue
            seen.add(place)
            lines.append(f'::: {place}\n    options: {{ heading: "{name}", toc_label: "{name.rpartition(".")[2]}" }}\n')
        texts[page] = "\n".join(lines)
    listed = {"__version__", *(name for chosen in PAGES.values() for name in chosen)}
    missing = [name for name in uw.__all__ if name not in listed and home(getattr(uw, name)) not in seen]
    if missing:
        raise SystemExit(f"docs/signatures.py: no page shows {', '.join(missing)}")
    return texts
