"""The share of time in the polarised regime, and Jacobian columns by size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.analysis.alignment import jacobian_columns, polarised_share
from untwine.errors import UntwineError


def history(**values: list[Any]) -> list[dict[str, Any]]:
    """Logged every 100 steps."""
    count = max(map(len, values.values()))
    return [
        {"pack": 0, "step": 100 * (i + 1), "members": {k: {"loss": 1.0, "delta_kl": v[i]} for k, v in values.items()}}
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("values", "share"),
    [
        ([0.5, 0.2, 0.02, 0.01, 0.001], 0.6),
        ([0.5, 0.02, 0.04, 0.01, 0.001], 0.4),  # it rose again: only what lasts counts
        ([0.02, 0.01, 0.01, 0.01, 0.01], 1.0),  # always
        ([0.01, 0.01, 0.01, 0.01, 0.03], 0.0),  # below, not at
        ([0.5, 0.5, 0.5, 0.5, 0.01], 0.2),
        ([0.01, None, 0.01, 0.01, 0.01], 0.6),
        ([0.01, 0.01, 0.01, 0.01, None], 0.0),
        ([0.01, float("nan"), 0.01, 0.01, 0.01], 0.6),
    ],
)
def test_only_what_lasts_until_the_end_counts(values, share):
    assert polarised_share(history(one=values)) == {"one": pytest.approx(share)}


def test_members_of_several_packs_and_thresholds():
    rows = history(a=[0.5, 0.01], b=[0.01, 0.01]) + history(c=[0.2, 0.2, 0.2, 0.15])
    assert polarised_share(rows[::-1]) == {"a": 0.5, "b": 1.0, "c": 0.0}
    assert polarised_share(rows, threshold=0.25) == {"a": 0.5, "b": 1.0, "c": 1.0}
    assert polarised_share(rows, threshold=2, term="loss") == {"a": 1.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize(("value", "share"), [(0.01, 1.0), (0.5, 0.0), (None, 0.0)])
@pytest.mark.parametrize("step", [0, 1])
def test_a_single_row(value: float | None, share: float, step: int):
    assert polarised_share([{"step": step, "members": {"one": {"delta_kl": value}}}]) == {"one": share}


def test_members_that_diverged_are_left_out():
    rows = history(dead=[0.01, None, None], alive=[0.5, 0.01, 0.01])
    for row in rows[1:]:
        row["members"]["dead"]["diverged"] = 150
    assert polarised_share(rows) == {"alive": pytest.approx(2 / 3)}
    assert polarised_share([{"step": 100, "members": {"dead": {"delta_kl": None, "diverged": 7}}}]) == {}


def test_a_history_without_the_term_is_refused():
    with pytest.raises(UntwineError, match="no 'delta_kl': train with watch"):
        polarised_share([{"step": 1, "members": {"seed-0": {"loss": 1.0}}}])
    with pytest.raises(UntwineError, match="empty"):
        polarised_share([])


def test_the_history_of_a_run():
    """A linear model on a square, polarised as soon as its variances are small (rolinek2019's first dataset)."""
    run = uw.Run(
        method=uw.methods.beta_vae(beta=1e-4, likelihood="squared_error"),
        dataset=uw.datasets.synthetic_linear(samples=500),
        network=uw.networks.mlp(hidden=()),
        latents=2,
        seeds=[0, 1],
        steps=150,
        batch_size=64,
        lr=5e-2,
        log_every=10,
        watch=("delta_kl",),
    )
    ensemble = uw.fit(run, device="cpu")
    shares = polarised_share(ensemble.history)
    last = {name: terms["delta_kl"] for name, terms in ensemble.history[-1]["members"].items()}
    assert list(shares) == ["seed-0", "seed-1"] and max(last.values()) < 0.03
    assert all(0.2 < share < 0.95 for share in shares.values())


@pytest.mark.parametrize("p", [1, 2, np.inf])
@pytest.mark.parametrize("shape", [(4, 1, 3, 3), (2, 4, 1, 3, 3), (5, 2, 4, 1, 3, 3)])
def test_columns_by_loops(shape: tuple[int, ...], p: float):
    jacobians = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    columns, order, norms = jacobian_columns(jacobians, count=3, p=p)
    assert columns.shape == (*shape[:-4], 3, 1, 3, 3) and columns.dtype == np.float32
    for where in np.ndindex(shape[:-4]):
        sizes = [np.linalg.norm(one.ravel().astype(float), ord=p) for one in jacobians[where]]
        expected = sorted(range(4), key=lambda j, sizes=sizes: -sizes[j])[:3]
        assert order[where].tolist() == expected
        assert norms[where] == pytest.approx([sizes[j] for j in expected])
        assert np.array_equal(columns[where], jacobians[where][expected])


def test_columns_of_vectors_and_tensors():
    jacobians = torch.tensor([[[1.0, 0.0], [3.0, 4.0]], [[2.0, 0.0], [0.0, 1.0]]])
    columns, order, norms = jacobian_columns(jacobians, dimensions=1)
    assert order.tolist() == [[1, 0], [0, 1]] and norms.tolist() == [[5, 1], [2, 1]]
    assert columns.tolist() == [[[3, 4], [1, 0]], [[2, 0], [0, 1]]]
    assert jacobian_columns(jacobians[0], dimensions=1).order.tolist() == [1, 0]
    equal = jacobian_columns(np.ones((3, 2)), dimensions=1)
    assert equal.order.tolist() == [0, 1, 2]


def test_the_norm_decides_the_order():
    spread, peaked = np.full((1, 2, 2), 0.6), np.zeros((1, 2, 2))
    peaked[0, 0, 0] = 1.3
    both = np.stack([spread, peaked])
    assert jacobian_columns(both, p=1).order.tolist() == [0, 1]
    assert jacobian_columns(both).order.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 5}, "from 1 to 4"),
        ({"count": 0}, "from 1 to 4"),
        ({"count": True}, "from 1 to 4"),
        ({"p": 0.5}, "1 or more"),
        ({"dimensions": 0}, "1 or more, not 0"),
        ({"dimensions": 4}, r"shape \[4, 1, 3, 3\]"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UntwineError, match=message):
        jacobian_columns(np.ones((4, 1, 3, 3)), **arguments)


def test_jacobians_that_are_not_finite_are_refused():
    jacobians = np.ones((4, 1, 3, 3))
    for value in (np.nan, np.inf):
        jacobians[2, 0, 1, 0] = value
        with pytest.raises(UntwineError, match=r"jacobians hold a NaN or an infinity, first at \[2, 0, 1, 0\]"):
            jacobian_columns(jacobians)


def test_numbers_of_numpy_and_tensors_that_are_being_trained():
    jacobians = torch.arange(8.0).reshape(4, 2).requires_grad_()
    found = jacobian_columns(jacobians, np.int64(2), np.float32(1), np.int64(1))
    assert found.order.tolist() == [3, 2] and found.norms.tolist() == [13, 9]
