"""Sections of numbers: curves of training, scores, active latents, the polarised regime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from untwine.analysis import polarised_share
from untwine.errors import UntwineError
from untwine.metrics.statistics import holm
from untwine.report import figures
from untwine.report.page.about import mean_and_range, no_scores
from untwine.report.page.contents import Contents
from untwine.report.page.html import Markup, code, joined, paragraph, table, tag
from untwine.report.page.pictures import chart
from untwine.report.styles import COLOURS
from untwine.scores import names
from untwine.scoring.compare import comparisons
from untwine.train.folders.history import courses

LEAST_TOP = 0.5  # nats of the highest bar: a collapsed model has hardly any bars
POLARISED = 0.03  # rolinek2019: below this the regime is polarised


def curves(contents: Contents) -> Markup | None:
    """A chart of each logged term, a line for each case."""
    histories = {case.label: case.history() for case in contents.cases}
    histories = {label: history for label, history in histories.items() if history}
    terms = list(dict.fromkeys(term for history in histories.values() for term in courses(history)))
    if not terms:
        return None
    # All cases are given to every chart, so that each keeps its colour.
    charts = [chart(figures.curves(histories, [term], legend=False), f"{term} over the steps") for term in terms]
    note = (
        "Lines are means over models, bands reach from the least to the largest. The loss, the reconstruction and the "
        "KL are in nats; a term is shown before it is weighted."
    )
    return joined([legend(list(histories)), tag("div", *charts, class_="grid"), paragraph(note, quiet=True)])


def legend(labels: Sequence[str]) -> Markup | None:
    """The colour of each case, where there are several."""
    if len(labels) < 2:
        return None
    items = [
        tag("li", tag("span", style=f"background: var(--series-{i % len(COLOURS)})"), label)
        for i, label in enumerate(labels)
    ]
    return tag("ul", *items, class_="legend")


def signed(number: float, digits: str = ".3g") -> str:
    """A number with its sign.

    >>> signed(-0.0555), signed(1.0, ".2f")
    ('−0.0555', '+1.00')
    """
    return f"{number:+{digits}}".replace("-", "−")


# --- scores ---------------------------------------------------------------------------------------------


def scores(contents: Contents) -> Markup:
    """The stored scores of each case with their intervals, and t-tests between the first case and each other."""
    by_case = {case.label: contents.scores(case) for case in contents.cases}
    by_case = {label: of_case for label, of_case in by_case.items() if of_case.entries}
    if not by_case:
        return no_scores(contents)
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    for label, of_case in by_case.items():
        summary = of_case.summary()
        for name, row in zip(names.short([{**row, "own": {}} for row in summary]), summary, strict=True):
            rows.setdefault(name, {})[label] = row
    cells = [[name, *(_score(of_cases.get(label)) for label in by_case)] for name, of_cases in rows.items()]
    pieces = [table(["", *by_case], cells)]
    pieces += [paragraph(note, quiet=True) for note in _notes(rows)]
    pieces.append(
        paragraph(
            "The mean over models ± two standard errors, and Student's 95% interval below it; two models have their ",
            "range. ",
            code("untwine metrics mig"),
            " says what a score means, and what is scored without having learned anything.",
            quiet=True,
        )
    )
    if len(by_case) > 1:
        pieces += [_score_charts(by_case), _comparisons(by_case)]
    return joined(pieces)


def _notes(rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """What summaries note, each once: whose scores, which ones, and why."""
    about: dict[tuple[str, str], list[str]] = {}
    for name, of_cases in rows.items():
        for label, row in of_cases.items():
            for note in row["notes"]:
                about.setdefault((label, note), []).append(name)
    return [f"{label}: {note} ({', '.join(scores)})." for (label, note), scores in about.items()]


def _score(row: Mapping[str, Any] | None) -> Any:
    if row is None or row["mean"] is None:
        return "–"
    if row["interval"] is not None:
        low, high = row["interval"]
        return joined(
            [f"{row['mean']:.3g} ± {2 * row['standard_error']:.2g}", tag("small", f"{low:.3g} to {high:.3g}")]
        )
    low, high = row["range"]
    return joined([f"{row['mean']:.3g}", tag("small", f"{low:.3g} to {high:.3g}") if low < high else None])


def _score_charts(by_case: Mapping[str, Any]) -> Markup | None:
    """A chart of each score that several cases have: every model, quartiles, mean and interval."""
    labels = list(dict.fromkeys(entry["label"] for of_case in by_case.values() for entry in of_case.entries))
    charts = []
    for label in labels[:8]:
        values = {}
        for case, of_case in by_case.items():
            numbers = [row["value"] for row in of_case.rows() if row["metric"] == label and row["value"] is not None]
            if numbers:
                values[case] = numbers
        if len(values) > 1:
            charts.append(chart(figures.scores(values, label), f"{label} of every model"))
    return tag("div", *charts, class_="grid wide") if charts else None


def _comparisons(by_case: Mapping[str, Any]) -> Markup | None:
    """Welch's t-tests between the first case and each other one, with p values after Holm's correction."""
    (first, of_first), *others = by_case.items()
    tests, reasons = [], []
    for label, of_case in others:
        for row in comparisons({first: of_first, label: of_case}):
            if "not_comparable" in row:
                reasons.append(f"{row['metric']}: {'; '.join(row['not_comparable'])}")
            elif row["p"] is not None:
                tests.append(row)
    pieces = []
    if tests:
        corrected = holm([row["p"] for row in tests])
        cells = [
            [
                f"{row['metric']}: {row['first']} − {row['second']}",
                signed(row["difference"]),
                f"{signed(row['interval'][0])} to {signed(row['interval'][1])}",
                signed(row["effect"], ".2f"),
                f"{row['p']:.2g}",
                f"{p:.2g}",
            ]
            for row, p in zip(tests, corrected, strict=True)
        ]
        pieces.append(table(["", "difference", "95%", "effect", "p", "p (Holm)"], cells))
        text = f"Welch's t-test over seeds; the effect is Cohen's d. Holm's p allows for all {len(tests)} comparisons."
        pieces.append(paragraph(text, quiet=True))
    if reasons:
        items = [tag("li", reason) for reason in dict.fromkeys(reasons)]
        title = tag("summary", f"{len(items)} scores cannot be compared")
        pieces.append(tag("details", title, tag("ul", *items, class_="quiet")))
    return joined(pieces) if pieces else None


# --- latents --------------------------------------------------------------------------------------------


def latents(contents: Contents) -> Markup | None:
    """How much each latent of the shown models is used, as bars: the KL of its posterior from N(0, 1)."""
    rows = []
    for one in contents.looked_at:
        order, nats = one.looks.useful
        top = max(float(nats.max()), LEAST_TOP)
        narrow = one.looks.variances.mean(1) < 0.5
        for i, name in enumerate(one.looks.seeds):
            bars = [_bar(latent, float(nats[i, latent]), top, bool(narrow[i, latent])) for latent in order[i].tolist()]
            active = int(narrow[i].sum())
            label = contents.label(one.case, name)
            about = tag("div", tag("strong", label), tag("span", f"{active} active, {len(bars) - active} passive"))
            rows.append(tag("div", about, tag("div", *bars, class_="bars"), class_="usage"))
    if not rows:
        return None
    note = (
        "A bar is KL(q(z | x) || N(0, 1)) of one latent in nats, averaged over examples. Full bars are active latents: "
        "their posterior variance is below one half in the mean. Empty bars are passive: the model does not use them. "
        "Of models without a posterior, a bar is the variance of codes."
    )
    return joined([tag("div", *rows), paragraph(note, quiet=True)])


def _bar(latent: int, nats: float, top: float, active: bool) -> Markup:
    height = max(1.5, 100 * min(1.0, max(nats, 0.0) / top))
    fill = tag("span", tag("i", style=f"height: {height:.1f}%"))
    return tag("div", fill, tag("b", latent), class_="active" if active else None, title=f"z{latent}: {nats:.3g}")


def polarised(contents: Contents) -> Markup:
    """Delta-KL over time where it was watched, else how to watch it."""
    watched = {case.label: case.history() for case in contents.cases if "delta_kl" in courses(case.history())}
    if not watched:
        return paragraph(
            "How far the KL is from its form in the polarised regime (rolinek2019) was not logged. Train with ",
            code("--watch delta-kl"),
            ", or ",
            code('uw.Run(..., watch=("delta_kl",))'),
            ", to see it over time.",
        )
    shares = {}
    for label, history in watched.items():
        try:
            shares[label] = list(polarised_share(history, POLARISED).values())
        except UntwineError:  # members that were not watched, or a log without any that did not diverge
            shares[label] = []
    rows = [[label, mean_and_range(np.round(100 * np.array(share), 1))] for label, share in shares.items()]
    drawing = chart(figures.curves(watched, ["delta_kl"], legend=False), "delta-KL over the steps")
    note = (
        f"Below {POLARISED} a model is in the polarised regime; the table has the share of training after which it "
        "stays there."
    )
    return joined(
        [
            legend(list(watched)),
            tag("div", drawing, table(["", "% of steps"], rows), class_="grid"),
            paragraph(note, quiet=True),
        ]
    )
