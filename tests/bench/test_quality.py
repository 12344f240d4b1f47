"""Variants, trained and scored: rows that agree with the long way, once for all, and across interruptions."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import untwine as uw
from untwine.bench import course, quality
from untwine.bench.course import Course
from untwine.bench.variants import read_variant
from untwine.errors import UntwineError
from untwine.parts import each
from untwine.train.steps.table import Table

TINY = {"seeds": "0-2", "steps": 6, "radii": (0.2,), "windows": 2, "points": 100, "size": 16, "examples": 100}
TINY |= {"device": "cpu"}
CPU, BETA = torch.device("cpu"), "beta-vae batch_size=4"


def data() -> uw.Dataset:
    return uw.datasets.three_dots(size=16, examples=100)


def test_a_variant_as_a_run():
    variant = read_variant(
        "jl1-vae columns=1 images=0.25 gamma=0.1,0.5 padding=same log_variance=0 decoder_activation=gelu batch_size=8",
        6,
        "float32",
    )
    run = variant.to_run(data(), (4, 5))
    network = uw.networks.rhodes16(padding="same", log_variance=0, decoder_activation="gelu")
    method = uw.methods.jl1_vae(columns=1, images=0.25, gamma=each(0.1, 0.1, 0.5, 0.5))
    assert run == uw.Run(
        method=method, dataset=data(), network=network, seeds=(4, 5, 4, 5), steps=6, batch_size=8, precision="float32"
    )
    names = ["jl1_vae columns=1 images=0.25 padding=same log_variance=0 decoder_activation=gelu batch_size=8 gamma=0.1"]
    names += [names[0].replace("gamma=0.1", "gamma=0.5")]
    assert list(variant.members(4)) == [(names[0], range(2)), (names[1], range(2, 4))]
    assert read_variant("jl1-vae steps=9 precision=bfloat16 columns=none", 6, "float32").to_run(data(), (0,)).steps == 9


def test_every_variant_trains(recwarn: pytest.WarningsRecorder):
    """Each has a row, under a name of its own, with scores."""
    settings = TINY | {"seeds": "0", "steps": 1}
    variants = tuple(f"{text} batch_size=4" for text in quality.VARIANTS)
    rows = quality.run(variants=variants, **settings)
    names = [name for text in variants for name in read_variant(text, 1, "float32").names]
    assert [row["variant"] for row in rows] == names and len(set(names)) == len(variants)
    assert all(math.isfinite(row["loss"]) and math.isfinite(row["local_mig 0.2"]) for row in rows)
    assert not [warning for warning in recwarn if "failed" in str(warning.message)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jl2", "unknown method 'jl2'"),
        ("jl1-vae column=1", "unknown word of a variant: 'column'; did you mean 'columns'"),
        ("jl1-vae exact", "'exact' in 'jl1-vae exact' is not of that form"),
        ("jl1-vae columns=1,2", "one number of a method may have several values, and 'columns=1,2'"),
        ("jl1-vae beta=1,2 gamma=1,2", "and 'gamma=1,2' in .* may not"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UntwineError, match=message):
        read_variant(text, 6, "float32")


def test_rows_agree_with_training_and_scoring_by_hand(tmp_path: Path):
    out = tmp_path / "quality.json"
    rows = quality.run(
        variants=(BETA, "jl1-vae columns=2 gamma=0.1,9 anneal=0 batch_size=4"), out=str(out), at=(3,), **TINY
    )
    assert [(row["variant"], row["step"]) for row in rows] == [
        ("beta_vae batch_size=4", 3),
        ("beta_vae batch_size=4", 6),
        *[(f"jl1_vae columns=2 anneal=0 batch_size=4 gamma={gamma}", step) for step in (3, 6) for gamma in (0.1, 9)],
    ]
    network = uw.networks.rhodes16()
    common = {"dataset": data(), "network": network, "seeds": range(3), "batch_size": 4}
    for row, method in (
        (rows[1], uw.methods.beta_vae()),
        (rows[5], uw.methods.jl1_vae(columns=2, gamma=9.0, anneal=0)),
    ):
        ensemble = uw.fit(uw.Run(method=method, steps=6, **common))
        for metric in ("mig", "modularity"):
            score = uw.metrics.local(metric, radius=0.2, samples=2, points=100)(ensemble.encode, data())
            name = f"local_{metric} 0.2"
            np.testing.assert_allclose(row[f"{name} values"], score.values, rtol=1e-4, atol=1e-5)
            assert row[name] == pytest.approx(np.mean(row[f"{name} values"]))
            values = np.array(row[f"{name} values"])
            interval = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
            np.testing.assert_allclose(row[f"{name} interval"], interval)
        assert row["diverged"] == 0 and row["path_taken"] == "plain"
        losses = [terms["loss"] for terms in ensemble.history[-1]["members"].values()]
        assert row["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert json.loads(out.read_text())["rows"] == rows
    assert quality.run(variants=(BETA,), out=str(out), at=(3,), **TINY) == []  # it is there
    assert quality.run(variants=(BETA,), out=str(out), limit_minutes=0.0, **TINY) == []
    (more,) = quality.run(variants=("beta-vae batch_size=4 padding=same",), out=str(out), **TINY)
    assert json.loads(out.read_text())["rows"] == [*rows, more]


def test_a_course_goes_on_where_it_was_stopped(tmp_path: Path):
    plan, table = read_variant("jl1-vae columns=1 batch_size=4", 8, "float32"), Table(data(), CPU)
    spec = plan.to_run(data(), (0, 1))
    final: list[torch.Tensor] = []

    def follow(wanted: list[int], keep: Path | None, deadline: float = math.inf) -> list[int]:
        made = Course(plan, spec, table, CPU, "plain", deadline, keep)
        steps = [row["step"] for row in made.rows(wanted, lambda ensemble: {"members": [1.0] * len(ensemble)})]
        final.append(made.trainer.state.parameters.clone())
        return steps

    assert follow([4, 8], None) == [4, 8]
    assert follow([4], tmp_path) == [4]
    assert follow([8], tmp_path, deadline=0.0) == []  # one step, and it is saved
    assert follow([4, 8], tmp_path) == [8]
    assert torch.equal(final[0], final[3]) and not torch.equal(final[0], final[2])
    assert follow([4, 8], tmp_path) == [8]  # nothing is left to train


def test_what_would_end_too_late_is_not_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(course, "TRIED", 2)
    plan, table = read_variant(BETA, 10**6, "float32"), Table(data(), CPU)
    made = Course(plan, plan.to_run(data(), (0,)), table, CPU, "plain", course.time.monotonic() + 3.0, None)
    rows = list(made.rows([3, 10**6], lambda ensemble: {}))
    assert [row["step"] for row in rows] == [3] and made.trainer.state.step == 3


def test_members_that_diverged_are_counted_and_left_out():
    plan, table = read_variant(BETA, 2, "float32"), Table(data(), CPU)
    made = Course(plan, plan.to_run(data(), (0, 1, 2)), table, CPU, "plain", math.inf, None)
    with torch.no_grad():
        made.trainer.state.parameters[1] = torch.nan
    seen: list[list[str]] = []

    def score(ensemble: uw.Ensemble) -> dict[str, list[float]]:
        seen.append([member.name for member in ensemble.members])
        return {"mig": [0.2, 0.4]}

    (row,) = made.rows([2], score)
    assert seen == [["seed-0", "seed-2"]]
    assert row["diverged"] == 1 and row["mig"] == pytest.approx(0.3) and row["mig values"] == [0.2, 0.4]


def test_a_variant_that_fails_does_not_stop_the_others():
    with pytest.warns(UserWarning, match="columns=11 .* failed: UntwineError: 11 columns"):
        rows = quality.run(variants=("jl1-vae columns=11", "beta-vae"), **TINY | {"steps": 1})
    assert [row["variant"] for row in rows] == ["beta_vae"]
    with pytest.raises(UntwineError, match="clip must be positive"):  # before anything trains
        quality.run(variants=("beta-vae", "beta-vae clip=-1"), **TINY)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "fats"}, "path is"),
        ({"windows": 0}, "one window or more"),
        ({"radii": ()}, "radii above zero"),
        ({"variants": ("",)}, "unknown method"),
        ({"variants": ("beta-vae beta=a,b",)}, "is not a number"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_trains(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UntwineError, match=message):
        quality.run(**{"device": "cpu", **changes})
