"""Scores as tables for files: comma-separated values, LaTeX and data frames, of one run or of several."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine import files
from untwine.errors import UntwineError, printable
from untwine.scores import names

Row = Mapping[str, Any]
_COLUMNS = ("metric", "radius", "windows", "samples", "member", "value", "reason")
_LATEX = {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"}


def to_csv(rows: Sequence[Row]) -> str:
    """The rows of `Scores.rows()` as comma-separated values, settings as JSON.

    Rows may have a `run`, which is then the first column.
    """
    columns = (*_of_runs(rows), *_COLUMNS)
    own = dict.fromkeys(key for row in rows for key in row if key not in (*columns, "settings"))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns, *own, "settings"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "settings": json.dumps(row["settings"])} for row in rows)
    return text.getvalue()


def to_latex(rows: Sequence[Row]) -> str:
    r"""The rows of `Scores.summary()` as a LaTeX table (`\usepackage{booktabs}`).

    It has the mean, twice its standard error, and Student's 95% interval. Two models have their range in place of an
    interval, marked as such. Rows may have a `run`; those of a metric then stand together.
    """
    runs = _of_runs(rows)
    heads = ["metric", *runs, "models", "mean", r"95\% interval"]
    lines = [rf"\begin{{tabular}}{{l{'l' * len(runs)}rrr}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(names.of_row(row), []).append(row)
    remarks = []
    for i, (name, group) in enumerate(by_name.items()):
        if runs and i:
            lines.append(r"\addlinespace")
        for j, row in enumerate(group):
            of_run = [latex_text(str(row["run"]))] if runs else []
            shown = "" if runs and j else latex_text(name)
            lines.append(" & ".join([shown, *of_run, str(row["count"]), _mean(row), _interval(row)]) + r" \\")
            remarks += [f"% {' '.join(str(text) for text in (name, *map(row.get, runs)))}: {n}" for n in row["notes"]]
    lines.append(r"\bottomrule")
    if any(row["count"] == 2 for row in rows):
        width = 4 + len(runs)
        lines.append(rf"\multicolumn{{{width}}}{{l}}{{$^*$ The range of two models, not an interval.}} \\")
    return "\n".join([*lines, r"\end{tabular}", *remarks]) + "\n"


def to_frame(rows: Sequence[Row]) -> Any:
    """The rows as a pandas DataFrame; pandas must be installed."""
    try:
        import pandas
    except ImportError:
        raise UntwineError("to_frame() needs pandas: pip install pandas; to_csv() does without") from None
    return pandas.DataFrame([dict(row) for row in rows])


def write(path: Path, runs: Mapping[str, Any]) -> None:
    """Write the scores of runs to a file, whose suffix says in which form.

    Args:
        path: A file that ends in .csv (a row for each member) or .tex (a row for each metric and run).
        runs: The `Scores` of each run, by its name.
    """
    check_suffix(path)
    several = len(runs) > 1
    content = _FORMS[path.suffix.lower()]([{**({"run": n} if several else {}), **r} for n, r in _rows(path, runs)])
    files.write(path, content.encode())


def check_suffix(path: Path) -> None:
    """Refuse a file whose suffix is not that of a table."""
    if path.suffix.lower() not in _FORMS:
        raise UntwineError(f"a table is a file that ends in {' or '.join(_FORMS)}, not {str(path)!r}")
    files.refuse_place(path)


def latex_text(text: str) -> str:
    r"""A text as LaTeX prints it.

    >>> print(latex_text(r"50%_of {a} \ b^2"))
    50\%\_of \{a\} \textbackslash{} b\textasciicircum{}2
    """
    return "".join(_LATEX.get(character, character) for character in printable(text))


_FORMS: dict[str, Callable[[Sequence[Row]], str]] = {".csv": to_csv, ".tex": to_latex}


def _rows(path: Path, runs: Mapping[str, Any]) -> list[tuple[str, Row]]:
    """The rows of each run that a file of this suffix has."""
    summarised = path.suffix.lower() == ".tex"
    return [(n, row) for n, scores in runs.items() for row in (scores.summary() if summarised else scores.rows())]


def _of_runs(rows: Sequence[Row]) -> list[str]:
    return ["run"] if any("run" in row for row in rows) else []


def _mean(row: Row) -> str:
    if row["mean"] is None:
        return "--"
    error = "" if row["interval"] is None else rf" $\pm$ {_number(2 * row['standard_error'])}"
    return _number(row["mean"]) + error


def _interval(row: Row) -> str:
    if row["count"] == 2:
        return f"{_number(row['range'][0])} to {_number(row['range'][1])}$^*$"
    return "--" if row["interval"] is None else f"[{', '.join(map(_number, row['interval']))}]"


def _number(value: float) -> str:
    """A number with three decimals, or with three digits where these would be none or too many.

    >>> _number(0.1234), _number(-2.0), _number(1234.56), _number(0.00002)
    ('0.123', '$-$2.000', '1.23e+03', '2e-05')
    """
    plain = value == 0 or 0.001 <= abs(value) < 1000
    text = f"{value:.3f}" if plain else f"{value:.3g}"
    return text.replace("-", "$-$", 1) if value < 0 else text
