"""`untwine perceive`: how far apart a loss perceives the values of each factor of a dataset."""

from __future__ import annotations

import inspect
import math
import textwrap
from typing import Any

from untwine.cli import flags, named, output

# Lists of short lines: help joins the lines of a paragraph into a long one.
ABOUT = """See which factors of a dataset a VAE would learn first, and which it could not put in order.

- perceived distance: what a loss L costs between two images, L(x, y) - L(x, x) (michlo2023)
- pairs that differ in one factor alone are compared; factors with larger distances are learned first
- correlation: of distances and differences of values; near 0, the loss does not see the order of the values
- adversarial: all values are equally far apart; try --likelihood "overlap(squared-error)" on such a factor

The folder gets:

- importance.json and cumulative.png: mean distances and how they are spread (Table A1, Figure A1)
- perceived.npz and matrices.png: the distances along each factor (Figure 3)"""

EXAMPLES = """untwine perceive xy-squares
untwine perceive xy-squares --likelihood "overlap(squared-error)"
untwine perceive xy-squares --dataset.spacing 4
untwine perceive three-dots --likelihood bernoulli --json
untwine perceive images --dataset.source my-pictures/"""


def perceive(args: list[str]) -> None:
    from untwine.report.perceived_factors import check_perceived_factors, write_perceived_factors

    def fields(name: str) -> list[Any]:
        return [("perceive", flags.arguments(write_perceived_factors, prefix=False, shown={"out": _out(name)}))]

    made, given = named.of_dataset(
        "perceive", args, ABOUT, EXAMPLES, fields, lambda usage: _overview(usage, write_perceived_factors)
    )
    _, found = named.carried_out(
        check_perceived_factors, write_perceived_factors, made, given, flags.values(given.perceive)
    )
    if given.json:
        importance = found["importance"].to_json()
        output.as_json({"out": str(found["out"]), "files": found["files"], **importance})
        return
    _say(found["importance"])
    print(f"Saved in {found['out']}: {', '.join(found['files'])}")


def _out(name: str) -> str:
    return f"perceived/{name}, with the arguments and the likelihood that are not as ever"


def _overview(usage: str, run: Any) -> str:
    """Help without a dataset."""
    from untwine.data import datasets

    options = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    del options["dataset"]
    options["out"] = _out("DATASET")
    said = {
        f"--{flags.hyphens(name)}": f"{flags.mention(run, name)} (default: {default})"
        for name, default in options.items()
    }
    return "\n".join(
        [
            usage,
            "",
            ABOUT,
            "",
            "datasets:",
            *(_lines(flags.hyphens(name), flags.summary(datasets[name]), 22) for name in datasets.names()),
            "",
            "options (and those of a dataset: untwine perceive DATASET --help):",
            *(_lines(option, what, 14) for option, what in (said | {"--json": flags.JSON}).items()),
            "",
            "examples:",
            named.indented(EXAMPLES),
        ]
    )


def _lines(name: str, what: str, room: int) -> str:
    return textwrap.fill(what, 118, initial_indent=f"  {name:{room}} ", subsequent_indent=" " * (room + 3))


# --- what was found -------------------------------------------------------------------------------------


def _say(found: Any) -> None:
    rows = (found.random, *found.factors)
    # As many decimals for all, so that the largest has four digits.
    largest = max(abs(row.mean) for row in rows)
    decimals = min(9, max(0, 3 - math.floor(math.log10(largest)))) if largest else 4
    lines = [_row(row, decimals) for row in rows]
    output.table(["factor", "values", "mean distance", "± 2 s.e.", "std", "correlation", "note"], lines, numbers=True)
    print(
        f"Distances: {found.likelihood}, L(x, y) - L(x, x), per element (an example has {found.elements:,}), "
        f"{found.pairs:,} pairs for each row."
    )
    for name, why in found.left_out.items():
        print(f"Left out: {name}; {why}.")
    if found.factors:
        print(
            "A VAE prefers to learn factors with larger distances first; this sample does not order means that differ"
        )
        print(
            "by less than their errors (± 2 s.e.). A correlation (Spearman's, of perceived distance and difference of"
        )
        print("values) near 0 means that the loss does not see the order of a factor's values.")


def _row(row: Any, decimals: int) -> list[str]:
    values = "" if row.values is None else str(row.values)
    correlation = "-" if row.spearman is None else f"{row.spearman:.3f}"
    error = f"{2 * row.error:.1g}" if row.error > 1e-9 * abs(row.mean) else "0"
    numbers = [f"{row.mean:.{decimals}f}", error, f"{row.std:.{decimals}f}", correlation]
    return [row.name, values, *numbers, _note(row)]


def _note(row: Any) -> str:
    if row.kind is None:
        return "for comparison"
    if not row.visible:
        return "changes nothing"
    if row.adversarial:
        return "constant: adversarial"
    if row.unordered:
        return "order not seen"
    if row.kind == "categorical":
        return "categorical: no order"
    if row.spearman is None:
        return "two values: no order to see"
    return "cyclic, not wrapped" if row.kind == "cyclic" else ""
