"""The numbers in which specs differ, and short names for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_VAGUE = ("method", "objective", "penalties", "schedules", "weight", "value")  # words of a path that say nothing


def own_numbers(specs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """The numbers of each spec that are not the same in all of them.

    >>> own_numbers([{"method": {"beta": 1.0}, "lr": 0.1}, {"method": {"beta": 4.0}, "lr": 0.1}])
    [{'method.beta': 1.0}, {'method.beta': 4.0}]
    """
    flat = [dict(_numbers(spec)) for spec in specs]
    keys = dict.fromkeys(key for numbers in flat for key in numbers)
    different = [key for key in keys if len({numbers.get(key) for numbers in flat}) > 1]
    return [{key: numbers[key] for key in different if key in numbers} for numbers in flat]


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """The shortest end of each path that no other of them has, without words that say nothing.

    >>> list(short_names(["method.prior.scale", "method.likelihood.scale", "method.beta.schedules.1.value"]).values())
    ['prior.scale', 'likelihood.scale', 'beta']
    """
    telling = {path: [word for word in path.split(".") if word not in _VAGUE and not word.isdigit()] for path in paths}
    names = {}
    for path, words in telling.items():
        ends = [".".join(words[-count:]) for count in range(1, len(words) + 1)]
        alike = [sum(f".{'.'.join(other)}".endswith(f".{end}") for other in telling.values()) for end in ends]
        names[path] = ends[alike.index(1)] if 1 in alike else path
    return names


def in_words(own: Mapping[str, float]) -> str:
    """Numbers by their short names.

    >>> in_words({"method.beta": 4.0, "lr": 0.00012345678})
    'beta=4, lr=0.00012345678'
    """
    names = short_names(own)
    return ", ".join(f"{names[path]}={_text(value)}" for path, value in own.items())


def listed(names: Sequence[str]) -> str:
    """Names of members in a sentence: some of them have commas of their own.

    >>> listed(["seed-0", "seed-1"]), listed(["beta=1, seed 0", "beta=4, seed 0"])
    ('seed-0, seed-1', 'beta=1, seed 0; beta=4, seed 0')
    """
    return ("; " if any("," in name for name in names) else ", ").join(names)


def _text(value: float) -> str:
    """A number in six digits, or in as many as it takes."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _numbers(spec: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All floats of a spec, each with its path: `method.beta`."""
    items = spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, list) else ()
    for key, value in items:
        yield from _numbers(value, f"{path}.{key}" if path else str(key))
    if isinstance(spec, float):
        yield path, spec
