"""Metrics beside the loops over NumPy and scikit-learn of the literature's code, on the same arrays and one core."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from untwine import metrics
from untwine.bench.rows import Row, write_rows
from untwine.data import FactorSpace
from untwine.errors import UntwineError
from untwine.metrics.designs import Groups
from untwine.metrics.families.information import discretised

LATENTS, FACTORS, VALUES, SIZE = 10, 6, 64, 64

# A part of a metric's loop, how often the score needs that part, and ours.
Peer = tuple[Callable[[], Any], int, Callable[[], Any]]


def run(samples: int = 10_000, dci: bool = False, values: int = VALUES, out: str | None = None) -> list[Row]:
    """Seconds of metrics, and of the same computations as the literature's loops.

    Codes are mixtures of six factors, with noise. The time of a loop over classifiers is that of one of them, times how
    many the score needs. factor_vae_score is on three groups of 64 for every two samples; "drawn" includes drawing
    their states and encoding them by a product of matrices. Seconds are those of the processor, the least of several.

    Args:
        samples: How many codes.
        dci: Whether to time DCI too, with scikit-learn's trees for one factor: some minutes.
        values: How many values a factor has.
        out: A JSON file to write the rows to.
    """
    if samples < 1_000:
        raise UntwineError(f"so few samples take no time: give 1,000 or more, not {samples}")
    if values < 2:
        raise UntwineError(f"a factor has two values or more, not {values}")
    from threadpoolctl import threadpool_limits

    space = FactorSpace(tuple("abcdef"), (values,) * FACTORS, ("ordered",) * FACTORS)
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classifiers of 64 values do not converge in the literature's iterations
        for name, (loop, repetitions, metric) in _peers(space, samples, dci).items():
            metric()  # imports, and caches of the processor
            loop_seconds = repetitions * _seconds(loop)
            seconds = _seconds(metric)
            rows.append(
                {"metric": name, "loop_seconds": loop_seconds, "seconds": seconds, "ratio": loop_seconds / seconds}
            )
    if out is not None:
        write_rows(out, rows, {"samples": samples, "latents": LATENTS, "factors": FACTORS, "values": values})
    return rows


def _peers(space: FactorSpace, samples: int, dci: bool) -> dict[str, Peer]:
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.metrics import mutual_info_score
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.svm import LinearSVC

    factors = space.sample(samples, seed=0)
    random = np.random.default_rng(0)
    mixture = random.normal(size=(FACTORS, LATENTS)) / FACTORS**0.5 / max(space.sizes)
    codes = factors @ mixture + 0.05 * random.normal(size=(samples, LATENTS))
    two_thirds, four_fifths = round(samples * 2 / 3), round(samples * 4 / 5)

    def machine() -> None:
        model = LinearSVC(C=0.01, class_weight="balanced").fit(codes[:two_thirds, :1], factors[:two_thirds, 0])
        model.predict(codes[two_thirds:, :1])

    def information() -> None:
        for code in discretised(codes, 20).T:
            for factor in factors.T:
                mutual_info_score(code, factor)

    def neighbours() -> None:
        model = KNeighborsRegressor().fit(codes[:four_fifths, :1], factors[:four_fifths, 0])
        model.predict(codes[four_fifths:, :1])

    def trees() -> None:
        GradientBoostingClassifier().fit(codes[:two_thirds], factors[:two_thirds, 0]).predict(codes[two_thirds:])

    pairs = LATENTS * FACTORS
    peers: dict[str, Peer] = {
        "sap": (machine, pairs, lambda: metrics.sap(codes, factors)),
        "mig": (information, 1, lambda: metrics.mig(codes, factors)),
        "modularity": (information, 1, lambda: metrics.modularity(codes, factors)),
        "knn_score": (neighbours, pairs, lambda: metrics.knn_score(codes, factors)),
        "irs": (lambda: _deviations(codes, factors), 1, lambda: metrics.irs(codes, factors)),
    }
    points = samples * 3 // 2 * SIZE
    states = Groups(size=SIZE).draw(space, points, 0)
    grouped = (states @ mixture).astype(np.float32)

    def drawn() -> None:
        states = Groups(size=SIZE).draw(space, points, 0)
        metrics.factor_vae_score((states @ mixture).astype(np.float32), states)

    def loop() -> None:
        for _ in range(len(states)):
            group = np.stack([random.integers(size, size=SIZE) for size in space.sizes], 1)
            held = random.integers(FACTORS)
            group[:, held] = group[0, held]
            _votes((group @ mixture).astype(np.float32)[None])

    peers["factor_vae_score"] = (lambda: _votes(grouped), 1, lambda: metrics.factor_vae_score(grouped, states))
    peers["factor_vae_score, drawn"] = (loop, 1, drawn)
    return peers | ({"dci": (trees, FACTORS, lambda: metrics.dci(codes, factors))} if dci else {})


def _deviations(codes: np.ndarray, factors: np.ndarray) -> None:
    """The distances of IRS, bin by bin."""
    for factor in factors.T:
        bins = np.digitize(factor, np.histogram(factor, 20)[1][:-1])
        for value in np.unique(bins):
            under = codes[bins == value]
            np.quantile(np.abs(under - under.mean(0)), 0.99, axis=0)


def _votes(groups: np.ndarray) -> None:
    """The votes of FactorVAE's score, group by group."""
    for group in groups:
        np.argmin(np.var(group, axis=0, ddof=1) / np.ones(LATENTS))


def _seconds(function: Callable[[], Any]) -> float:
    """The least processor seconds of a call: of several, unless they take long."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 1:
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)
