"""The figures of Mathieu et al. 2019: settings of the paper, shared members, and claims that can fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from untwine.experiments import mathieu2019
from untwine.experiments.engine.claims import Claim, HigherGiven, NotHigher, judge
from untwine.experiments.engine.contract import Experiment, Plan
from untwine.experiments.engine.rows import Rows
from untwine.train.run import Run

FIGURES = [
    mathieu2019.fig1,
    mathieu2019.fig2_left,
    mathieu2019.fig2_right,
    mathieu2019.fig3,
    mathieu2019.fig4,
    mathieu2019.fig5,
]


def plan(figure: Experiment, scale: str = "paper", **changes: Any) -> Plan:
    return figure.plan(figure.settings(scale, **changes))


def epochs(run: Run, examples: int) -> float:
    return run.steps / math.ceil(run.batch_size * 1.0 and examples / run.batch_size)


def ids(figure: Plan) -> set[str]:
    return {member.id for case in figure.cases for member in case.run.members()}


@pytest.mark.parametrize(
    ("figure", "examples", "expected"),
    [
        (
            mathieu2019.fig2_left,
            737_280,
            dict(epochs=20, batch=64, lr=5e-4, latents=10, seeds=100, network="mathieu_dsprites"),
        ),
        (
            mathieu2019.fig2_right,
            737_280,
            dict(epochs=20, batch=64, lr=5e-4, latents=10, seeds=100, network="mathieu_dsprites"),
        ),
        (mathieu2019.fig3, 400, dict(epochs=500, batch=400, lr=1e-3, latents=2, seeds=10, network="mathieu_pinwheel")),
        (mathieu2019.fig4, 60_000, dict(epochs=80, batch=500, lr=5e-4, latents=50, seeds=8, network="mathieu_fashion")),
        (mathieu2019.fig5, 60_000, dict(epochs=80, batch=500, lr=5e-4, latents=50, seeds=8, network="mathieu_fashion")),
    ],
)
def test_settings_are_the_papers(figure: Experiment, examples: int, expected: dict[str, Any]):
    for case in plan(figure).cases:
        run = case.run
        assert {
            "epochs": epochs(run, examples),
            "batch": run.batch_size,
            "lr": run.lr,
            "latents": run.latents,
            "seeds": len(run.seeds),
            "network": run.network.spec["name"],
        } == expected
        assert run.optimiser["name"] == "amsgrad" and run.sampling == "epochs" and not run.standardise


def test_objectives_are_the_papers():
    sparse = plan(mathieu2019.fig5).cases[0].run.to_json()["method"]
    text = repr(sparse)
    for number in ("1000.0", "0.8", "0.05", "0.1"):  # alpha, gamma, the spike's variance, the scale of the likelihood
        assert number in text
    clusters = [dict(case.columns) for case in plan(mathieu2019.fig3).cases]
    assert {"beta": 1.0, "alpha": 0.0} in clusters and {"beta": 0.0, "alpha": 1.0} in clusters  # the authors' commands
    assert 9.0 in [case.columns.get("nu") for case in plan(mathieu2019.fig2_right).cases]
    alphas = {case.columns["alpha"] for case in plan(mathieu2019.fig4).cases}
    assert {0.0, 100.0, 1000.0} <= alphas


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_figures_share_members(scale: str):
    assert ids(plan(mathieu2019.fig5, scale)) <= ids(plan(mathieu2019.fig4, scale))
    assert len(ids(plan(mathieu2019.fig2_left, scale)) & ids(plan(mathieu2019.fig2_right, scale))) > 0


def rows_of(figure: Plan, value: Any, seeds: int = 6) -> Rows:
    """Rows of all measures that claims are about, by a function of the columns and the measure."""
    noise = np.random.default_rng(0)
    measures = {
        name
        for claim in figure.claims
        for name in (getattr(claim, "measure", None), getattr(claim, "given", None))
        if name is not None
    }
    return Rows(
        {**case.columns, "seed": seed, "measure": measure, "value": value(case.columns, measure) + noise.normal(0, 1e-3)}
        for case in figure.cases
        for seed in range(seeds)
        for measure in sorted(measures)
    )


def overlap(columns: Any, measure: str) -> float:
    information = {"too little": math.log(8), "appropriate": 1.2, "too much": 0.0, "regularised": 1.3}
    mismatch = {"too little": 3.0, "appropriate": 0.1, "too much": 0.0, "regularised": 0.1}
    return (information if measure == "decomposition" else mismatch)[columns["overlap"]]


def anisotropic(columns: Any, measure: str) -> float:
    gain = {"isotropic": 0.0, "principal components": 0.1, "learned": 0.2}[columns["prior"]]
    return 20 + 5 * columns["beta"] if measure == "reconstruction" else 0.6 + gain - 0.005 * columns["beta"]


def heavy(columns: Any, measure: str) -> float:
    nu = columns.get("nu")
    if measure == "reconstruction":
        return 20.0 + (0.5 if nu else 0.0)
    return 0.6 if nu is None else 0.65 if nu == 1 else 0.9 - 0.05 * math.log(nu)


def clusters(columns: Any, measure: str) -> float:
    beta, alpha = columns["beta"], columns["alpha"]
    return {
        "entropy": beta + 0.1 * alpha,
        "decomposition": 3 - 2.4 * beta - 0.1 * alpha,
        "divergence": 1 + 3 * max(0, beta - 0.5) - 0.1 * alpha,
    }[measure]


def sparsity(columns: Any, measure: str) -> float:
    gamma, beta, alpha = columns["gamma"], columns["beta"], columns["alpha"]
    return {
        "hoyer": 0.2 + gamma * alpha / 2000 - 0.05 * (beta != 1),
        "reconstruction": -1000 + alpha / 100 + 20 * beta,
        "divergence": 1 + gamma - alpha / 2000,
    }[measure]


def classes(columns: Any, measure: str) -> float:
    return 0.3 + 0.2 * columns["gamma"] * (1 if measure == "class_contrast" else -1)


@pytest.mark.parametrize(
    ("figure", "value"),
    list(zip(FIGURES, [overlap, anisotropic, heavy, clusters, sparsity, classes], strict=True)),
    ids=lambda known: getattr(known, "name", ""),
)
def test_claims_hold_for_numbers_that_agree_and_fail_for_the_opposite(figure: Experiment, value: Any):
    known = plan(figure)
    findings = judge(known.claims, rows_of(known, value), Rows(known.published))
    assert {finding.text: finding.verdict for finding in findings} == {claim.text: "reproduced" for claim in known.claims}
    opposite = judge(known.claims, rows_of(known, lambda columns, measure: -value(columns, measure)), Rows([]))
    assert "not" in {finding.verdict for finding in opposite}
    assert [finding.verdict for finding in opposite].count("reproduced") < len(known.claims) / 2
    assert {finding.verdict for finding in judge(known.claims, Rows([]), Rows([]))} == {"not testable here"}


def side(method: str, values: list[float], given: list[float] | None = None) -> list[dict[str, Any]]:
    rows = [{"method": method, "seed": i, "measure": "score", "value": value} for i, value in enumerate(values)]
    others = [{"method": method, "seed": i, "measure": "loss", "value": value} for i, value in enumerate(given or [])]
    return rows + others


FIRST, SECOND = {"method": "a"}, {"method": "b"}


@pytest.mark.parametrize(
    ("claim", "rows", "verdict"),
    [
        (NotHigher("", "score", FIRST, SECOND, 1.0), side("a", [0, 0.1, 0.2]) + side("b", [9, 9.1, 9.2]), "reproduced"),
        (NotHigher("", "score", FIRST, SECOND, 1.0), side("a", [9, 9.1, 9.2]) + side("b", [0, 0.1, 0.2]), "not"),
        (NotHigher("", "score", FIRST, SECOND, 1.0), side("a", [0, 2, 4]) + side("b", [0, 2, 4]), "partly"),
        (
            HigherGiven("", "score", "loss", FIRST, SECOND),  # a scores lower, but for its loss higher
            side("a", [1, 2, 3.1, 4], [1, 2, 3, 4]) + side("b", [3, 4.1, 5, 6], [5, 6, 7, 8]),
            "reproduced",
        ),
        (
            HigherGiven("", "score", "loss", FIRST, SECOND),
            side("a", [1, 2, 3], [0, 0, 0]) + side("b", [1, 2, 4], [1, 1, 1]),
            "not testable here",
        ),
    ],
)
def test_claims_of_no_gain_and_of_a_gain_at_equal_loss(claim: Claim, rows: list[dict[str, Any]], verdict: str):
    assert judge([claim], Rows(rows), Rows([]))[0].verdict == verdict
