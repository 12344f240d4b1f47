"""The settings of rolinek2019 are those of its Table S3, its numbers too, and runs are shared where they are equal."""

from __future__ import annotations

import pytest

from untwine.experiments.engine.contract import Plan
from untwine.experiments.rolinek2019 import linear, setting, trained
from untwine.experiments.rolinek2019.setting import AE, BETA_VAE, FULL, PROBLEMS, RANDOM, VAE

# Table S3: optimiser, rate, hidden layers of encoder and decoder, latents, epochs, beta; and steps, by hand.
TABLE_S3 = {
    "dSprites": ("adagrad", 1e-2, "rolinek_dsprites", 5, 50, 4.0, 230_400),
    "synth. lin.": ("adam", 1e-3, "rolinek_linear", 2, 600, 1e-4, 187_800),
    "synth. non-lin.": ("adam", 1e-3, "rolinek_nonlinear", 2, 600, 1e-3, 187_800),
    "MNIST": ("adagrad", 1e-2, "rolinek_mnist", 6, 400, 1.0, 175_200),
    "fMNIST": ("adagrad", 1e-2, "rolinek_mnist", 6, 500, 1.0, 219_000),
}
ALL = [
    linear.fig1,
    linear.fig2,
    linear.table_s4,
    linear.fig_s5,
    trained.table1,
    trained.table2,
    trained.fig3,
    trained.fig_s4,
]
PLANS: dict[str, Plan] = {}


def plan(known) -> Plan:
    """The plan at paper scale, made once for all tests."""
    if known.name not in PLANS:
        PLANS[known.name] = known.plan(known.settings("paper"))
    return PLANS[known.name]


@pytest.mark.parametrize("name", TABLE_S3)
def test_runs_have_the_settings_of_table_s3(name):
    optimiser, rate, network, latents, epochs, beta, steps = TABLE_S3[name]
    problem = PROBLEMS[name]
    assert (problem.latents, problem.epochs, problem.beta) == (latents, epochs, beta)
    cases = [case for case in plan(trained.table2).cases if case.columns["dataset"] == name]
    for case in cases:
        run, architecture = case.run, case.columns["method"]
        assert run.optimiser["name"] == optimiser and run.network.spec["name"] == network
        assert (run.latents, run.batch_size, run.sampling) == (latents, 128, "epochs")
        assert (run.lr, run.steps) == ((1e-30, 1) if architecture == RANDOM else (rate, steps))
        assert run.dataset["name"] == "split" and run.dataset["part"] == "train"
        assert (run.dataset["evaluation"], run.dataset["test"]) == (0.1, 0.1)
        spec = run.to_json()["method"]
        assert spec.get("beta") == {BETA_VAE: beta, VAE: 1.0, FULL: beta}.get(architecture)
        assert spec["name"] == {AE: "ae", RANDOM: "ae", FULL: "beta_vae_full"}.get(architecture, "beta_vae")
        assert spec["likelihood"] == {"part": "SquaredError"}


def test_a_random_decoder_keeps_its_initial_weights():
    import torch

    import untwine as uw

    case = setting.Training("0", samples=200).case("synth. lin.", RANDOM)
    once = uw.fit(case.run, device="cpu").member(0).state_dict()
    again = uw.fit(case.run.replace(lr=1e-35), device="cpu").member(0).state_dict()
    assert all(torch.equal(once[key], again[key]) for key in once)
    moved = uw.fit(case.run.replace(lr=1e-2), device="cpu").member(0).state_dict()
    assert not all(torch.equal(once[key], moved[key]) for key in once)


def test_equal_runs_are_shared_between_figures():
    def ids(known, **columns) -> set[str]:
        chosen = [case for case in plan(known).cases if columns.items() <= case.columns.items()]
        return {member.id for case in chosen for member in case.run.members()}

    square = {"dataset": "synth. lin."}
    assert ids(linear.fig1) == ids(linear.fig2) <= ids(trained.table2, **square)
    assert ids(trained.table2, method=BETA_VAE) <= ids(trained.table1)
    assert ids(trained.table2, method=VAE) <= ids(trained.table1) | ids(trained.fig_s4) | ids(trained.table2)
    assert ids(trained.fig3, epochs=50) == ids(trained.table2, dataset="dSprites", method=BETA_VAE)
    assert ids(trained.fig_s4, beta=4.0) < ids(trained.fig3, epochs=50)
    assert ids(linear.table_s4, ratio=1.0) == ids(linear.fig_s5, ratio=1.0)
    # No run of Figure 3 is the beginning of a longer one.
    seeds = [case.run.seeds for case in plan(trained.fig3).cases]
    assert len({seed for some in seeds for seed in some}) == 30
    assert sorted(case.run.steps for case in plan(trained.fig3).cases) == [46_080, 138_240, 230_400]


def test_the_numbers_of_the_paper():
    published = {known.name: plan(known).published for known in ALL}
    assert [len(rows) for rows in published.values()] == [0, 4, 6, 0, 10, 31, 0, 0]
    table2 = {(r["dataset"], r["method"], r["measure"]): r["value"] for r in published["rolinek2019/table2"]}
    assert table2["dSprites", BETA_VAE, "knn_score"] == 0.33 and table2["fMNIST", FULL, "dto"] == 2.02
    assert ("MNIST", VAE, "knn_score") not in table2 and ("synth. lin.", VAE, "dto") not in table2
    assert sum(value for (*_, measure), value in table2.items() if measure == "dto") == pytest.approx(25.49)
    table1 = {(r["dataset"], r["latents_are"]): r["value"] for r in published["rolinek2019/table1"]}
    assert table1["dSprites", "10"] == 0.906 and min(table1.values()) == 0.906


def test_table_1_is_the_share_until_the_end():
    history = [{"step": 500, "delta_kl": 0.5}, {"step": 1000, "delta_kl": 0.02}, {"step": 2000, "delta_kl": 0.01}]
    assert setting._share(history, 0.03) == 0.75
