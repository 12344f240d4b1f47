"""Write the tables of docs/reference.md and the lists of docs/api, from the code, and those of results/quality.md.

python docs/tables.py          # rewrite the pages
python docs/tables.py --check  # exit 1 if one is out of date
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import quality
import signatures
from pictures.methods import ARGUMENTS as SHOWN

import untwine as uw
from untwine.data import datasets
from untwine.data.specs import public_of
from untwine.methods.registry import PARTS, own_parts, part_table
from untwine.metrics.floors import KINDS, floors
from untwine.model.networks import networks
from untwine.objective import penalties
from untwine.parts import is_part

ROOT = Path(__file__).parents[1]


def sentence(thing: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def arguments(function: Callable[..., Any], leave_out: Iterable[str] = ()) -> str:
    shown = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in leave_out:
            shown.append(name if parameter.default is parameter.empty else f"{name}={parameter.default!r}")
    return ", ".join(f"`{one}`" for one in shown)


def origin(name: str) -> str:
    """Where a dataset's pictures come from, and their licence."""
    public = public_of(datasets[name])
    needed, given = datasets.arguments(name)
    if needed:
        return "yours"
    if public is None:
        return "drawn"
    return f"public files; licence: {public.licence}" + ("; or drawn" if "rendered" in given else "")


def settings(term: uw.Term) -> str:
    return ", ".join(f"`{field.name}={getattr(term, field.name)!r}`" for field in dataclasses.fields(term))  # type: ignore[arg-type]


def parts() -> list[tuple[str, ...]]:
    """Everything that has a name in text, by kind."""
    rows = []
    for kind in (*PARTS, "divergence"):
        for name, entry in part_table(kind).items():
            # A part that needs no arguments stands for itself; a class or a function makes the others.
            thing, shown = (type(entry), "") if is_part(entry) else (entry, arguments(entry))
            rows.append((kind, f"`{name.replace('_', '-')}`", sentence(thing), shown))
    return rows


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def tables() -> dict[str, str]:
    methods = [
        (f"`{n}`", sentence(uw.methods.get(n)), arguments(uw.methods.get(n), own_parts(n))) for n in uw.methods.names()
    ]
    nets = [(f"`{n}`", sentence(networks[n]), arguments(networks[n])) for n in networks.names()]
    data = [(f"`{n}`", sentence(datasets[n]), origin(n), arguments(datasets[n])) for n in datasets.names()]
    terms = [(f"`{n}`", sentence(type(p.term)), settings(p.term)) for n, p in sorted(penalties.WATCHABLE.items())]
    scores = []
    for metric in map(uw.metrics.get, uw.metrics.names()):
        of = ", ".join(metric.takes)
        scores.append((f"`{metric.__name__}`", sentence(metric), of, arguments(metric, metric.takes)))
    floor_rows = [row for name in uw.metrics.names() for row in floors_of(name)]
    return {
        "methods": table(("method", "loss", "arguments"), methods),
        "parts": table(("kind", "name", "what it is", "arguments"), parts()),
        "datasets": table(("dataset", "what it is", "from", "arguments"), data),
        "metrics": table(("metric", "what it is", "of", "arguments"), scores),
        "floors": table(("score", *KINDS.values()), floor_rows),
        "networks": table(("network", "what it is", "arguments"), nets),
        "terms": table(("term", "what it measures", "with"), terms),
    }


def floors_of(metric: str) -> list[tuple[str, ...]]:
    """A row for each score of a metric: what is scored without having learned anything."""
    rows = []
    for score, kinds in floors(metric).items():
        numbers = ("-" if value is None else f"{value:.3g}" for value in kinds.values())
        rows.append((f"`{score}`", *numbers))
    return rows


def about(name: str) -> str:
    """What a metric is, its picture and its floors."""
    title = sentence(uw.metrics.get(name))
    picture = f"![{name}](pictures/metric-{name.replace('_', '-')}.png)"
    return "\n\n".join((f"`{name}`: {title}", picture, table(("floor", *KINDS.values()), floors_of(name))))


def about_method(name: str) -> str:
    """What a method minimises, its picture, and what is in it."""
    seen = json.loads((ROOT / "docs" / "pictures" / "methods.json").read_text())[name]
    picture = f"![{name}](pictures/method-{name.replace('_', '-')}.png)"
    given = ", ".join(f"{key}={value!r}" for key, value in SHOWN[name].items()) or "the defaults"
    scores = "; ".join(
        f"{title}: MIG {', '.join(f'{value:.2f}' for value in values)}" for title, values in seen.items()
    )
    return "\n\n".join((sentence(uw.methods.get(name)), picture, f"*With {given}. {scores[:1].upper()}{scores[1:]}.*"))


def filled(path: Path, contents: dict[str, str]) -> str:
    """The page's text with every `<!-- table: NAME -->` block made anew."""
    text = path.read_text()
    for name, content in contents.items():
        block = f"<!-- table: {name} -->\n{content}\n<!-- end -->"
        text, found = re.subn(rf"<!-- table: {name} -->.*?<!-- end -->", lambda _, b=block: b, text, flags=re.DOTALL)
        if found != 1:
            raise SystemExit(f"{path} has no place for the table of {name}")
    return text


if __name__ == "__main__":
    pages = {
        "docs/reference.md": tables(),
        "docs/choosing-a-method.md": {f"about {name}": about_method(name) for name in uw.methods.names()},
        "docs/metrics.md": {f"about {name}": about(name) for name in uw.metrics.names()},
        "results/quality.md": {name: table(*content) for name, content in quality.tables().items()},
        **{f"docs/api/{page}.md": {"names": directives} for page, directives in signatures.pages().items()},
    }
    for name, contents in pages.items():
        path = ROOT / name
        new = filled(path, contents)
        if "--check" in sys.argv and new != path.read_text():
            sys.exit(f"{name} is out of date: run 'make docs'")
        path.write_text(new)
