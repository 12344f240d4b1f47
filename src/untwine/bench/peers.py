"""Metrics beside the loops over scikit-learn that the literature's code has, on the same arrays and one core.

python bench/metrics.py          # SAP, MIG and the kNN score
python bench/metrics.py --dci    # and one factor of DCI with scikit-learn's trees: some three minutes
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import mutual_info_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import untwine as uw
from untwine.data import FactorSpace
from untwine.metrics.families.information import discretised

SPACE = FactorSpace(tuple("abcdef"), (64,) * 6, ("ordered",) * 6)
FACTORS = SPACE.sample(10_000, seed=0)
RNG = np.random.default_rng(0)
CODES = FACTORS / 64 @ RNG.normal(size=(6, 10)) / 6**0.5 + 0.05 * RNG.normal(size=(10_000, 10))
TRAIN = 6667


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def machine() -> None:
    model = LinearSVC(C=0.01, class_weight="balanced").fit(CODES[:TRAIN, :1], FACTORS[:TRAIN, 0])
    model.predict(CODES[TRAIN:, :1])


def information() -> None:
    for code in discretised(CODES, 20).T:
        for factor in FACTORS.T:
            mutual_info_score(code, factor)


def neighbours() -> None:
    KNeighborsRegressor().fit(CODES[:8000, :1], FACTORS[:8000, 0]).predict(CODES[8000:, :1])


def trees() -> None:
    GradientBoostingClassifier().fit(CODES[:TRAIN], FACTORS[:TRAIN, 0]).predict(CODES[TRAIN:])


def main() -> None:
    warnings.simplefilter("ignore")
    # What is timed once, how often the score needs it, and ours.
    rows = {
        "sap": (machine, 60, lambda: uw.metrics.sap(CODES, FACTORS)),
        "mig": (information, 1, lambda: uw.metrics.mig(CODES, FACTORS)),
        "knn_score": (neighbours, 60, lambda: uw.metrics.knn_score(CODES, FACTORS)),
    }
    if "--dci" in sys.argv:
        rows["dci"] = (trees, 6, lambda: uw.metrics.dci(CODES, FACTORS))
    with threadpool_limits(1):
        for name, (theirs, times, ours) in rows.items():
            ours()
            loop, fast = times * seconds(theirs), seconds(ours)
            print(f"{name:10} loop {loop:8.2f} s, ours {fast:6.3f} s, ratio {loop / fast:.0f}", flush=True)


if __name__ == "__main__":
    main()
