"""Numbers that mean nothing are pointed out: before training, while it goes on, and why it stopped."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import tiny

import untwine as uw
from untwine.train.remarks.cautions import Known, cautions
from untwine.train.remarks.doubts import Doubts


def term(value: Any) -> uw.Term:
    """A term of a user with this value."""
    made = type("DoubtsForTests", (uw.Term,), {"value": lambda self, passed: value(passed)})
    return uw.part(made)()


def with_penalty(value: Any, weight: float = 1.0) -> uw.Objective:
    return uw.methods.vae(likelihood="squared-error").replace(penalties={"pen": weight * uw.Penalty(term(value))})


# --- before -------------------------------------------------------------------------------------------------


def said(run: uw.Run) -> list[str]:
    """The warnings of a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        uw.fit(run)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("method", ["beta_tcvae", "dip_vae_i", "dip_vae_ii", "factor_vae"])
def test_one_example_has_no_aggregate(method: str) -> None:
    build = getattr(uw.methods, method)
    objective = build(likelihood="squared_error")
    assert not any("compares the examples" in text for text in said(tiny(objective, batch_size=2, steps=1)))
    (text,) = (text for text in said(tiny(objective, batch_size=1, steps=1)) if "compares the examples" in text)
    assert "batch_size=1" in text


def test_single_examples_suit_other_penalties() -> None:
    assert not said(tiny(uw.methods.beta_vae(0.01, likelihood="squared_error"), batch_size=1, steps=1))


def test_negative_weights() -> None:
    objective = uw.methods.beta_vae([0.1, -0.1], likelihood="squared_error")
    (text,) = said(tiny(objective, seeds=[0, 0], steps=1))
    assert text.startswith("the weight of 'kl' is -0.1: a negative weight rewards")
    falling = uw.methods.vae(likelihood="squared_error").replace(
        penalties={"both": uw.penalties.kl + uw.ramp(-2.0, steps=3, start=1.0) * uw.penalties.kl}
    )
    assert any("the weight of 'both' is -2" in text for text in said(tiny(falling, steps=5)))


# --- while --------------------------------------------------------------------------------------------------


def line(step: int, **terms: dict[str, Any]) -> dict[str, Any]:
    return {"pack": 0, "step": step, "members": terms}


def test_collapse_is_said_once_and_not_too_early() -> None:
    doubts = Doubts(2_000)
    silent, active = {"loss": 1.0, "kl": 0.01}, {"loss": 1.0, "kl": 3.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in (100, 500, 999):
            doubts.read(line(step, **{"seed-0": silent, "seed-1": active}))
    with pytest.warns(UserWarning, match="step 1,000 of 2,000 the KL of seed-0 is below"):
        doubts.read(line(1_000, **{"seed-0": silent, "seed-1": active}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doubts.read(line(2_000, **{"seed-0": silent, "seed-1": active}))


def test_a_short_run_is_not_judged() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Doubts(100).read(line(100, **{"seed-0": {"loss": 1.0, "kl": 0.0}}))


def test_a_loss_that_rises_is_said_while_it_trains_and_on_the_page() -> None:
    doubts = Doubts(10**6)
    terms = [{"loss": 20.0, "kl": 1.0}, {"loss": 30.0, "kl": 1.0}, {"loss": 5_000.0, "kl": 1.0}, {"loss": 25.0}]
    history = [line(step, **{"seed-0": own}) for step, own in enumerate(terms, 1)]
    for step, entry in enumerate(history, 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            doubts.read(entry)
        expected = ["seed-0 may diverge: at step 3 the loss is 5e+03, and was 20"] if step == 3 else []
        assert [str(warning.message).partition(" at first")[0] for warning in caught] == expected
    members = tiny(steps=4).members()
    assert "risen" in {caution.kind for caution in cautions(Known(members, {"seed-0": "done"}, history))}
    assert "risen" not in {caution.kind for caution in cautions(Known(members, {"seed-0": "done"}, history[:2]))}


def test_fit_reads_its_own_log() -> None:
    objective = uw.methods.beta_vae(200.0, likelihood="squared_error")
    with pytest.warns(UserWarning, match="posterior collapse: at step 500 of 600 the KL of seed-0"):
        uw.fit(tiny(objective, steps=600, log_every=50, lr=0.02))


# --- why ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"method": with_penalty(lambda p: p.z.mean() * float("nan"))}, "'pen' was nan; .* look at the penalty 'pen'"),
        ({"method": with_penalty(lambda p: p.z.mean().exp() * 1e30)}, r"'pen' was 1e\+30|'pen' was .*e\+30, and the"),
        ({"method": with_penalty(lambda p: p.z.square().mean().sqrt().log() * 0, -1.0), "lr": 1e30}, "the learning ra"),
        (
            {"lr": 1e17, "method": uw.methods.vae(likelihood="squared_error")},
            "'reconstruction' was (inf|nan); train with a sm",
        ),
    ],
)
def test_the_first_term_that_is_not_finite_is_named(settings: dict[str, Any], cause: str, tmp_path: Path) -> None:
    run = tiny(**settings)
    with pytest.warns(UserWarning, match=rf"seed-0 diverged at step \d and was stopped: {cause}"):  # noqa: SIM117
        with pytest.raises(uw.UntwineError, match=f"every member diverged: {cause}"):
            uw.fit(run)
    with pytest.warns(UserWarning, match=cause), pytest.raises(uw.UntwineError, match=cause):
        uw.fit(run, tmp_path / "run")
    (entry,) = json.loads((tmp_path / "run" / "run.json").read_text())["members"]
    assert entry["state"] == "diverged" and entry["cause"]
    with pytest.warns(UserWarning, match="is left out"), pytest.raises(uw.UntwineError, match=cause):
        uw.load(tmp_path / "run")


def test_the_cause_is_that_of_the_member() -> None:
    """The weight of one of two members overflows; the other trains on."""
    objective = uw.methods.beta_vae([0.01, 1e39], likelihood="squared_error")
    with pytest.warns(UserWarning, match=r"beta=1e\+39, seed 0 diverged at step 0 and was stopped: 'loss' was inf"):
        ensemble = uw.fit(tiny(objective, seeds=[0, 0], steps=2))
    assert [member.name for member in ensemble.members] == ["beta=0.01, seed 0"]
    assert all(torch.isfinite(value).all() for value in ensemble.member(0).state_dict().values())


# --- examples that a model never saw --------------------------------------------------------------------------


def test_other_data_than_those_of_training(tmp_path: Path) -> None:
    ensemble = uw.fit(tiny(steps=2))
    other = uw.datasets.synthetic_nonlinear(samples=300, seed=4)
    with pytest.warns(UserWarning, match=r"not trained on synthetic-nonlinear\(samples=300, seed=4\).*never have seen"):
        uw.evaluate(ensemble, ["mig"], points=50, dataset=other)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*never")
        uw.evaluate(ensemble, ["mig"], points=50, dataset=ensemble.dataset())
