"""All experiments, from the files of the papers."""

from __future__ import annotations

import importlib
import pkgutil

from untwine import experiments as room
from untwine.errors import UntwineError, unregistered
from untwine.experiments.engine.contract import Experiment, registered

# Modules of the room that are not the file of a paper.
OTHERS = ("demo", "engine")


def papers() -> list[str]:
    """The papers: every other file of the room is one."""
    return [module.name for module in pkgutil.iter_modules(room.__path__) if module.name not in OTHERS]


def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, in the order of the papers and of their figures."""
    order = papers()
    for paper in order:
        importlib.import_module(f"untwine.experiments.{paper}")
    place = {paper: i for i, paper in enumerate(order)}  # not that of the imports: anyone may have imported one before
    known = registered()
    return {name: known[name] for name in sorted(known, key=lambda name: place.get(name.partition("/")[0], len(place)))}


def find(name: str) -> Experiment:
    """The experiment of a name."""
    known = experiments()
    papers_own = [other for other in known if other.partition("/")[2] == name]
    if papers_own:
        raise UntwineError(f"a figure is named with its paper: {' or '.join(papers_own)}, not {name!r}")
    if name in (of_papers := {experiment.paper for experiment in known.values()}):
        some = next(other for other in known if other.startswith(f"{name}/"))
        raise UntwineError(f"{name!r} is a paper: name one of its figures or tables, such as {some}")
    if name not in known:
        raise unregistered("figure or table", name, [*known, *of_papers])
    return known[name]


def chosen(names: list[str]) -> list[Experiment]:
    """The experiments of several names; the name of a paper stands for all of its figures and tables."""
    known = experiments()
    found: dict[str, Experiment] = {}
    for name in names:
        of_paper = {key: known[key] for key in known if key.partition("/")[0] == name}
        found |= of_paper or {name: find(name)}
    return list(found.values())
