"""`untwine perceive`: how far apart a loss perceives the values of each factor of a dataset."""

from __future__ import annotations

import inspect
import math
from typing import Any

from untwine.cli import UsageError, flags, output
from untwine.errors import UntwineError

ABOUT = """See which factors of a dataset a VAE would learn first, and which it could not put in order.

A VAE sees its data through its reconstruction loss: what the loss costs between two images is their perceived distance
(michlo2023). Pairs that differ in one factor alone are compared. Factors with larger distances are learned first; where
distances grow with the difference of values (a correlation near 1), a VAE can see their order. A factor whose values
are all equally far apart is adversarial: try --likelihood "overlap(squared-error)" on it.

The folder gets importance.json, cumulative.png (Table A1, Figure A1), perceived.npz and matrices.png (Figure 3)."""

EXAMPLES = """untwine perceive xy-squares
untwine perceive xy-squares --likelihood "overlap(squared-error)" --out perceived/overlap
untwine perceive xy-squares --dataset.spacing 4
untwine perceive three-dots --likelihood bernoulli --json
untwine perceive images --dataset.source my-pictures/"""


def perceive(args: list[str]) -> None:
    from untwine.data import datasets
    from untwine.experiments import perceive

    name, rest = _split(args)
    if name is None:
        if {"-h", "--help"} & set(args):
            print(_overview(perceive.run))
            return
        names = ", ".join(map(flags.hyphens, datasets.names()))
        raise UsageError(f"which dataset? untwine perceive DATASET, where DATASET is one of {names}")
    made = flags.find(datasets, name)
    fields = [
        ("perceive", flags.arguments(perceive.run, prefix=False, shown={"out": _out(name)})),
        flags.switch("json", flags.JSON),
        ("dataset", flags.arguments(made)),
    ]
    about = f"{flags.hyphens(made.__name__)}: {flags.summary(made)}\n\n{ABOUT}"
    given = flags.parse(f"untwine perceive {flags.hyphens(name)}", about, fields, rest)
    chosen = flags.values(given.perceive)
    try:
        dataset = made(**flags.values(given.dataset))
        perceive.check(dataset, **chosen)
    except UntwineError as error:
        raise UsageError(str(error)) from None
    found = perceive.run(dataset, **chosen)
    if given.json:
        importance = found["importance"].to_json()
        output.as_json({"out": str(found["out"]), "files": found["files"], **importance})
        return
    _say(found["importance"])
    print(f"Saved in {found['out']}: {', '.join(found['files'])}")


def _split(args: list[str]) -> tuple[str | None, list[str]]:
    """The dataset, which comes first or is the first word that is one, and all the rest."""
    from untwine.data import datasets

    known = {name for one in datasets.names() for name in (one, flags.hyphens(one))}
    places = [0] if args and not args[0].startswith("-") else []
    places += [i for i, arg in enumerate(args) if arg in known]
    return (args[places[0]], args[: places[0]] + args[places[0] + 1 :]) if places else (None, args)


def _out(name: str) -> str:
    return f"perceived/{flags.hyphens(name)}"


def _overview(run: Any) -> str:
    """Help without a dataset."""
    from untwine.data import datasets

    options = {f"--{flags.hyphens(name)}": p.default for name, p in inspect.signature(run).parameters.items()}
    del options["--dataset"]
    lines = [
        f"  {option:14} {flags.mention(run, option[2:])} (default: {default})" for option, default in options.items()
    ]
    return "\n".join(
        [
            "usage: untwine perceive DATASET [OPTIONS]",
            "",
            ABOUT,
            "",
            "datasets:",
            *(f"  {flags.hyphens(name):22} {flags.summary(datasets[name])}" for name in datasets.names()),
            "",
            "options (and those of a dataset: untwine perceive DATASET --help):",
            *(line.replace("None", "perceived/DATASET") for line in lines),
            f"  {'--json':14} {flags.JSON}",
            "",
            "examples:",
            *(f"  {line}" for line in EXAMPLES.splitlines()),
        ]
    )


# --- what was found -------------------------------------------------------------------------------------


def _say(found: Any) -> None:
    rows = (found.random, *found.factors)
    # As many decimals for all, so that the largest has four digits.
    largest = max(abs(row.mean) for row in rows)
    decimals = min(9, max(0, 3 - math.floor(math.log10(largest)))) if largest else 4
    lines = [_row(row, decimals) for row in rows]
    output.table(["factor", "values", "mean distance", "std", "correlation", "note"], lines, numbers=True)
    unit = f"{found.likelihood} per element (an example has {found.elements:,})"
    print(f"Distances: {unit}, {found.pairs:,} pairs for each row.")
    for name, why in found.left_out.items():
        print(f"Left out: {name}; {why}.")
    if found.factors:
        print(
            "A VAE prefers to learn factors with larger distances first. It can see the order of a factor's values if"
        )
        print("their correlation (Spearman's, of perceived distance and difference of values) is near 1, not near 0.")


def _row(row: Any, decimals: int) -> list[str]:
    values = "" if row.values is None else str(row.values)
    correlation = "-" if row.spearman is None else f"{row.spearman:.3f}"
    return [row.name, values, f"{row.mean:.{decimals}f}", f"{row.std:.{decimals}f}", correlation, _note(row)]


def _note(row: Any) -> str:
    if row.kind is None:
        return "for comparison"
    if not row.visible:
        return "changes nothing"
    if row.adversarial:
        return "constant: adversarial"
    if row.kind == "categorical":
        return "categorical: no order"
    if row.spearman is None:
        return "two values: no order to see"
    return "cyclic, not wrapped" if row.kind == "cyclic" else ""
