"""The tables of results/quality.md, from the rows of results/quality.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scipy import stats

from untwine.metrics.statistics import Comparison, compare, holm
from untwine.train.seeds import parse_seeds

Row = dict[str, Any]
Cells = tuple[str, ...]

STORED = Path(__file__).parents[1] / "results" / "quality.json"
SCORES = {
    "mig": "local_mig 0.1",
    "mig-near": "local_mig 0.03",
    "modularity": "local_modularity 0.1",
    "modularity-near": "local_modularity 0.03",
}
LAST = 300_000  # steps, as in rhodes2021

# What was trained to the end with ten seeds, and how the tables call it.
NAMES = {
    "beta_vae anneal=100000": "β-VAE",
    "jl1_vae columns=None eps=0.001": "paper's own",
    "jl1_vae": "default",
    "jl1_vae every=2": "every=2",
    "jl1_vae every=4": "every=4",
    "jl1_vae images=0.25": "quarter",
    "jl1_vae columns=None estimator=exact": "exact",
}
PAIRS = (
    ("paper's own", "β-VAE"),
    ("default", "β-VAE"),
    ("every=2", "β-VAE"),
    ("every=4", "β-VAE"),
    ("paper's own", "exact"),
    ("default", "exact"),
    ("paper's own", "default"),
    ("every=2", "default"),
    ("every=4", "default"),
    ("quarter", "default"),
)


def short(number: float, digits: int = 3) -> str:
    """A number below one without its leading zero."""
    return f"{number:.{digits}f}".replace("0.", ".", 1) if abs(number) < 1 else f"{number:.{digits}f}"


def probability(p: float) -> str:
    """A p value to two digits; a power of ten below a thousandth."""
    if p < 0.001:
        return f"{p:.0e}".replace("e-0", "e-")
    return f"{p:.2g}".replace("0.", ".", 1)


def interval(bounds: tuple[float, float] | list[float] | None) -> str:
    return "" if bounds is None else f" [{short(bounds[0])}, {short(bounds[1])}]"


def mean(row: Row, score: str) -> str:
    return f"{short(row[score])}{interval(row[f'{score} interval'])}" if score in row else ""


def final(rows: list[Row]) -> dict[str, Row]:
    """The row of each named variant after the last step, by its name."""
    found = {}
    for row in rows:
        if row["variant"] in NAMES and row["step"] == LAST and len(row["local_mig 0.1 values"]) == 10:
            assert NAMES[row["variant"]] not in found, row["variant"]
            found[NAMES[row["variant"]]] = row
    return {name: found[name] for name in NAMES.values()}


def in_full(rows: list[Row]) -> list[Cells]:
    """A line for each variant that was trained to the end with ten seeds."""
    lines = []
    for name, row in final(rows).items():
        scores = (mean(row, score) for score in SCORES.values())
        lines.append((name, f"`{row['variant']}`", row["seeds"], *scores))
    return lines


def others(rows: list[Row]) -> list[Cells]:
    """A line for every other row: fewer seeds or steps, scores along the way."""
    last = [id(row) for row in final(rows).values()]
    lines = []
    for row in sorted(rows, key=lambda row: (row["variant"], len(row["local_mig 0.1 values"]), row["step"])):
        if id(row) not in last:
            precision = "" if row["precision"] == "bfloat16" else f" {row['precision']}"
            scores = (mean(row, score) for score in (SCORES["mig"], SCORES["mig-near"]))
            modularity = short(row[SCORES["modularity"]])
            variant = f"`{row['variant']}`{precision}"
            lines.append((variant, row["seeds"], f"{row['step']:,}", *scores, modularity))
    return lines


def by_seed(first: Row, second: Row, score: str) -> tuple[float, int]:
    """The p value of the t-test between the seeds that both rows have, paired, and how many they are."""
    values = [dict(zip(parse_seeds(row["seeds"]), row[f"{score} values"], strict=True)) for row in (first, second)]
    both = sorted(values[0].keys() & values[1].keys())
    test: Any = stats.ttest_rel(*([of[seed] for seed in both] for of in values))
    return float(test.pvalue), len(both)


def comparisons(rows: list[Row], score: str) -> list[Cells]:
    """A line for each pair, by Welch's test, corrected for the number of pairs, and paired by seed."""
    known = final(rows)
    tests: list[Comparison] = [compare(*(known[name][f"{score} values"] for name in pair)) for pair in PAIRS]
    corrected = holm([test.p for test in tests])
    lines = []
    for (first, second), test, p in zip(PAIRS, tests, corrected, strict=True):
        paired, seeds = by_seed(known[first], known[second], score)
        welch = (f"{short(test.difference)}{interval(test.interval)}", f"{test.t:.1f}", probability(test.p))
        rest = (probability(p), f"{test.effect:.1f}", f"{probability(paired)} ({seeds})")
        lines.append((f"{first} - {second}", *welch, *rest))
    return lines


def tables() -> dict[str, tuple[Cells, list[Cells]]]:
    """The head and the lines of every table of results/quality.md."""
    rows = json.loads(STORED.read_text())["rows"]
    local = ("local MIG, ρ = .1", "ρ = .03", "local modularity, ρ = .1", "ρ = .03")
    against = ("", "difference", "t", "p", "p (Holm)", "d", "p by seed (seeds)")
    return {
        "in full": (("name", "variant", "seeds", *local), in_full(rows)),
        "others": (("variant", "seeds", "steps", *local[:3]), others(rows)),
        **{f"tests {name}": (against, comparisons(rows, score)) for name, score in SCORES.items()},
    }
