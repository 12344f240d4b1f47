"""Sections about the runs themselves: what was trained, what to be careful about, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from untwine.data.specs import short_name
from untwine.report.page.contents import Contents
from untwine.report.page.html import Markup, block, code, joined, paragraph, table, tag
from untwine.report.runs.commands import evaluate_command, train_command, train_in_python
from untwine.report.runs.opened import Case
from untwine.train.folders.history import courses
from untwine.train.folders.record import how_to_resume
from untwine.train.remarks.cautions import Caution

# Settings that are told in words of their own, or by the tables.
_NOT_LISTED = ("method", "dataset", "network", "optimiser", "watch")


def careful(contents: Contents) -> Markup | None:
    """Cautions of all cases: equal ones are said once."""
    together: dict[Caution, list[str]] = {}
    for case in contents.cases:
        for caution in case.cautions():
            together.setdefault(caution, []).append(case.label)
    for run in contents.runs:
        for caution in run.damage:
            together.setdefault(caution, []).append(run.name)
    if not together:
        return None
    several = len(contents.cases) > 1
    items = []
    for caution, labels in sorted(together.items(), key=lambda item: not item[0].serious):
        whose = tag("strong", f"{', '.join(labels)}: ") if several else None
        kind = "serious" if caution.serious else "remark"
        advice = tag("span", f" {caution.advice}", class_="advice")
        items.append(tag("li", whose, caution.text, advice, class_=kind))
    return tag("ul", *items, class_="cautions")


def trained(contents: Contents) -> Markup:
    """The settings that all cases share, those in which they differ, and how each of them ended."""
    by_case = {case.label: settings(case) for case in contents.cases}
    keys = list(dict.fromkeys(key for of_case in by_case.values() for key in of_case))
    same = [key for key in keys if len({of_case.get(key) for of_case in by_case.values()}) == 1]
    different = [key for key in keys if key not in same]
    first = next(iter(by_case.values()))
    facts = tag("dl", *(tag("div", tag("dt", key), tag("dd", first[key])) for key in same), class_="facts")
    note = "Terms are those of the last line of the log: the mean over models, and their range in brackets."
    return joined(
        [
            facts if same else None,
            by_label({label: {key: told.get(key, "–") for key in different} for label, told in by_case.items()}, False),
            by_label({case.label: _ends(case) for case in contents.cases}),
            paragraph(note, quiet=True),
        ]
    )


def by_label(rows: Mapping[str, Mapping[str, str]], numbers: bool = True) -> Markup | None:
    """A table with a row for each label; None where no row has a cell.

    Args:
        rows: The cells of each row by their column.
        numbers: As in `table`.
    """
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    cells = [[label, *(row.get(key, "–") for key in columns)] for label, row in rows.items()]
    return table(["", *columns], cells, numbers) if columns else None


def settings(case: Case) -> dict[str, str]:
    """What a case was trained with, in words."""
    spec, run = case.members[0].spec, case.run
    method = spec["method"]
    told = {"method": str(method.get("name", "an objective of its own")).replace("_", "-")}
    told |= {
        key: value_text(value)
        for key, value in method.items()
        if key not in ("name", "objective") and value is not None
    }
    told["data"] = short_name(run.dataset) if run.dataset is not None else call_text(spec["dataset"])
    if run.dataset is not None:
        told["examples"] = f"{len(run.dataset):,} of {' × '.join(map(str, run.dataset.shape))}"
    told["network"], told["optimiser"] = call_text(spec["network"]), str(spec["optimiser"]["name"])
    told |= {
        key.replace("_", " "): value_text(value)
        for key, value in spec.items()
        if key not in _NOT_LISTED and value is not None and value is not False
    }
    told["seeds"] = ", ".join(str(member.seed) for member in case.members)
    return told


def value_text(value: Any) -> str:
    """A setting as people write it.

    >>> value_text(300000), value_text(1e-4), value_text([16, 32]), value_text({"part": "SquaredError"})
    ('300,000', '0.0001', '16, 32', 'SquaredError')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return call_text(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(value_text, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def call_text(spec: Mapping[str, Any]) -> str:
    """A spec as a name with its arguments."""
    name = str(spec.get("name", spec.get("part", "")))
    arguments = [f"{key} {value_text(value)}" for key, value in spec.items() if key not in ("name", "part")]
    return name.replace("_", "-") + (f" ({'; '.join(arguments)})" if arguments else "")


def _ends(case: Case) -> dict[str, str]:
    """How the models of a case ended: their number, their last terms, their active latents."""
    done = [name for name in case.names if case.run.states[name] == "done"]
    all_done = len(done) == len(case.names)
    told = {"models": str(len(done)) if all_done else f"{len(done)} of {len(case.names)}"}
    for term, course in courses(case.history()).items():
        last = course.values[:, -1]
        told[term.replace("_", " ")] = mean_and_range(last[np.isfinite(last)])
    active = [count for name, count in case.run.active.items() if name in case.names and count is not None]
    if active:
        low, high = min(active), max(active)
        latents = case.members[0].spec["latents"]
        told["active latents"] = f"{low if low == high else f'{low}–{high}'} of {latents}"
    return told


def mean_and_range(values: Iterable[float]) -> str:
    """The mean of numbers and, where they differ, their range in brackets.

    >>> mean_and_range([1.0, 2.0]), mean_and_range([1.0]), mean_and_range([])
    ('1.5 (1–2)', '1', '–')
    """
    numbers = list(values)
    if not numbers:
        return "–"
    mean = f"{np.mean(numbers):.4g}"
    return mean if min(numbers) == max(numbers) else f"{mean} ({min(numbers):.4g}–{max(numbers):.4g})"


def again(contents: Contents) -> Markup:
    """The commands that train the runs again, and that compute, draw and explore what is on this page."""
    pieces = []
    paths = [str(run.path) for run in contents.runs if run.path is not None]
    for run in contents.runs:
        if run.path is None:
            pieces.append(paragraph(f"{run.name} was trained in memory: give uw.fit a folder (out=) to keep it."))
            continue
        lines = train_command(run, f"{run.path}-again")
        python = train_in_python(run, f"{run.path}-again")
        commands = [lines] if lines else []
        if any(state in ("waiting", "training") for state in run.states.values()):
            commands.append(how_to_resume(run.path))
        commands.append(evaluate_command(run.path, run.scores))
        title = tag("h3", run.name) if len(contents.runs) > 1 else None
        words = (
            paragraph("No flag can say all of this run's settings; Python trains it again:") if lines is None else None
        )
        pieces.append(joined([title, words, block(python) if lines is None else None, block("\n".join(commands))]))
    if paths:
        joint = shlex.join(paths)
        shown = [str(one.case.run.path) for one in contents.pictured if one.case.run.path is not None]
        single = f"{shlex.quote(shown[0])} --what traversals" if shown else f"{shlex.quote(paths[0])} --what curves"
        pieces.append(
            paragraph("This page again, single pictures of it, and an explorer with a slider for each latent:")
        )
        pieces.append(block(f"untwine report {joint}\nuntwine show {single}\nuntwine explore {joint}"))
    return joined(pieces)


def no_scores(contents: Contents) -> Markup:
    """The sentence that says how to score."""
    paths = [str(run.path) for run in contents.runs if run.path is not None]
    folders = shlex.join(paths) if 0 < len(paths) < 4 else "RUN ..."
    return paragraph(
        "Nothing was scored yet. ", code(f"untwine evaluate {folders}"), " does it; then write this page again."
    )
