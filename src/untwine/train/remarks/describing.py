"""Runs in a few words: what reprs and notebooks show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from untwine.data.specs import short_name_of
from untwine.methods import methods
from untwine.parts import is_each
from untwine.train.member import method_json
from untwine.train.seeds import seeds_in_words

_LONG = 80  # characters of a value


def title(spec: Mapping[str, Any]) -> str:
    """A method on a dataset.

    >>> title({"method": {"name": "beta_vae", "beta": 2.0}, "dataset": {"name": "three_dots", "dots": 2}})
    'beta_vae(beta=2) on three-dots(dots=2)'
    """
    return f"{method_name(spec['method'])} on {short_name_of(spec['dataset'])}"


def method_name(method: Mapping[str, Any]) -> str:
    """A method's name with its non-default arguments; "objective" for one without a name."""
    name = str(method.get("name", "objective"))
    default = method_json(methods.call(name, {})) if name in methods else method
    return _called(name, {key: value for key, value in method.items() if key != "name" and value != default.get(key)})


def settings(spec: Mapping[str, Any], seeds: Sequence[int]) -> list[list[str]]:
    """The settings of a run, each with its value.

    Args:
        spec: The run as JSON.
        seeds: The seeds of its members.
    """
    known = {"method": method_name(spec["method"]), "dataset": short_name_of(spec["dataset"])}
    known["seeds"] = seeds_in_words(seeds)
    shown = ("method", "dataset", "network", "latents", "seeds", "steps", "batch_size", "lr", "optimiser", "holdout")
    return [[key.replace("_", " "), known.get(key) or _text(spec[key])] for key in shown if key in (*known, *spec)]


def last_terms(names: Sequence[str], history: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The headings and rows of a table of members with the terms that they logged last.

    Args:
        names: The names of the members.
        history: The lines of the log.
    """
    last = {name: terms for entry in history for name, terms in entry["members"].items()}
    terms = list(dict.fromkeys(term for name in names for term in last.get(name, {})))
    rows = [[name, *(_text(last.get(name, {}).get(term), ".4g") for term in terms)] for name in names]
    return ["member", *(term.replace("_", " ") for term in terms)], rows


def _text(value: Any, digits: str = "g") -> str:
    """JSON in a short text; of numbers by member, each different one once."""
    if is_each(value):
        return _text(list(dict.fromkeys(value["each"])))
    if isinstance(value, Mapping):
        name = str(value.get("name") or value.get("part") or "")
        return _called(name, {key: item for key, item in value.items() if key not in ("name", "part")})
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, float):
        return f"{value:{digits}}"
    return "-" if value is None else f"{value:,}" if type(value) is int else str(value)


def _called(name: str, arguments: Mapping[str, Any]) -> str:
    inner = ", ".join(f"{key}={_text(value)}" for key, value in arguments.items() if value is not None)
    inner = inner if len(inner) <= _LONG else f"{inner[: _LONG - 3]}..."
    return f"{name}({inner})" if inner else name
