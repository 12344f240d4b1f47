"""Cautions, from logs that are made up, with t-tests computed another way."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

import untwine as uw
from untwine.train.folders.history import Course, courses
from untwine.train.remarks import cautions
from untwine.train.remarks.cautions import Known

STEPS = 1000


def known(losses: np.ndarray | None = None, method: object = "vae", done: int | None = None, **more: object) -> Known:
    """What is known of a run with these losses `[members, lines]`, logged at equal distances."""
    count = 3 if losses is None else len(losses)
    run = uw.Run(method=method, dataset="synthetic_linear", seeds=range(count), steps=STEPS)  # type: ignore[arg-type]
    names = [member.name for member in run.members()]
    lines = [] if losses is None else losses.T.tolist()
    history = [
        {"step": STEPS * (i + 1) // len(lines), "members": {n: {"loss": v} for n, v in zip(names, line, strict=True)}}
        for i, line in enumerate(lines)
    ]
    states = {name: "done" if done is None or i < done else "training" for i, name in enumerate(names)}
    return Known(run.members(), states, history, **more)  # type: ignore[arg-type]


def kinds(about: Known) -> list[str]:
    return [caution.kind for caution in cautions.cautions(about)]


def noisy(members: int, lines: int, fall: float, seed: int = 0) -> np.ndarray:
    """Losses around 100 that fall linearly by so much in all."""
    noise = np.random.default_rng(seed).normal(size=(members, lines))
    return 100 - np.linspace(0, fall, lines) + 0.3 * noise


def test_a_settled_run_of_three_seeds_has_no_cautions():
    assert kinds(known(noisy(3, 50, 0.0))) == []


@pytest.mark.parametrize(("members", "over"), [(5, "seeds"), (1, "pairs of log lines"), (3, "pairs of log lines")])
def test_a_loss_that_still_falls_is_tested_over_seeds_or_lines(members: int, over: str):
    losses = noisy(members, 100, 30.0)
    first, second = losses[:, 80:90], losses[:, 90:]
    falls = first.mean(1) - second.mean(1) if members > 3 else (first - second).ravel()
    level = np.abs(second.mean(1) if members > 3 else second.ravel())
    excess = falls - 0.002 * level
    t = excess.mean() / (excess.std(ddof=1) / len(excess) ** 0.5)
    test = cautions.still_falls(courses(known(losses).history)["loss"], STEPS)
    assert test is not None and test.over == over and test.count == len(falls)
    assert test.p == pytest.approx(stats.t.sf(t, len(excess) - 1), rel=1e-6)
    assert test.fall == pytest.approx(falls.mean(), rel=1e-9)
    assert "unsettled" in kinds(known(losses))


def test_flat_losses_are_rarely_called_falling():
    """Losses that only fluctuate fall by less than 0.2 percent: the test errs in fewer than 5 of 100 cases."""
    steps = np.arange(1, 21) * STEPS // 20
    tests = [
        cautions.still_falls(Course(("a", "b", "c"), steps, noisy(3, 20, 0.0, seed)), STEPS) for seed in range(100)
    ]
    assert sum(test is not None and test.p < cautions.LEVEL for test in tests) <= 5


@pytest.mark.parametrize("losses", [noisy(3, 3, 30.0), noisy(1, 20, 30.0), np.full((3, 20), 5.0)])
def test_too_few_lines_or_equal_losses_say_nothing(losses: np.ndarray):
    assert "unsettled" not in kinds(known(losses))


def test_ramps_that_outlast_a_run_say_how_far_they_got():
    method = uw.methods.jl1_vae(beta=4.0, gamma=0.1, anneal=4 * STEPS)
    texts = [caution.text for caution in cautions.ramps(known(method=method))]
    assert texts == [
        "The weight of kl changes until step 4,000, but training ends at 1,000: it got to 1 and not to 4.",
        "The weight of jacobian changes until step 4,000, but training ends at 1,000: it got to 0.025 and not to 0.1.",
    ]


def test_a_ramp_to_the_end_is_a_remark_and_nothing_is_said_of_settling():
    about = known(noisy(3, 50, 30.0), method=uw.methods.jl1_vae(anneal=STEPS))
    (caution,) = cautions.cautions(about)
    assert caution.kind == "ramp" and not caution.serious
    assert "kl and of jacobian changed until step 1,000 of 1,000" in caution.text


def test_states_and_collapse():
    about = known(noisy(4, 50, 0.0), done=2, active={"seed-0": 0, "seed-1": None})
    assert kinds(about) == ["unfinished", "collapsed", "few seeds"]
    assert "seed-2, seed-3 (2 of 4 models). The log ends at step 1,000" in cautions.cautions(about)[0].text
    broken = Known(about.members, dict.fromkeys(about.states, "diverged"), ended={"seed-3": 17})
    assert "seed-2, seed-3 at step 17 (4 of 4 models)" in cautions.cautions(broken)[0].text


def test_courses_have_gaps_where_members_have_no_value():
    lines: Sequence[dict[str, object]] = [
        {"step": 1, "members": {"a": {"loss": 3.0}, "b": {"loss": 4.0, "kl": 1.0}}},
        {"step": 2, "members": {"a": {"loss": None, "diverged": 2}}},
    ]
    found = courses(lines)
    assert list(found) == ["loss", "kl"] and found["loss"].members == ("a", "b")
    np.testing.assert_equal(found["loss"].values, [[3.0, np.nan], [4.0, np.nan]])
    assert courses(lines, ["b"])["loss"].steps.tolist() == [1]
