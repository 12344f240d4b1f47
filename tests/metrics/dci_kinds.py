"""Kinds of codes on which `dci` is compared with the original, and the script that stores the original's scores.

python tests/metrics/dci_kinds.py    # writes dci_original.json beside it: some minutes
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

STORED = Path(__file__).with_name("dci_original.json")
SEEDS = (0, 1, 2)
# A number of samples, of which the first two thirds are trained on, and how many values each factor has.
Sizes = tuple[int, tuple[int, ...]]
Make = Callable[[np.random.Generator, np.ndarray], np.ndarray]  # codes of standardised factors


def _perfect(random, z):
    return np.hstack([z, random.normal(size=(len(z), 1))])


def _redundant(noise: float, sign: int = 1) -> Make:
    def make(random, z):
        copies = np.hstack([z, sign * z])
        return copies + noise * random.normal(size=copies.shape)

    return make


def _rotated(random, z):
    return z @ np.linalg.qr(random.normal(size=(z.shape[1], z.shape[1])))[0]


def _dead(random, z):
    return np.hstack([z + 0.3 * random.normal(size=z.shape), np.full((len(z), 2), 0.7)])


def _noise(random, z):
    return random.normal(size=(len(z), 5))


def _mixed(noise: float) -> Make:
    def make(random, z):
        return z @ random.normal(size=(z.shape[1], 5)) + noise * random.normal(size=(len(z), 5))

    return make


def _network(random, z):
    return np.tanh(z @ random.normal(size=(z.shape[1], 16))) @ random.normal(size=(16, 6))


KINDS: dict[str, tuple[Sizes, Make]] = {
    "perfect": ((600, (4, 4, 4)), _perfect),
    "redundant": ((1500, (4, 4, 4)), _redundant(0)),
    "redundant, one negated": ((600, (4, 4)), _redundant(0, -1)),
    "redundant, noise of .05": ((750, (4, 4)), _redundant(0.05)),
    "redundant, noise of .5": ((600, (4, 4)), _redundant(0.5)),
    "rotated": ((1500, (4, 4, 4)), _rotated),
    "rotated, 400 training rows": ((600, (4, 4, 4)), _rotated),
    "dead codes": ((600, (4, 4)), _dead),
    "noise": ((600, (4, 4)), _noise),
    "mixed": ((600, (4, 4)), _mixed(0.1)),
    "mixed, 100 training rows": ((150, (4, 4, 4)), _mixed(0.5)),
    "mixed, 5,000 training rows": ((7500, (4, 4)), _mixed(0.3)),
    "mixed, 2 values": ((600, (2, 2, 2)), _mixed(0.3)),
    "mixed, 16 values": ((750, (16, 16)), _mixed(0.1)),
    "mixed, unequal values": ((600, (-4, -6)), _mixed(0.2)),
    "random network, 2, 4 and 16 values": ((1500, (2, 4, 16)), _network),
}


def problem(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Codes, factors, and how many rows to train on. Values of a negative number are unequally frequent."""
    (n, sizes), make = KINDS[kind]
    random = np.random.default_rng(seed)
    even = [random.random(n) for _ in sizes]
    factors = np.stack([(u ** (1 if s > 0 else 2) * abs(s)).astype(int) for u, s in zip(even, sizes, strict=True)], 1)
    return make(random, (factors - factors.mean(0)) / factors.std(0)), factors, n * 2 // 3


def original(kind: str, seed: int) -> list[float]:
    """Disentanglement, completeness and informativeness by the original's recipe: scikit-learn's default trees."""
    from scipy.stats import entropy
    from sklearn.ensemble import GradientBoostingClassifier

    codes, factors, train = problem(kind, seed)
    models = [GradientBoostingClassifier(random_state=0).fit(codes[:train], column[:train]) for column in factors.T]
    importance = np.stack([model.feature_importances_ for model in models], 1)
    accuracy = [m.score(codes[train:], column[train:]) for m, column in zip(models, factors.T, strict=True)]
    by_code, by_factor = (1 - entropy(i.T + 1e-11, base=i.shape[1]) for i in (importance, importance.T))
    weights = importance.sum(1) / importance.sum()
    return [float(by_code @ weights), float(by_factor.mean()), float(np.mean(accuracy))]


if __name__ == "__main__":
    stored = {kind: [[round(x, 4) for x in original(kind, seed)] for seed in SEEDS] for kind in KINDS}
    lines = [f"{json.dumps(kind)}: {json.dumps(scores)}" for kind, scores in stored.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
