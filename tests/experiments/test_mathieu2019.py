"""The figures of Mathieu et al. 2019: settings of the paper, shared members, and claims that can fail."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import untwine.experiments.mathieu2019  # noqa: F401  registers the figures
from untwine.experiments.engine.comparisons import HigherGiven, NotHigher
from untwine.experiments.engine.contract import Plan, registered
from untwine.experiments.engine.findings import Claim, judge
from untwine.experiments.engine.rows import Rows

FIG1, LEFT, RIGHT, FIG3, FIG4, FIG5 = (
    f"mathieu2019/{name}" for name in ("fig1", "fig2-left", "fig2-right", "fig3", "fig4", "fig5")
)
SHAPES = dict(epochs=20, batch=64, lr=5e-4, latents=10, network="mathieu_dsprites")
CLUSTERS = dict(epochs=500, batch=400, lr=1e-3, latents=2, network="mathieu_pinwheel")
FASHION = dict(epochs=80, batch=500, lr=5e-4, latents=50, network="mathieu_fashion")


@functools.cache
def plan(figure: str, scale: str = "paper") -> Plan:
    """The plan of a figure, with a few seeds: those of the paper are a hundred, whose ids take seconds."""
    known = registered()[figure]
    return known.plan(known.settings(scale, seeds="0-2"))


def ids(figure: Plan) -> set[str]:
    return {member.id for case in figure.cases for member in case.run.members()}


@pytest.mark.parametrize(
    ("figure", "seeds", "examples", "expected"),
    [
        (LEFT, "0-99", 737_280, SHAPES),
        (RIGHT, "0-99", 737_280, SHAPES),
        (FIG3, "0-9", 400, CLUSTERS),
        (FIG4, "0-7", 60_000, FASHION),
        (FIG5, "0-7", 60_000, FASHION),
    ],
)
def test_settings_are_the_papers(figure: str, seeds: str, examples: int, expected: dict[str, Any]):
    assert registered()[figure].settings("paper")["seeds"] == seeds
    for case in plan(figure).cases:
        run = case.run
        assert {
            "epochs": run.steps / math.ceil(examples / run.batch_size),
            "batch": run.batch_size,
            "lr": run.lr,
            "latents": run.latents,
            "network": run.network.spec["name"],
        } == expected
        assert run.optimiser["name"] == "amsgrad" and run.sampling == "epochs" and not run.standardise


def test_objectives_are_the_papers():
    sparse = plan(FIG5).cases[0].run.to_json()["method"]
    text = repr(sparse)
    for number in ("1000.0", "0.8", "0.05", "0.1"):  # alpha, gamma, the spike's variance, the scale of the likelihood
        assert number in text
    clusters = [dict(case.columns) for case in plan(FIG3).cases]
    assert {"beta": 1.0, "alpha": 0.0} in clusters and {"beta": 0.0, "alpha": 1.0} in clusters  # the authors' commands
    assert 9.0 in [case.columns.get("nu") for case in plan(RIGHT).cases]
    alphas = {case.columns["alpha"] for case in plan(FIG4).cases}
    assert {0.0, 100.0, 1000.0} <= alphas


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_figures_share_members(scale: str):
    assert ids(plan(FIG5, scale)) <= ids(plan(FIG4, scale))
    assert len(ids(plan(LEFT, scale)) & ids(plan(RIGHT, scale))) > 0


@pytest.mark.parametrize("figure", [LEFT, RIGHT])
def test_small_betas_weigh_as_much_beside_a_pixel_as_the_papers(figure: str):
    """Pictures of 16 px have a sixteenth of the pixels of 64 px."""
    assert "small" not in registered()[figure].hidden
    betas = {}
    for scale in ("small", "paper"):
        runs = [case.run for case in plan(figure, scale).cases]
        betas[scale] = sorted({float(run.method.penalties["kl"].weight.value) for run in runs})
        assert {run.dataset.get("size", 64) for run in runs} == {{"small": 16, "paper": 64}[scale]}
    assert [16 * beta for beta in betas["small"]] == betas["paper"]


def test_small_losses_are_compared_within_as_much_of_a_pixel():
    margins = [next(c.within for c in plan(RIGHT, s).claims if isinstance(c, NotHigher)) for s in ("small", "paper")]
    assert margins == [2 / 16, 2]


def rows_of(figure: Plan, value: Any, seeds: int = 5) -> Rows:
    """Rows of all measures that claims are about, by a function of the columns and the measure."""
    noise = np.random.default_rng(0)
    measures = {
        name
        for claim in figure.claims
        for name in (getattr(claim, "measure", None), getattr(claim, "given", None))
        if name is not None
    }
    return Rows(
        {
            **case.columns,
            "seed": seed,
            "measure": measure,
            "value": value(case.columns, measure) + noise.normal(0, 1e-3),
        }
        for case in figure.cases
        for seed in range(seeds)
        for measure in sorted(measures)
    )


def overlap(columns: Any, measure: str) -> float:
    information = {"too little": math.log(8), "appropriate": 1.2, "too much": 0.0, "regularised": 1.3}
    mismatch = {"too little": 3.0, "appropriate": 0.1, "too much": 0.0, "regularised": 0.1}
    return (information if measure == "decomposition" else mismatch)[columns["overlap"]]


def anisotropic(columns: Any, measure: str) -> float:
    gain = {"isotropic": 0.0, "PCA": 0.1, "learned": 0.2}[columns["prior"]]
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
        "decomposition kl_aggregate_prior": 1 + beta,
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
    list(
        zip(
            [FIG1, LEFT, RIGHT, FIG3, FIG4, FIG5],
            [overlap, anisotropic, heavy, clusters, sparsity, classes],
            strict=True,
        )
    ),
)
def test_claims_hold_for_numbers_that_agree_and_fail_for_the_opposite(figure: str, value: Any):
    known = plan(figure)
    findings = judge(known.claims, rows_of(known, value), Rows(known.published))
    assert {finding.text: finding.verdict for finding in findings} == {
        claim.text: "reproduced" for claim in known.claims
    }
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
