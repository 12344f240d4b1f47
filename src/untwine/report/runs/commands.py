"""The commands that make a run and its numbers again."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from untwine.data import datasets
from untwine.methods import methods
from untwine.model.networks import networks
from untwine.parts import is_each
from untwine.report.runs.opened import OpenedRun
from untwine.scores.scores import Scores
from untwine.train.joining import gathered
from untwine.train.member import SILENT
from untwine.train.run import Run, defaults
from untwine.train.steps.optimisers import optimisers

# Fields of a run that are not flags of their own name and value.
_OTHERWISE = ("method", "dataset", "network", "optimiser", "seeds", "data_seeds")


def train_command(run: OpenedRun, out: str) -> str | None:
    """The command that trains a run again; None where its spec holds what no flag can say.

    Settings at their defaults are left out.

    Args:
        run: The run.
        out: The folder of the new run.
    """
    first = run.members[0].spec
    trained = {key: value for key, value in first.items() if key not in SILENT}
    try:
        spec = {**first, **gathered(trained, [member.spec for member in run.members])}
        method = spec["method"]["name"]
        words = ["untwine", "train", _hyphens(method)]
        words += _flags("dataset", spec["dataset"], datasets[spec["dataset"]["name"]])
        words += _flags("network", spec["network"], networks[spec["network"]["name"]])
        words += _options(spec["method"], _defaults(methods[method]), "")
        known = defaults(method)
        if spec["optimiser"] != {**optimisers.spec(known["optimiser"], {})}:
            words += _flags("optimiser", spec["optimiser"], optimisers[spec["optimiser"]["name"]])
        settings = {**{name: p.default for name, p in inspect.signature(Run).parameters.items()}, **known}
        words += _options({key: value for key, value in spec.items() if key not in _OTHERWISE}, settings, "")
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    seeds = [member.seed for member in run.members]
    data_seeds = [member.data_seed for member in run.members]
    words += ["--seeds", _seeds(seeds)]
    if data_seeds != seeds:
        words += ["--data-seeds", _seeds(data_seeds)]
    return shlex.join([*words, "--out", out])


def train_in_python(run: OpenedRun, out: str) -> str:
    """The lines of Python that train the run of a folder again, whatever its spec holds."""
    return f"import untwine as uw\nuw.fit(uw.load({str(run.path)!r}).run, out={out!r})"


def evaluate_command(path: Path, scores: Scores) -> str:
    """The command that computes a run's stored scores again.

    Args:
        path: The run's folder.
        scores: Its scores.
    """
    labels = [entry["label"].partition("#")[0] for entry in scores.entries]
    return shlex.join(["untwine", "evaluate", str(path), *(["--metrics", *dict.fromkeys(labels)] if labels else [])])


def _flags(kind: str, spec: Mapping[str, Any], function: Any) -> list[str]:
    """The flag of a dataset, a network or an optimiser, and those of its arguments."""
    rest = {key: value for key, value in spec.items() if key != "name"}
    return [f"--{kind}", _hyphens(spec["name"]), *_options(rest, _defaults(function), f"{kind}.")]


def _options(values: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> list[str]:
    """Flags for values that are not at their defaults; a value that text cannot be raises a TypeError."""
    words = []
    for key, value in values.items():
        default = known.get(key)
        if key == "name" or value == default or value == _plain(default):
            continue
        flag, texts = f"--{prefix}{_hyphens(key)}", _text(value)
        # A number below zero would be taken for a flag.
        words += [f"{flag}={texts[0]}"] if len(texts) == 1 and texts[0].startswith("-") else [flag, *texts]
    return words


def _text(value: Any) -> list[str]:
    if is_each(value):
        return [",".join(f"{number:g}" if float(f"{number:g}") == number else repr(number) for number in value["each"])]
    items = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(item, Mapping | list) for item in items):
        raise TypeError("this is no text for a flag")
    return [str(item) for item in items]


def _defaults(function: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def _plain(value: Any) -> Any:
    """A default as JSON has it: tuples are lists."""
    return list(value) if isinstance(value, tuple) else value


def _seeds(seeds: list[int]) -> str:
    """Seeds as text: `0-4` where they follow each other."""
    straight = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]}-{seeds[-1]}" if straight else ",".join(map(str, seeds))


def _hyphens(name: str) -> str:
    return name.replace("_", "-")
