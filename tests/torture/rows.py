"""What the tries of one fault on one target came to: in a table, and in results/torture.json."""

from __future__ import annotations

import dataclasses
import json
import platform
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import untwine as uw
from tests.torture.plan import FLIPS, PLAN
from tests.torture.verdicts import WORDS, Verdict
from untwine import files

_COLUMNS = ("tries", "kills", *WORDS, "seconds")


@dataclasses.dataclass
class Row:
    """The tries of one fault on one target."""

    fault: str
    target: str
    tries: int = 0
    kills: int = 0
    seconds: float = 0.0
    words: Counter[str] = dataclasses.field(default_factory=Counter)
    lost: list[str] = dataclasses.field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The row as JSON."""
        named = {word: self.words[word] for word in WORDS}
        counts = {"tries": self.tries, "kills": self.kills}
        return {"fault": self.fault, "target": self.target, **counts, **named, "seconds": round(self.seconds, 1)}

    def line(self) -> str:
        """The row in the table."""
        values = self.to_json()
        return f"{self.fault:20}{self.target:24}" + "".join(f"{values[key]:>10}" for key in _COLUMNS)

    def note(self, number: int, verdict: Verdict, seed: int) -> None:
        """Count a verdict; a lost one is printed with the command that repeats it.

        Args:
            number: The number of the try.
            verdict: What became of it.
            seed: The seed of the tries.
        """
        self.tries += 1
        self.kills += verdict.kills
        self.words[verdict.word] += 1
        if verdict.word == "lost":
            only = shlex.quote(f"{self.fault}/{self.target}")
            self.lost.append(f"python -m tests.torture --only {only} --seed {seed} --try {number}")
            print(f"LOST: {self.lost[-1]}\n    {verdict.why}", flush=True)


def heading() -> str:
    """The heading of the table."""
    return f"{'fault':20}{'target':24}" + "".join(f"{key:>10}" for key in _COLUMNS)


def summary(rows: Sequence[dict[str, Any]], seconds: float) -> str:
    """All rows in a line.

    Args:
        rows: The rows as JSON.
        seconds: How long they took.
    """
    counts = totals(rows)
    said = ", ".join(f"{counts[word]:,} {word}" for word in WORDS)
    of = f"{counts['tries']:,} tries, {counts['kills']:,} kills, {counts['flips and cuts']:,} flips and cuts"
    return f"{of} in {seconds:.0f} s: {said}"


def totals(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many tries, kills, flips and verdicts of each word there are."""
    counts = {key: sum(row[key] for row in rows) for key in ("tries", "kills", *WORDS)}
    return counts | {"flips and cuts": sum(row["tries"] for row in rows if row["fault"] == FLIPS)}


def store(file: Path, rows: Sequence[dict[str, Any]], command: str, add: bool) -> None:
    """Write rows with their totals.

    Args:
        file: The file.
        rows: The rows as JSON.
        command: The command that made them.
        add: Whether they are added to those that are there.
    """
    known = json.loads(file.read_text()) if add and file.exists() else {"commands": [], "rows": []}
    by_key = {(row["fault"], row["target"]): row for row in known["rows"]}
    for row in rows:
        old = by_key.get((row["fault"], row["target"]))
        if old is not None:
            row = {**row, **{k: round(old[k] + row[k], 1) for k in row if isinstance(row[k], int | float)}}
        by_key[row["fault"], row["target"]] = row
    ordered = [by_key[fault, target] for fault, target in PLAN if (fault, target) in by_key]
    about = {"untwine": uw.__version__, "torch": torch.__version__, "python": platform.python_version()}
    content = about | {"machine": platform.machine(), "commands": [*known["commands"], command]}
    files.write_json(file, content | {"totals": totals(ordered), "words": WORDS, "rows": ordered})
