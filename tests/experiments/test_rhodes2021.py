"""The settings of rhodes2021 are the paper's, its numbers too, and what we measure of columns is what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import untwine as uw
from untwine.errors import UntwineError
from untwine.experiments.engine.contract import Plan, Trained
from untwine.experiments.engine.rows import Rows
from untwine.experiments.rhodes2021 import dots, estimators, objects, patches, published, where

QUALITY = Path(__file__).parents[2] / "results" / "quality.json"
DOTS = [dots.fig2, dots.fig4, dots.fig5, dots.fig6, dots.fig7]
ALL = [*DOTS, objects.fig3, objects.single_object, patches.fig1, patches.fig8, patches.fig9]


PLANS: dict[str, Plan] = {}


def plan(known, /, scale="paper", **changes):
    """A plan, made once for all tests."""
    key = f"{known.name} {scale} {changes}"
    if key not in PLANS:
        PLANS[key] = known.plan(known.settings(scale, **changes))
    return PLANS[key]


def run_of(known, scale="paper", **columns):
    (found,) = [c for c in plan(known, scale).cases if columns.items() <= c.columns.items()]
    return found.run


@pytest.mark.parametrize("known", ALL, ids=lambda known: known.name)
def test_runs_have_the_settings_of_the_appendices(known):
    natural, four = known.name[-4:] in ("fig1", "fig8", "fig9"), known is objects.fig3
    for c in plan(known).cases:
        run, epochs = c.run, natural or (known is dots.fig5 and c.columns["method"] != "JL1-VAE")
        steps = {True: 100_000, False: 300_000}[natural] // (2 if c.columns["method"] == "FactorVAE" else 1)
        assert run.steps == steps and run.batch_size == (128 if natural else 64)
        assert run.lr == (1e-3 if natural else 1e-4) and run.optimiser["name"] == "adam"
        assert run.sampling == ("epochs" if epochs else "iid")
        assert run.network.spec["name"] == ("rhodes16" if natural else "locatello64" if epochs else "rhodes64")
        assert run.latents == {"rhodes2021/fig8": 5, "rhodes2021/fig9": 25}.get(known.name, 10)
        assert len(run.seeds) == (5 if natural or four else 10) and run.precision == (
            "float32" if natural else "bfloat16"
        )


@pytest.mark.parametrize(
    ("known", "beta", "gamma", "anneal"),
    [(dots.fig4, 4.0, 0.1, 100_000), (objects.fig3, 0.01, 0.01, 100_000), (patches.fig1, 0.01, 0.01, 50_000)],
    ids=["three-dots", "tiles", "patches"],
)
def test_weights_are_those_of_the_appendices(known, beta, gamma, anneal):
    plain, sparse = (run_of(known, method=method).method for method in ("β-VAE", "JL1-VAE"))
    expected = uw.methods.beta_vae(beta=beta, anneal=anneal)
    assert plain == expected
    assert sparse == uw.methods.jl1_vae(beta=beta, gamma=gamma, anneal=anneal, columns=1, eps=0.1)
    own = plan(known, columns=None, eps=1e-3)
    paper = uw.methods.jl1_vae(beta=beta, gamma=gamma, anneal=anneal, columns=None, estimator="finite", eps=1e-3)
    assert own.cases[1].run.method == paper
    assert not any("differences" in text for text in own.caveats)
    assert any("one sampled column" in text and "0.1" in text for text in plan(known).caveats)


def test_baselines_have_the_settings_of_appendix_b():
    expected = {
        "β-VAE": uw.methods.beta_vae(beta=4.0, anneal=0),
        "FactorVAE": uw.methods.factor_vae(gamma=30.0),
        "DIP-VAE-I": uw.methods.dip_vae_i(lambda_od=5.0, lambda_d=50.0),
        "DIP-VAE-II": uw.methods.dip_vae_ii(lambda_od=5.0, lambda_d=5.0),
        "β-TCVAE": uw.methods.beta_tcvae(beta=4.0),
        "AnnealedVAE": uw.methods.annealed_vae(gamma=1000.0, capacity=25.0, anneal=100_000),
    }
    trained = {c.columns["method"]: c.run.method for c in plan(dots.fig5).cases if c.columns["method"] != "JL1-VAE"}
    assert trained == expected


def test_figures_share_their_models():
    pair = [c.run for c in plan(dots.fig4).cases]
    assert all([c.run for c in plan(known).cases] == pair for known in (dots.fig2, dots.fig6))
    assert run_of(dots.fig7, method="β-VAE") == pair[0]
    assert run_of(dots.fig5, method="JL1-VAE") == pair[1]
    assert run_of(dots.fig7, method="JL1-VAE", gamma=0.1) == pair[1]
    assert run_of(estimators.estimators, model="differences of .1") == pair[1]
    assert run_of(estimators.cost_of_columns, model="one column") == pair[1]


def test_published_numbers_are_those_of_the_plots():
    rows = Rows(published.FIGURE4)
    assert rows.where(method="JL1-VAE", measure="local_mig").values == [0.125, 0.072, 0.049, 0.019, 0.006]
    assert rows.where(method="β-VAE", rho=1.0).values == [0.005, 0.44]
    five = Rows(published.FIGURE5)
    assert five.where(measure="local_modularity").values == [0.942, 0.897, 0.859, 0.918, 0.887, 0.894, 0.843]
    assert not plan(dots.fig4, "small").published  # other pictures, other numbers


def test_plans_need_no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    for known in [*ALL, objects.fig3_tiled_dsprites, patches.fig10]:
        for scale in ("small", "paper"):
            plan(known, scale)
    assert not (tmp_path / "none").exists()


def test_dots_apart_are_apart_and_whole_and_every_dark_pixel_is_of_its_dot():
    data = uw.datasets.three_dots(examples=3_000)
    images, regions = where.dots_apart(data, 20)
    assert images.shape == (20, 1, 64, 64) and regions.shape == (20, 64, 64)
    for image, region in zip(images, regions, strict=True):
        dark = image[0] == 0
        # Three whole dots of radius 5.12 px: each has the pixels of one, and all of them look alike.
        assert {int((region[dark] == dot).sum()) // 60 for dot in range(3)} == {1}
        for dot in range(3):
            y, x = np.nonzero(dark & (region == dot))
            assert np.ptp(y) < 11 and np.ptp(x) < 11


@pytest.fixture(scope="module")
def trained():
    run = uw.Run("beta_vae", {"name": "three_dots", "examples": 500}, "rhodes64", latents=3, seeds="0-1", steps=1)
    return Trained({"method": "β-VAE"}, uw.fit(run, device="cpu"), run.make_dataset(), [])


def test_share_in_one_is_one_for_columns_of_single_dots_and_a_third_for_all_alike(trained, monkeypatch):
    _, regions = where.dots_apart(trained.dataset, 4)
    single = np.stack([regions == dot for dot in range(3)], 1)[:, :, None].astype(np.float32)
    sizes = single.sum((2, 3, 4), keepdims=True)
    alike = np.repeat((single / np.sqrt(sizes)).sum(1, keepdims=True), 3, 1)
    monkeypatch.setattr(where, "jacobians", lambda *_: np.stack([single, alike]))
    rows = where.share_in_one(trained, "dots", 4)
    assert [(row["seed"], row["measure"]) for row in rows] == [(0, "share_in_one"), (1, "share_in_one")]
    assert [row["value"] for row in rows] == pytest.approx([1, 1 / 3], abs=1e-5)


def test_columns_without_energy_do_not_count(trained, monkeypatch):
    _, regions = where.dots_apart(trained.dataset, 4)
    columns = np.zeros((2, 4, 3, 1, 64, 64), np.float32)
    columns[:, :, 0, 0] = regions == 1
    monkeypatch.setattr(where, "jacobians", lambda *_: columns)
    assert [row["value"] for row in where.share_in_one(trained, "dots", 4)] == pytest.approx([1, 1])
    columns[:] = 0
    columns[:, :, 1, 0, 20, 30] = 5.0
    assert [row["value"] for row in where.spread(trained, 4)] == pytest.approx([0, 0], abs=1e-6)


def test_patches_have_so_little_contrast_that_weights_of_figure_1_decide():
    """Ten principal components gain .56 nats, of which gamma times the L1 norms of their columns takes .22."""
    data = uw.datasets.natural_patches(source="scikit-learn", examples=2_000)
    images = np.asarray(data.batch(range(len(data)))).reshape(len(data), -1) / 255
    mean = images.mean(0)

    def loss(pictures):
        return -(images * np.log(pictures) + (1 - images) * np.log1p(-pictures)).sum(1).mean()

    values, vectors = np.linalg.eigh(np.cov(images.T))
    values, vectors = values[-10:], vectors[:, -10:]
    learned = np.clip(mean + (images - mean) @ vectors @ vectors.T, 1e-6, 1 - 1e-6)
    norms = np.abs(vectors * np.sqrt(values)).sum()
    assert loss(mean) - loss(np.clip(images, 1e-9, 1 - 1e-9)) == pytest.approx(2.12, abs=0.01)
    assert loss(mean) - loss(learned) == pytest.approx(0.56, abs=0.01)
    assert 0.01 * norms == pytest.approx(0.22, abs=0.01)


def test_weights_shrink_with_the_number_of_pixels():
    """At 16 px each weight is a sixteenth, at any step of its schedule, but for beta, which is given for this size."""
    small, full = (
        {
            c.columns["method"]: c.run.method.penalties
            for c in plan(dots.fig5, scale, **changes).cases
            if c.columns["method"] != "JL1-VAE"
        }
        for scale, changes in (("small", {"beta": 0.25}), ("paper", {"anneal": 8_000}))
    )
    assert set(small) == set(dots.BASELINES)
    for method, penalties in full.items():
        for name, penalty in penalties.items():
            at = [float(small[method][name].weight(step)) for step in (0, 100, 10_000_000)]
            assert at == pytest.approx([float(penalty.weight(step)) / 16 for step in (0, 100, 10_000_000)])


def test_known_scores_are_read_from_a_benchmark(tmp_path):
    def row(variant, step, values, **more):
        scores = {f"{m} {r:g} values": values for m in published.MEASURES for r in (0.1, 0.03)}
        return {"variant": variant, "step": step, "seeds": "3-4", "radii": [0.1, 0.03], **scores, **more}

    stored = [
        row("jl1_vae", 100, [0.1, 0.2], ms_per_step=4.0),
        row("jl1_vae", 50, [9.0, 9.0]),
        row("jl1_vae columns=None eps=0.001", 100, [0.3, 0.4]),
        row("beta_vae anneal=100000", 100, [0.5, 0.6]),
        row("jl1_vae estimator=exact soft=0.05", 100, [9.0, 9.0]),  # an option that is no more
        row("jl1_vae decoder_activation=silu", 100, [9.0, 9.0]),
        row("jl1_vae eps=0.03", 100, [9.0], diverged=1),
    ]
    path = tmp_path / "quality.json"
    path.write_text(json.dumps({"rows": stored}))
    asked = ("exact", "β-VAE", "differences of .1", "differences of .001, every column", "differences of .03")
    planned = plan(estimators.estimators, known=str(path), steps=100, models=asked)
    (fact,) = planned.facts
    rows = Rows(fact.function(**fact.arguments))
    mig = rows.where(measure="local_mig", rho=0.1)
    assert {key: (r.values, [one["seed"] for one in r]) for key, r in mig.by("model").items()} == {
        "differences of .1": ([0.1, 0.2], [3, 4]),
        "differences of .001, every column": ([0.3, 0.4], [3, 4]),
        "β-VAE": ([0.5, 0.6], [3, 4]),
    }
    # What it does not have is trained: one that was never scored, and one that diverged.
    assert [case.columns["model"] for case in planned.cases] == ["exact", "differences of .03"]
    assert rows.where(measure="seconds").values == pytest.approx([0.2, 0.2])  # 100 steps of 4 ms for two seeds
    with pytest.raises(UntwineError, match="is no file of `untwine bench quality`"):
        estimators.known_scores(str(tmp_path / "none.json"), 100, {})
    with pytest.raises(UntwineError, match="unknown model 'exakt'"):
        plan(estimators.estimators, models=("exakt",))


def test_stored_results_have_the_ten_models_of_figure_4():
    (fact,) = plan(estimators.estimators, known=str(QUALITY)).facts
    rows = Rows(fact.function(**fact.arguments))
    chosen = rows.where(measure="local_mig", rho=0.1, model=["β-VAE", "differences of .1", "exact, every column"])
    assert {model: len(of_model) for model, of_model in chosen.by("model").items()} == {
        "β-VAE": 10, "differences of .1": 10, "exact, every column": 10,
    }  # fmt: skip
