"""Machines on one code against liblinear, a general optimiser, and the objective written out."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from untwine.errors import UntwineError
from untwine.metrics.learners.svm import train


def sample(seed, n=200, classes=4, spread=0.3):
    """A code that knows something of its value, and another value it knows nothing of."""
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, classes, n), rng.integers(0, 2, n)], 1)
    return values[:, 0] + spread * rng.normal(size=n), values


def balance(own, classes, C):
    """The C of the class in question and that of the rest, as liblinear has them."""
    n, count = len(own), own.sum()
    return C * n / (classes * count), C if classes > 2 else C * n / (2 * (n - count))


def objective(parameters, code, own, weights):
    """Written out: half the squares of weight and intercept, and every sample's squared hinge."""
    weight, intercept = parameters
    total = (weight**2 + intercept**2) / 2
    for x, positive in zip(code, own, strict=True):
        margin = (weight * x + intercept) * (1 if positive else -1)
        total += weights[0 if positive else 1] * max(0.0, 1 - margin) ** 2
    return total


def gradient(parameters, code, own, weights):
    sign = np.where(own, 1, -1)
    loss = np.maximum(0, 1 - sign * (parameters[0] * code + parameters[1]))
    pull = 2 * np.where(own, *weights) * loss * sign
    return np.array([parameters[0] - pull @ code, parameters[1] - pull.sum()])


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("change", [lambda x: x, lambda x: -x, lambda x: np.round(x), lambda x: 0.05 * x + 0.2])
def test_agrees_with_liblinear(dual, C, change):
    code, values = sample(0)
    code = change(code)
    machines = train(code, values, [4, 2], C)
    for factor, machine in ((0, slice(0, 4)), (1, slice(5, 6))):
        theirs = LinearSVC(C=C, class_weight="balanced", dual=dual, tol=1e-9, max_iter=1_000_000, random_state=0)
        theirs.fit(code[:, None], values[:, factor])
        np.testing.assert_allclose(machines.weights[machine], theirs.coef_[:, 0], rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(machines.intercepts[machine], theirs.intercept_, rtol=2e-5, atol=2e-6)
        asked = np.linspace(code.min() - 1, code.max() + 1, 301)
        assert (machines(asked)[:, factor] == theirs.predict(asked[:, None])).mean() > 0.99
    assert machines.weights[4] == machines.intercepts[4] == 0


@pytest.mark.parametrize("C", [0.001, 0.1, 100.0])
@pytest.mark.parametrize("kind", ["plain", "ties", "outliers", "shifted"])
def test_no_optimiser_finds_less(C, kind):
    code, values = sample(1, n=60, classes=3)
    code = {"plain": code, "ties": code.round(), "outliers": code**9, "shifted": code + 1000}[kind]
    machines = train(code, values, [3, 2], C)
    for value in range(3):
        own = values[:, 0] == value
        weights = balance(own, 3, C)
        mine = objective((machines.weights[value], machines.intercepts[value]), code, own, weights)
        theirs = minimize(objective, np.zeros(2), (code, own, weights), "Nelder-Mead", options={"xatol": 1e-9})
        assert mine <= theirs.fun * (1 + 1e-12)
        if kind == "plain":
            found = (machines.weights[value], machines.intercepts[value])
            np.testing.assert_allclose(found, theirs.x, rtol=1e-3, atol=1e-4)


@given(st.integers(0, 10_000), st.integers(4, 40), st.integers(2, 5), st.floats(-3, 4), st.floats(-3, 3))
@example(4, 4, 3, 3.0, 2.5)  # an outlier, whose square is in the sums but not in the loss
@settings(max_examples=60, deadline=None)
def test_the_gradient_vanishes(seed, n, classes, log_c, log_scale):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, classes, n)
    code = 10**log_scale * np.round(rng.standard_t(2, n) + values, rng.integers(0, 5))
    machines = train(code, values[:, None], [classes], 10**log_c)
    present = np.unique(values)
    for value in present[1 if len(present) == 2 else 0 :] if len(present) > 1 else ():
        own = values == value
        weights = balance(own, len(present), 10**log_c)
        found = (machines.weights[value], machines.intercepts[value])
        # Newton's step from where it ended would be nothing, next to what the objective is.
        active = np.where(own, 1, -1) * (found[0] * code + found[1]) < 1
        pulls = 2 * np.where(own, *weights) * active
        hessian = np.eye(2) + np.array([[pulls @ code**2, pulls @ code], [pulls @ code, pulls.sum()]])
        slope = gradient(found, code, own, weights)
        # Or it is what rounding leaves: sums over the samples with a loss are differences of sums over all.
        terms = 2 * np.where(own, *weights) * (np.abs(found[0] * code) + abs(found[1]) + 1)
        noise = 4 * np.finfo(float).eps * np.array([terms @ np.abs(code), terms.sum()])
        rounding = max(error @ np.linalg.solve(hessian, error) for error in (noise, noise * [1, -1]))
        allowed = max(1e-16 * objective(found, code, own, weights), rounding)
        assert slope @ np.linalg.solve(hessian, slope) <= allowed


def test_factors_do_not_touch_each_other():
    code, values = sample(2)
    both = train(code, values, [4, 2], 0.01)
    alone = [train(code, values[:, [i]], [size], 0.01) for i, size in enumerate((4, 2))]
    np.testing.assert_allclose(both.weights, np.concatenate([one.weights for one in alone]), rtol=1e-9)
    np.testing.assert_allclose(both.intercepts, np.concatenate([one.intercepts for one in alone]), rtol=1e-9)
    assert (both(code) == np.hstack([one(code) for one in alone])).all()


def test_order_does_not_matter_and_every_sample_twice_is_twice_the_c():
    code, values = sample(3)
    once = train(code, values, [4, 2], 0.02)
    back = train(code[::-1], values[::-1], [4, 2], 0.02)
    twice = train(np.tile(code, 2), np.tile(values, (2, 1)), [4, 2], 0.01)
    for other in (back, twice):
        np.testing.assert_allclose(other.weights, once.weights, rtol=1e-9)
        np.testing.assert_allclose(other.intercepts, once.intercepts, rtol=1e-9)


def test_predictions_are_those_of_the_largest_margin():
    code, values = sample(4)
    machines = train(code, values, [4, 2], 0.5)
    asked = np.linspace(-3, 6, 50)
    for x, found in zip(asked, machines(asked), strict=True):
        margins = [weight * x + b for weight, b in zip(machines.weights, machines.intercepts, strict=True)]
        assert found.tolist() == [int(np.argmax(margins[:4])), int(np.argmax(margins[4:]))]


def test_values_that_are_missing_in_training_are_never_predicted():
    code, values = sample(5, classes=3)
    sparse = np.array([1, 3, 6])[values[:, 0]][:, None]  # of 8 values, three occur
    found, dense = train(code, sparse, [8], 0.1), train(code, values[:, :1], [3], 0.1)
    np.testing.assert_array_equal(found.weights[[1, 3, 6]], dense.weights)
    np.testing.assert_array_equal(found(code)[:, 0], np.array([1, 3, 6])[dense(code)[:, 0]])
    assert (found.intercepts[[0, 2, 4, 5, 7]] == -np.inf).all()


def test_two_of_three_values_are_a_problem_of_two():
    code, values = sample(6, classes=2)
    found, dense = train(code, 2 * values[:, :1], [3], 0.1), train(code, values[:, :1], [2], 0.1)
    np.testing.assert_array_equal(found.weights[[0, 2]], dense.weights)
    np.testing.assert_array_equal(found(code), 2 * dense(code))


def test_a_single_value_is_what_is_predicted():
    machines = train(np.array([0.0, 1.0, 5.0]), np.array([[2], [2], [2]]), [4], 0.01)
    assert machines(np.array([-9.0, 9.0])).tolist() == [[2], [2]]


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e6])
def test_a_constant_code_predicts_a_constant(constant):
    _, values = sample(7)
    machines = train(np.full(len(values), constant), values, [4, 2], 0.01)
    assert np.isfinite(machines.weights).all()
    assert len(np.unique(machines(np.full(5, constant)), axis=0)) == 1


def test_two_samples():
    machines = train(np.array([-1.0, 1.0]), np.array([[0], [1]]), [2], 1.0)
    # Both have the loss 1 - w, and by symmetry b = 0: w = 4 (1 - w).
    np.testing.assert_allclose([machines.weights[1], machines.intercepts[1]], [0.8, 0], atol=1e-12)


@pytest.mark.parametrize("C", [0, -1.0, float("inf"), float("nan")])
def test_c_must_be_a_number_above_zero(C):
    with pytest.raises(UntwineError, match="must be a number above 0, not"):
        train(np.arange(4.0), np.array([[0], [1], [0], [1]]), [2], C)
