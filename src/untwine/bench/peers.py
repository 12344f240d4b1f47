"""Metrics beside the loops over scikit-learn that the literature's code has, on the same arrays and one core."""

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
from untwine.metrics.families.information import discretised

LATENTS, FACTORS, VALUES = 10, 6, 64


def run(samples: int = 10_000, dci: bool = False, out: str | None = None) -> list[Row]:
    """Seconds of SAP, MIG and the kNN score, and of the same computations as loops over scikit-learn.

    Codes are mixtures of six factors of 64 values, with noise. A loop's time is that of one classifier, times how many
    the score needs.

    Args:
        samples: How many codes.
        dci: Whether to time DCI too, with scikit-learn's trees for one factor: some three minutes.
        out: A JSON file to write the rows to.
    """
    if samples < 1_000:
        raise UntwineError(f"so few samples take no time: give 1,000 or more, not {samples}")
    from threadpoolctl import threadpool_limits

    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classifiers of 64 values do not converge in the literature's iterations
        for name, (loop, repetitions, metric) in _peers(samples, dci).items():
            metric()  # imports, and caches of the processor
            loop_seconds = repetitions * _seconds(loop)
            seconds = _seconds(metric)
            rows.append(
                {"metric": name, "loop_seconds": loop_seconds, "seconds": seconds, "ratio": loop_seconds / seconds}
            )
    if out is not None:
        write_rows(out, rows, {"samples": samples, "latents": LATENTS, "factors": FACTORS, "values": VALUES})
    return rows


def _peers(samples: int, dci: bool) -> dict[str, tuple[Callable[[], Any], int, Callable[[], Any]]]:
    """For each metric a part of its loop, how often the score needs that part, and ours."""
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.metrics import mutual_info_score
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.svm import LinearSVC

    space = FactorSpace(tuple("abcdef"), (VALUES,) * FACTORS, ("ordered",) * FACTORS)
    factors = space.sample(samples, seed=0)
    random = np.random.default_rng(0)
    mixture = random.normal(size=(FACTORS, LATENTS)) / FACTORS**0.5
    codes = factors / VALUES @ mixture + 0.05 * random.normal(size=(samples, LATENTS))
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
    peers: dict[str, tuple[Callable[[], Any], int, Callable[[], Any]]] = {
        "sap": (machine, pairs, lambda: metrics.sap(codes, factors)),
        "mig": (information, 1, lambda: metrics.mig(codes, factors)),
        "knn_score": (neighbours, pairs, lambda: metrics.knn_score(codes, factors)),
    }
    return peers | ({"dci": (trees, FACTORS, lambda: metrics.dci(codes, factors))} if dci else {})


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
