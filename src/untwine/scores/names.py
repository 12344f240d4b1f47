"""The names of scores: labels, what a user may leave out of them, and the names of rows in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from untwine.differences import in_words

_SIZES = ("windows=", "points=", "examples=", "jacobians=")


def matching(name: str, entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries that a name stands for: the one with this label, or those that need the fewest arguments more.

    An argument of the name must be in the label or among the settings.

    Args:
        name: A label, or one without some of its arguments.
        entries: Entries of scores.json.

    >>> labels = "mig", "local-mig(rho=0.1)", "local-mig(rho=0.2)", "dci(points=500)"
    >>> entries = [{"label": label, "settings": {"bins": 20}} for label in labels]
    >>> [len(matching(name, entries)) for name in ("mig(bins=20)", "local_mig", "local_mig(rho=0.2)", "dci", "sap")]
    [1, 2, 1, 1, 0]
    """
    head, asked = _parts(name)
    missing: dict[int, list[Mapping[str, Any]]] = {}
    for entry in entries:
        known_head, known = _parts(entry["label"])
        settings = {f"{key}={value}" for key, value in entry["settings"].items()}
        if known_head == head and asked <= known | settings:
            missing.setdefault(len(known - asked), []).append(entry)
    return missing[min(missing)] if missing else []


def of_row(row: Mapping[str, Any]) -> str:
    """The name of a table's row: the label, the part, and the hyperparameters of its members.

    >>> of_row({"metric": "local-mig(rho=0.1)", "own": {"method.beta": 4.0}})
    'local-mig(rho=0.1), beta=4'
    """
    return ", ".join(filter(None, (row["metric"], in_words(row.get("own", {})))))


def short(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of rows without the sizes of samples, which tables have in a column, where they stay different.

    >>> rows = [{"metric": f"{label} part"} for label in ("mig(points=5)", "sap(k=1, points=5)", "sap(k=1, points=6)")]
    >>> short(rows)
    ['mig part', 'sap(k=1, points=5) part', 'sap(k=1, points=6) part']
    """
    names = [of_row(row) for row in rows]
    without = []
    for name in names:
        label, bracket, rest = name.rpartition(")")
        head, items = arguments(label + bracket)
        kept = ", ".join(item for item in items if not item.startswith(_SIZES))
        without.append((head + (f"({kept})" if kept else "") if items else label + bracket) + rest)
    return [new if without.count(new) == 1 else old for old, new in zip(names, without, strict=True)]


def arguments(label: str) -> tuple[str, list[str]]:
    """What stands before the brackets of a label, and each argument in them.

    >>> arguments("knn-score(kinds=('ordered', 'cyclic'), k=3)")
    ('knn-score', ["kinds=('ordered', 'cyclic')", 'k=3'])
    """
    head, bracket, inner = label.partition("(")
    if not bracket or not inner.endswith(")"):
        return label, []
    items, depth = [""], 0
    for character in inner[:-1]:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    return head, [item.strip() for item in items]


def _parts(label: str) -> tuple[str, set[str]]:
    head, items = arguments(label)
    return head.replace("_", "-").strip(), set(items)
