"""`untwine perceive`: how far apart a loss perceives the values of each factor of a dataset."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from untwine.cli import flags, named, output

# Lists of short lines: the help joins the lines of a paragraph.
ABOUT = """See which factors of a dataset a VAE would learn first, and which it could not put in order.
- perceived distance: the loss L between two images, L(x, y) - L(x, x) (michlo2023)
- pairs of images that differ in one factor alone are compared; a VAE learns factors with larger distances first
- correlation: of distances and differences of values; near 0, the loss does not see the order of the values
- cyclic factors: their last value is next to their first; --no-wrap takes them as ordered, as the paper does
- adversarial: all values are equally far apart; try --likelihood "overlap(squared-error)" on such a factor

The folder gets:
- importance.json and cumulative.png: mean distances and their distribution (Table A1, Figure A1)
- perceived.npz and matrices.png: the distances along each factor (Figure 3)"""

EXAMPLES = """untwine perceive xy-squares
untwine perceive xy-squares --likelihood "overlap(squared-error)"
untwine perceive xy-squares --dataset.spacing 4
untwine perceive three-dots --likelihood bernoulli --json
untwine perceive images --dataset.source my-pictures/"""


def perceive(args: list[str]) -> None:
    """Measure and print the importance of a dataset's factors, and write the folder about it."""
    from untwine.report.perceived_factors import check_perceived_factors, write_perceived_factors

    dataset_function, parsed = named.of_dataset("perceive", args, ABOUT, EXAMPLES, _fields, _overview)
    _, result = named.carried_out(
        check_perceived_factors, write_perceived_factors, dataset_function, parsed, flags.values(parsed.perceive)
    )
    if parsed.json:
        importance = result["importance"].to_json()
        output.as_json({"out": str(result["out"]), "files": result["files"], **importance})
        return
    _print_importance(result["importance"])
    output.say(f"Saved in {result['out']}: {', '.join(result['files'])}")


def _fields(dataset: str) -> list[Any]:
    from untwine.report.perceived_factors import write_perceived_factors

    out = f"perceived/{dataset}, followed by non-default arguments and the likelihood"
    return [("perceive", flags.arguments(write_perceived_factors, prefix=False, shown={"out": out}, switches=True))]


def _overview(usage: str) -> NoReturn:
    """Print the help without a dataset, and stop."""
    from untwine.data import datasets

    names = [f"- {flags.hyphens(name)}: {flags.summary(datasets[name])}" for name in datasets.names()]
    examples = [f"- {example}" for example in EXAMPLES.splitlines()]
    about = "\n".join(
        [
            *(ABOUT, "", "Datasets:", *names, ""),
            *("The options of a dataset: untwine perceive DATASET --help", ""),
            *("Examples:", *examples),
        ]
    )
    fields = [*_fields("DATASET"), flags.switch("json", flags.JSON)]
    raise SystemExit(flags.parse("untwine perceive DATASET", about, fields, ["--help"]))


# --- the table ------------------------------------------------------------------------------------------


def _print_importance(importance: Any) -> None:
    rows = (importance.random, *importance.factors)
    # All means have the same number of decimals; the largest has four digits.
    largest = max(abs(row.mean) for row in rows)
    decimals = min(9, max(0, 3 - math.floor(math.log10(largest)))) if largest else 4
    lines = [_row(row, decimals) for row in rows]
    output.table(["factor", "values", "distance", "± 2 s.e.", "std", "order", "note"], lines, numbers=True)
    output.paragraph(
        f"Distances: {importance.likelihood}, L(x, y) - L(x, x), per element (an example has {importance.elements:,}), "
        f"{importance.pairs:,} pairs for each row.",
        indent="",
    )
    for name, why in importance.left_out.items():
        output.paragraph(f"Left out: {name}; {why}.")
    if importance.factors:
        output.paragraph(
            "A VAE prefers to learn factors with larger distances first; which is larger is not certain where they "
            "differ by less than their errors (± 2 s.e.). Order: Spearman's correlation of perceived distance and "
            "difference of values; near 0 means that the loss does not see the order of a factor's values.",
            indent="",
        )


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
        return "two values: no order" if row.values == 2 else "all equal: no order"
    if row.kind == "cyclic":
        return "cyclic" if row.wrapped else "cyclic, not wrapped"
    return ""
