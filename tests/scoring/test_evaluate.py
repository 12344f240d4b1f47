"""Scoring runs: what is asked for is computed once, stored with its settings, and compared where it may be."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import tiny

import untwine as uw
from untwine import files
from untwine.errors import UntwineError
from untwine.scores import storage
from untwine.scoring.compare import comparisons
from untwine.scoring.evaluation import PartlyScored
from untwine.scoring.requests import requests
from untwine.scoring.sources import Source
from untwine.train.folders import record

FAST = {"rho": (0.2,), "windows": 3, "points": 200, "examples": 100, "jacobians": 20}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    uw.fit(tiny(seeds=[0, 1, 2], steps=10), path / "jl1")
    uw.fit(tiny(uw.methods.beta_vae(0.01, likelihood="squared_error"), seeds=[0, 1], steps=10), path / "beta")
    return path


@pytest.fixture
def run(runs: Path) -> Path:
    (runs / "jl1" / storage.FILE).unlink(missing_ok=True)
    return runs / "jl1"


def score(run: Path, metrics: tuple[str, ...] = (), **settings: Any) -> list[dict[str, Any]]:
    """The entries that scores.json has of what is asked for."""
    return uw.evaluate(run, metrics, **settings).entries


def compare(runs: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return comparisons({name: uw.Scores(entries) for name, entries in runs.items()})


def value(entry: dict, member: str = "seed-0") -> float:
    return entry["members"][member]["value"]


def test_scores_are_those_of_the_functions(run: Path):
    global_mig, local_mig = score(run, ("mig", "local-mig(bins=4)"), **FAST)
    ensemble = uw.load(run)
    data = record.stored(run).make_dataset()
    expected = uw.metrics.sampled("mig", points=200)(ensemble.encode, data)
    assert [value(global_mig, f"seed-{i}") for i in range(3)] == expected.values.tolist()
    assert global_mig["settings"] == json.loads(json.dumps(expected.settings))
    expected = uw.metrics.local("mig", radius=0.2, samples=3, points=200, bins=4)(ensemble.encode, data)
    assert [value(local_mig, f"seed-{i}") for i in range(3)] == expected.values.tolist()
    assert local_mig["settings"] == json.loads(json.dumps(expected.settings))
    assert local_mig["metric"] == "local_mig" and local_mig["settings"]["bins"] == 4


def test_cyclic_factors_go_round_unless_told_not_to(tmp_path: Path):
    """One switch for windows and metrics; scores with and without are kept side by side."""
    turns = np.indices((12, 6)).reshape(2, -1).T
    pictures = np.zeros((72, 8, 8), np.uint8)
    angles = turns[:, 0] / 12 * 2 * np.pi
    pictures[:, 0], pictures[:, 1] = (127 + 100 * np.stack([np.cos(angles), np.sin(angles)])[..., None]).astype(int)
    pictures[:, 2] = 40 * turns[:, 1:]
    np.save(tmp_path / "pictures.npy", pictures)
    np.save(tmp_path / "factors.npy", turns)
    data = uw.datasets.images(tmp_path / "pictures.npy", factors=tmp_path / "factors.npy", kinds=("factor0=cyclic",))
    ensemble = uw.fit(tiny(dataset=data, seeds=[0], steps=10), tmp_path / "run")
    wanted = ("local-mig", "knn-score", "sap(regression=true)", "local-sap(regression=true)")
    settings = {"rho": 0.2, "windows": 8, "points": 200}
    entries = {wrap: score(tmp_path / "run", wanted, wrap=wrap, **settings) for wrap in (True, False)}
    for wrapped, cut, name in zip(entries[True], entries[False], wanted, strict=True):
        assert wrapped["settings"]["wrap"] and not cut["settings"]["wrap"] and value(wrapped) != value(cut), name
    assert len(storage.read(tmp_path / "run")) == 2 * len(wanted)
    for wrap in (True, False):
        local = uw.metrics.local("sap", radius=0.2, samples=8, points=200, wrap=wrap, regression=True)
        assert value(entries[wrap][3]) == float(local(ensemble.encode, data))
    own = score(tmp_path / "run", ("local-sap(regression=true, wrap=false)",), **settings)
    assert value(own[0]) == value(entries[False][3]) and not own[0]["settings"]["wrap"]


def test_every_metric_of_codes_and_factors_has_the_scores_of_the_functions():
    """One engine samples for all of them: the values are equal, bit for bit."""
    data = uw.datasets.synthetic_linear(samples=100, levels=12)
    ensemble = uw.fit(tiny(dataset=data, seeds=[0, 1], steps=2))
    names = [name for name in uw.metrics.names() if uw.metrics.get(name).takes == ("codes", "factors")]
    points = 1280  # ten groups of pairs, the fewest that are allowed
    wanted = [*names, *(f"local-{name}" for name in names)]
    scores = uw.evaluate(ensemble, wanted, rho=0.4, windows=2, points=points)
    encoder = uw.metrics.Encoder(ensemble.encode, data)
    for name in names:
        expected = uw.metrics.sampled(name, points=points)(encoder, data)
        assert scores[name].values.tolist() == expected.values.tolist(), name
        expected = uw.metrics.local(name, radius=0.4, samples=2, points=points)(encoder, data)
        assert scores[f"local-{name}"].values.tolist() == expected.values.tolist(), name
        assert scores[f"local-{name}"].settings == json.loads(json.dumps(expected.settings))


def test_metrics_of_models_get_what_they_take(run: Path):
    names = ("hoyer", "delta-kl", "dto", "udr", "decomposition")
    found = {entry["metric"]: entry for entry in score(run, names, **FAST)}
    ensemble = uw.load(run)
    x = Source(ensemble, record.stored(run).make_dataset(), 100, 20, 0).images
    codes, variances = ensemble.encode(x).numpy(), ensemble.variances(x).numpy()
    assert value(found["hoyer"]) == pytest.approx(float(uw.metrics.hoyer(codes[0])))
    assert value(found["delta_kl"], "seed-1") == pytest.approx(float(uw.metrics.delta_kl(codes[1], variances[1])))
    whole = uw.metrics.dto(ensemble.jacobian(torch.from_numpy(codes[:, :20])).numpy())
    assert [value(found["dto"], f"seed-{i}") for i in range(3)] == pytest.approx(whole.values.tolist(), abs=1e-5)
    assert len(found["udr"]["members"]) == 3 and found["udr"]["asked"]["models"]
    parts = found["decomposition"]["members"]["seed-2"]["parts"]
    assert parts["kl"] == pytest.approx(value(found["decomposition"], "seed-2") + parts["kl_aggregate_prior"], rel=1e-4)


def test_what_is_there_is_not_computed_again(run: Path, monkeypatch: pytest.MonkeyPatch):
    first = score(run, ("mig", "local-mig"), **FAST)
    monkeypatch.setattr(Source, "encode", lambda *_: pytest.fail("encoded again"))
    assert score(run, ("local-mig", "mig"), **FAST) == first[::-1]
    for change in ({"seed": 1}, {"points": 150}, {"again": True}):
        with pytest.raises(pytest.fail.Exception, match="encoded again"):
            score(run, ("mig",), **FAST | change)


def test_a_member_that_is_added_is_scored_too(runs: Path, tmp_path: Path):
    uw.fit(tiny(seeds=[0], steps=5), tmp_path / "run")
    (first,) = score(tmp_path / "run", ("mig",), **FAST)
    uw.fit(tiny(seeds=[0, 7], steps=5), tmp_path / "run")
    (second,) = score(tmp_path / "run", ("mig",), **FAST)
    assert list(second["members"]) == ["seed-0", "seed-7"] and value(first) == pytest.approx(value(second), abs=1e-6)
    assert len(storage.read(tmp_path / "run")) == 1


def test_scores_of_other_requests_stay(run: Path):
    score(run, ("mig",), **FAST)
    score(run, ("mig(bins=5)", "modularity"), **FAST)
    kept = [(entry["metric"], entry["settings"]["bins"]) for entry in storage.read(run)]
    assert kept == [("mig", 20), ("mig", 5), ("modularity", 20)]


def test_radii_are_swept(run: Path):
    found = score(run, ("local-mig", "mig", "local-modularity"), **FAST | {"rho": (0.1, 0.5)})
    assert [(one["metric"], one["settings"].get("radius")) for one in found] == [
        ("local_mig", 0.1),
        ("local_mig", 0.5),
        ("mig", None),
        ("local_modularity", 0.1),
        ("local_modularity", 0.5),
    ]


def test_the_defaults_suit_the_data(run: Path, tmp_path: Path):
    found = [entry["metric"] for entry in score(run, **FAST)]
    assert found == ["mig", "modularity", "local_mig", "local_modularity"]
    pictures = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "pictures.npy", pictures)
    spec = tiny(dataset=uw.datasets.images(tmp_path / "pictures.npy"), steps=2, method=uw.methods.beta_vae())
    uw.fit(spec, tmp_path / "run")
    assert [entry["metric"] for entry in score(tmp_path / "run", **FAST)] == ["hoyer", "delta_kl", "dto"]
    with pytest.raises(UntwineError, match="has no factors"):
        score(tmp_path / "run", ("mig",), **FAST)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("migg",), "did you mean 'mig'"),
        (("local-dto",), "dto has no local form: it is a function of jacobians"),
        (("mig(bins=3",), "cannot read the metric"),
        (("mig(3)",), "takes 0 arguments by position"),
        (("mig(bin=3)",), "did you mean 'bins'"),
        (("mig(bins=2.5)",), "must be a whole number"),
    ],
)
def test_what_cannot_be_asked(run: Path, names, message):
    with pytest.raises(UntwineError, match=message):
        score(run, names, **FAST)


def test_damaged_scores_are_said(run: Path):
    deep = "[" * 300 + "]" * 300
    for wrong in ("{", "[]", '{"format": 3, "scores": {}}', '{"format": 3, "scores": [3]}', deep):
        (run / storage.FILE).write_text(wrong)
        with pytest.raises(UntwineError, match="move it away"):
            score(run, ("mig",), **FAST)
    (run / storage.FILE).unlink()


def test_codes_on_the_scale_of_a_normal(tmp_path: Path):
    method = uw.methods.beta_vae(0.01, likelihood="squared_error", prior=uw.priors.student_t(3.0))
    uw.fit(tiny(method, steps=3), tmp_path / "run")
    (plain,) = score(tmp_path / "run", ("hoyer",), **FAST)
    (mapped,) = score(tmp_path / "run", ("hoyer",), gaussian=True, **FAST)
    assert value(plain) != value(mapped) and mapped["settings"]["gaussian"] is True
    (comparison,) = compare({"a": [plain], "b": [mapped]})
    assert comparison["not_comparable"] == ["gaussian: None and True"]
    (other,) = score(tmp_path / "run", ("dto",), gaussian=True, **FAST)
    assert "gaussian" not in other["settings"]  # it does not look at codes


def test_runs_are_compared_by_welchs_test(runs: Path):
    found = {name: score(runs / name, ("mig", "local-mig"), **FAST) for name in ("jl1", "beta")}
    rows = compare(found)
    assert [row["metric"] for row in rows] == ["mig(points=200)", "local-mig(rho=0.2, windows=3, points=200)"]
    first = [value(found["jl1"][0], f"seed-{i}") for i in range(3)]
    second = [value(found["beta"][0], f"seed-{i}") for i in range(2)]
    expected = uw.metrics.statistics.compare(first, second)
    assert (rows[0]["t"], rows[0]["p"], rows[0]["effect"]) == (expected.t, expected.p, expected.effect)
    assert rows[0]["means"] == pytest.approx([np.mean(first), np.mean(second)])
    summary = uw.Scores(found["jl1"]).summary()[0]
    assert (summary["count"], summary["mean"]) == (3, pytest.approx(np.mean(first)))


def test_scores_of_different_data_are_not_compared(runs: Path, tmp_path: Path):
    uw.fit(tiny(dataset=uw.datasets.synthetic_nonlinear(samples=300, seed=5), steps=2), tmp_path / "other")
    found = {str(path): score(path, ("mig",), **FAST) for path in (runs / "jl1", tmp_path / "other")}
    (row,) = compare(found)
    assert row["not_comparable"] == ["dataset.seed: 3 and 5"] and "t" not in row


def test_a_seed_reaches_what_is_random_in_a_metric(run: Path):
    first, second, given = score(run, ("sap", "decomposition", "sap(seed=3)"), **FAST, seed=7)
    assert first["settings"]["seed"] == second["settings"]["seed"] == 7 == first["settings"]["sampling_seed"]
    assert (given["settings"]["seed"], given["settings"]["sampling_seed"]) == (3, 7)
    labels = ["sap(points=200, sampling_seed=7)", "sap(seed=3, points=200, sampling_seed=7)"]
    assert [entry["label"] for entry in (first, given)] == labels


def test_a_metric_that_fails_does_not_stop_the_others(run: Path):
    with pytest.raises(PartlyScored, match="knn") as error:
        score(run, ("mig", "knn-score(k=0)", "hoyer"), **FAST)
    assert [entry["metric"] for entry in error.value.scores.entries] == ["mig", "hoyer"]
    assert [entry["metric"] for entry in storage.read(run)] == ["mig", "hoyer"]


def test_a_failure_is_that_of_what_was_asked_for_and_named_once():
    (one,) = requests(["local-factor-vae-score(groups=5)"])
    for error, said in {
        "factor_vae_score: 5 groups are too few": "local-factor-vae-score(groups=5): 5 groups are too few",
        "factor_vae_score needs interventions: no": "local-factor-vae-score(groups=5) needs interventions: no",
        "'groups' of metric 'factor_vae_score' must be int": "local-factor-vae-score(groups=5): 'groups' must be int",
        "no window": "local-factor-vae-score(groups=5): no window",
        "factor_vae_scores vary": "local-factor-vae-score(groups=5): factor_vae_scores vary",
    }.items():
        assert one.failure(UntwineError(error)) == said


def test_a_local_metric_that_fails_is_not_taken_for_the_global_one(run: Path):
    with pytest.raises(PartlyScored) as error:
        score(run, ("local-factor-vae-score(prune=-1.0)", "factor-vae-score(prune=-2.0)"), **FAST)
    first, second = str(error.value).splitlines()
    assert first.startswith("local-factor-vae-score(rho=0.2, prune=-1.0): ")
    assert second.startswith("factor-vae-score(prune=-2.0): ")
    assert str(error.value).count("factor-vae-score") == 2 and "factor_vae_score" not in str(error.value)


def test_scores_of_another_version_are_computed_again(run: Path):
    (before,) = score(run, ("mig",), **FAST)
    content = json.loads((run / storage.FILE).read_text())
    (entry,) = (entry for entry in content["scores"] if entry["label"] == before["label"])
    entry["untwine"] = "0.0.0"
    entry["members"]["seed-0"]["value"] = 0.123
    entry["sha256"] = files.checksum({key: value for key, value in entry.items() if key != "sha256"})
    (run / storage.FILE).write_text(json.dumps(content))
    assert score(run, ("mig",), **FAST) == [before]


def test_models_of_different_numbers_are_not_pooled(tmp_path: Path):
    method = uw.methods.beta_vae(beta=[0.01, 0.1, 0.1], likelihood="squared_error")
    uw.fit(tiny(method, seeds=[0, 0, 1], steps=3), tmp_path / "run")
    uw.fit(tiny(uw.methods.beta_vae(0.01, likelihood="squared_error"), seeds=[0, 1], steps=3), tmp_path / "plain")
    found = {name: score(tmp_path / name, ("mig",), **FAST) for name in ("run", "plain")}
    rows = uw.Scores(found["run"]).summary()
    assert [(row["count"], list(row["own"].values())) for row in rows] == [(1, [0.01]), (2, [0.1])]
    (row,) = compare(found)
    assert "differ in method.beta" in row["not_comparable"][0]


def test_under_other_priors_a_latents_kl_is_not_that_to_a_normal(tmp_path: Path):
    method = uw.methods.beta_vae(0.01, likelihood="squared_error", prior=uw.priors.laplace())
    uw.fit(tiny(method, seeds=[0, 1], steps=3), tmp_path / "run")
    (found,) = score(tmp_path / "run", ("udr",), **FAST)
    assert found["settings"]["kl"] == "from variances"


def test_how_a_score_was_first_spelled_does_not_matter(runs: Path):
    for name in ("jl1", "beta"):
        (runs / name / storage.FILE).unlink(missing_ok=True)
    score(runs / "jl1", ("mig(bins=20)",), **FAST)
    found = {name: score(runs / name, ("mig",), **FAST) for name in ("jl1", "beta")}
    (row,) = compare(found)
    assert row["metric"] == "mig(points=200)" and row["t"] is not None


def test_a_number_of_groups_is_kept_to(run: Path):
    (found,) = score(run, ("factor-vae-score(groups=30, size=16)",), **FAST | {"points": None})
    assert (found["settings"]["groups"], found["settings"]["size"], found["asked"]["points"]) == (30, 16, 480)
    (found,) = score(run, ("local-beta-vae-score(groups=20)",), **FAST | {"points": None})
    assert (found["settings"]["groups"], found["asked"]["points"]) == (20, 20 * 128)


def test_the_reason_for_no_comparison_is_the_right_one(run: Path):
    near, far = (score(run, ("local-mig",), **FAST | {"rho": (rho,)}) for rho in (0.2, 0.4))
    (row,) = compare({"a": near, "b": far})
    assert row["not_comparable"] == ["radius: 0.2 and 0.4"]


def test_radii_and_designs_share_what_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = uw.datasets.synthetic_linear(samples=100, levels=12)  # 144 states
    uw.fit(tiny(dataset=data, steps=2), tmp_path / "run")
    encoded: list[int] = []
    encode = Source.encode
    monkeypatch.setattr(Source, "encode", lambda self, x: encoded.append(len(x)) or encode(self, x))
    names = ("mig", "local-mig", "local-modularity", "factor-vae-score(groups=20)")
    score(tmp_path / "run", names, **FAST | {"rho": (0.2, 0.5)})
    assert 0 < sum(encoded) <= 144


# --- labels ---------------------------------------------------------------------------------------


def test_what_differs_has_labels_that_differ(run: Path):
    """Every pair of different conditions, stored in one file one after the other, and asked for again by label."""
    plain = {"points": 200, "windows": 2, "rho": 0.2, "examples": 60, "jacobians": 20}
    changes = (
        {},
        {"points": 150},
        {"seed": 1},
        {"windows": 3},
        {"rho": (0.2, 0.4)},
        {"examples": 50},
        {"jacobians": 9},
        {"wrap": False},
    )
    names = (
        "dci(estimator=lasso)",
        "dci(estimator=lasso, alpha=0.1)",
        "local-mig",
        "hoyer",
        "dto",
        "sap",
        "sap(seed=0)",
    )
    by_label: dict[str, dict] = {}
    for change in changes:
        for entry in score(run, names, **plain | change):
            known = by_label.setdefault(entry["label"], entry)
            assert known == entry  # one label, one score
    stored = storage.read(run)
    assert sorted(by_label) == sorted(entry["label"] for entry in stored) and len(stored) == len(by_label)
    keys = {storage.key(entry) for entry in stored}
    assert len(keys) == len(stored) == 2 * 3 + 6 + 3 + 4 + 4 + 1  # dci, local-mig, hoyer, dto, sap, sap(seed=0)
    again = score(run, tuple(by_label))  # a label is a request, under the defaults
    assert {entry["label"]: entry for entry in again} == by_label


def test_labels_say_what_is_not_the_default(run: Path):
    settings = {"points": 10_000, "examples": 300, "rho": 0.1}  # the dataset has 300
    labels = [entry["label"] for entry in score(run, ("mig(bins=20)", "hoyer", "local-mig(windows=2)"), **settings)]
    assert labels == ["mig", "hoyer", "local-mig(rho=0.1, windows=2)"]
    (both,) = score(run, ("local-mig(rho=0.3, points=150, bins=4)",), **FAST)
    assert both["label"] == "local-mig(rho=0.3, bins=4, windows=3, points=150)"
    assert (both["settings"]["samples"], both["settings"]["radius"], both["settings"]["bins"]) == (150, 0.3, 4)
    for name, message in (
        ("mig(points=1)", "points must be 2 or more"),
        ("mig(points=few)", "points of metric 'mig' must be a whole number"),
        ("mig(rho=0.1)", "unknown argument of metric 'mig': 'rho'"),
        ("local-mig(rho=2)", "rho is a fraction"),
        ("hoyer(points=5)", "unknown argument of metric 'hoyer'"),
    ):
        with pytest.raises(UntwineError, match=message):
            score(run, (name,), **FAST)


def test_a_pivot_does_not_mix_sizes_and_radii(run: Path):
    scores = uw.evaluate(run, ["mig(points=150)", "mig(points=250)", "local-mig"], rho=(0.2, 0.4), windows=2)
    by_name: dict[str, list[float]] = {}
    for row in scores.rows():
        by_name.setdefault(row["metric"], []).append(row["value"])
    assert len(by_name) == 4 and all(len(values) == 3 for values in by_name.values())
    ensemble, data = uw.load(run), record.stored(run).make_dataset()
    for points in (150, 250):
        expected = uw.metrics.sampled("mig", points=points)(ensemble.encode, data).values.tolist()
        assert by_name[f"mig(points={points})"] == expected


def test_scores_of_an_older_format_are_computed_anew(run: Path):
    (before,) = score(run, ("mig",), **FAST)
    old = {**before, "label": "mig", "asked": {}}
    (run / storage.FILE).write_text(json.dumps({"format": 1, "scores": [old, old]}))
    assert score(run, ("mig",), **FAST) == [before] and storage.read(run) == [before]


# --- scores that cannot be otherwise ----------------------------------------------------------------


def test_models_without_an_active_latent(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    """After a step the posteriors are the prior's width; a narrow posterior of a deterministic model is not."""
    passive = uw.fit(tiny(uw.methods.beta_vae(0.01, likelihood="squared_error"), seeds=[0, 1, 2], steps=1))
    scores = uw.evaluate(passive, ["modularity", "mig", "dci", "hoyer"], **FAST)
    assert scores.collapsed() == ["seed-0", "seed-1", "seed-2"]
    assert "no latent is active in seed-0, seed-1, seed-2" in str(recwarn[-1].message)
    rows = {row["metric"]: row for row in scores.summary()}
    assert rows["modularity(points=200)"]["mean"] is None and rows["modularity(points=200)"]["count"] == 0
    assert rows["modularity(points=200)"]["notes"] == ["no score, as no latent is active"]
    assert rows["mig(points=200)"]["count"] == 3 == rows["dci(points=200) informativeness"]["count"]
    assert rows["dci(points=200) completeness"]["count"] == 0
    by_hand = uw.metrics.sampled("modularity", points=200)(passive.encode, passive.dataset())
    assert scores["modularity"].values.tolist() == by_hand.values.tolist()  # as defined, for whoever wants it
    json.dumps(scores.entries, allow_nan=False)
    assert "-" in repr(scores) and "--" in scores.to_latex()
    csv = scores.to_csv()
    assert csv is not None and "seed-0,,no latent is active," in csv
    point = uw.fit(tiny(uw.methods.ae(), seeds=[0, 1], steps=1))
    found = uw.evaluate(point, ["modularity"], **FAST)
    assert found.collapsed() == [] and found.summary()[0]["count"] == 2


def test_what_cannot_be_otherwise_is_not_compared(tmp_path: Path):
    data = uw.datasets.synthetic_nonlinear(samples=300, seed=3)
    runs = {}
    for name, steps in (("trained", 30), ("collapsed", 1)):
        method = uw.methods.beta_vae(0.01, likelihood="squared_error")
        trained = uw.fit(tiny(method, dataset=data, seeds=[0, 1, 2], steps=steps, lr=0.03))
        runs[name] = uw.evaluate(trained, ["modularity", "mig"], **FAST)
    modularity, mig = comparisons(runs)
    assert modularity["not_comparable"] == ["collapsed: no latent is active"] and "t" not in modularity
    assert mig["t"] is not None


# --- your own data: grids that are not complete -----------------------------------------------------


def save_own(path: Path, labels: np.ndarray, kinds: str = "") -> uw.Run:
    """A run on examples in files: vectors of the factors, with a little noise, and their table."""
    noise = np.random.default_rng(0).normal(size=(len(labels), 6)) / 10
    np.save(path / "examples.npy", (np.tile(labels, 6)[:, :6] + noise).astype(np.float32))
    header = ",".join("xyzw"[: labels.shape[1]])
    rows = "\n".join(",".join(map(str, row)) for row in labels.tolist())
    (path / "factors.csv").write_text(f"{header}\n{rows}\n")
    data = uw.datasets.images(path / "examples.npy", factors=path / "factors.csv", kinds=tuple(kinds.split()))
    return tiny(uw.methods.beta_vae(0.01, likelihood="squared_error"), dataset=data, seeds=[0, 1], steps=3)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    uw.fit(save_own(tmp_path, np.random.default_rng(1).integers(0, [6, 9], (120, 2))), tmp_path / "run")
    return tmp_path


def test_examples_are_scored_by_all_metrics_that_need_no_interventions(own: Path):
    able = ("dci", "explicitness", "infomec", "knn-score", "mig", "modularity", "sap", "hoyer", "udr", "local-mig")
    refused = ("irs", "factor-vae-score", "local-beta-vae-score")
    with pytest.raises(PartlyScored) as error:
        score(own / "run", able[:4] + refused + able[4:], rho=(0.4,))
    found = {entry["label"]: entry for entry in error.value.scores.entries}
    assert list(found) == [*able[:-1], "local-mig(rho=0.4)"]
    data, ensemble = record.stored(own / "run").make_dataset(), uw.load(own / "run")
    assert not data.complete
    labels = data.factors_of(range(120))
    seen = len({tuple(row) for row in labels.tolist()})
    failures = str(error.value).splitlines()
    assert [said.partition(" needs interventions: ")[0] for said in failures if "interventions: " in said] == list(
        refused
    )
    assert "beta_vae_score" not in str(error.value)  # nobody asked for that
    assert str(error.value).count(f"{seen} of the 54 states of images have an example") == 3
    expected = uw.metrics.mig(ensemble.encode(data.examples()), labels)
    assert [value(found["mig"], f"seed-{i}") for i in range(2)] == pytest.approx(expected.values.tolist())
    assert found["mig"]["settings"]["samples"] == 120 and found["mig"]["asked"]["points"] == 10_000
    used = found["local-mig(rho=0.4)"]["settings"]
    assert used["windows"] == len(used["samples"]) == 20 and all(20 <= count <= 120 for count in used["samples"])


def test_scores_of_data_that_changed_are_not_taken_for_the_new_ones(own: Path, monkeypatch: pytest.MonkeyPatch):
    (first,) = score(own / "run", ("mig",))
    assert first["asked"]["content"] == first["settings"]["dataset"]["content"]
    table = (own / "factors.csv").read_text()
    lines = table.splitlines()
    (own / "factors.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    (second,) = score(own / "run", ("mig",))
    assert value(second) != value(first) and second["settings"]["samples"] == first["settings"]["samples"]
    (row,) = compare({"a": [first], "b": [second]})
    assert "content" in row["not_comparable"][0] and len(storage.read(own / "run")) == 2
    (own / "factors.csv").write_text(table)
    monkeypatch.setattr(Source, "encode", lambda *_: pytest.fail("encoded again"))
    assert score(own / "run", ("mig",)) == [first]


def test_data_that_a_spec_determines_have_no_content(run: Path):
    (found,) = score(run, ("mig",), **FAST)
    assert "content" not in found["asked"] and "content" not in found["settings"]["dataset"]


def test_the_defaults_have_no_windows_where_there_are_none(tmp_path: Path):
    rng = np.random.default_rng(2)
    for name, labels, kinds, expected in (
        ("digits", rng.integers(0, 3, (60, 1)), "x=categorical", ["mig", "modularity"]),
        ("few", rng.integers(0, 40, (60, 2)), "", ["mig", "modularity"]),  # too few in any window of radius 0.1
        ("many", rng.integers(0, 4, (60, 2)), "", ["mig", "modularity", "local_mig", "local_modularity"]),
    ):
        (tmp_path / name).mkdir()
        uw.fit(save_own(tmp_path / name, labels, kinds), tmp_path / name / "run")
        found = score(tmp_path / name / "run")
        assert [entry["metric"] for entry in found] == expected, name
    with pytest.raises(PartlyScored, match=r"local-mig\(rho=0.1\): no window of .* holds 20 examples.*larger radius"):
        score(tmp_path / "few" / "run", rho=(0.1,))
    assert score(tmp_path / "few" / "run", ("local-mig",), rho=(0.5,))[0]["settings"]["windows"] == 20
    with pytest.raises(
        UntwineError, match=r"local-mig\(rho=1.0\): there are no windows: every factor \(x\) is categorical"
    ):
        score(tmp_path / "digits" / "run", ("local-mig",))


@pytest.mark.parametrize(
    ("dataset", "warned"),
    [
        (uw.datasets.synthetic_linear(samples=300, seed=1), False),
        (uw.datasets.split("synthetic-linear(samples=300)", part="test", test=0.5), False),
        (uw.datasets.synthetic_linear(ratio=3, samples=300), True),
        (uw.datasets.split("synthetic-linear(ratio=3, samples=300)"), True),
    ],
    ids=["another draw", "a part", "another ratio", "a part of another ratio"],
)
def test_other_data_are_warned_of_but_not_other_parts(dataset: uw.Dataset, warned: bool, tmp_path: Path):
    ensemble = uw.fit(tiny(dataset=uw.datasets.synthetic_linear(samples=200), steps=2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        uw.evaluate(ensemble, ["mig"], dataset=dataset, points=50)
    said = [str(warning.message) for warning in caught if "were not trained on" in str(warning.message)]
    assert len(said) == warned and all("synthetic-linear(ratio=3.0, samples=300)" in text for text in said)
