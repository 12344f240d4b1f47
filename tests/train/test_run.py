"""The spec: strict, round-tripping, and the identity of members."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import tiny

import untwine as uw
from untwine.objective.schedules import Ramp
from untwine.train.member import Member
from untwine.train.seeds import parse_seeds


@pytest.mark.parametrize("name", uw.methods.names())
def test_every_method_round_trips_through_text(name: str) -> None:
    run = tiny(name)
    assert uw.Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_an_objective_without_a_name_round_trips() -> None:
    sentence = uw.Objective(
        likelihood=uw.likelihoods.laplace(0.1),
        posterior=uw.posteriors.full_normal,
        prior=uw.priors.given(torch.distributions.Independent(torch.distributions.StudentT(3.0 * torch.ones(3)), 1)),
        penalties={"kl": uw.cyclic(uw.ramp(2.0, 5), 10) * uw.penalties.kl, "j": 0.5 * uw.penalties.jacobian(2)},
    )
    run = tiny(sentence)
    again = uw.Run.from_json(json.loads(json.dumps(run.to_json())))
    assert again == run
    assert again.members()[0].objective == again.method == sentence


def test_a_schedule_and_a_likelihood_as_arguments_round_trip() -> None:
    run = tiny(uw.methods.beta_vae(beta=uw.join([0.0, uw.ramp(1.0, 10)], [5]), likelihood=uw.likelihoods.laplace(0.2)))
    assert uw.Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 10}, "did you mean 'steps'"),
        ({"method": "beta_va"}, "did you mean 'beta_vae'"),
        ({"method": {"name": "beta_vae", "betta": 1.0}}, "did you mean 'beta'"),
        ({"method": {"objective": {"part": "Objectiv"}}}, "did you mean 'Objective'"),
        ({"dataset": "three_dot"}, "did you mean 'three_dots'"),
        ({"dataset": {"name": "three_dots", "sise": 3}}, "did you mean 'size'"),
        ({"network": "mpl"}, "did you mean 'mlp'"),
        ({"network": {"name": "mlp", "hiden": [3]}}, "did you mean 'hidden'"),
        ({"optimiser": "adm"}, "did you mean 'adam'"),
        ({"sampling": "epoch"}, "did you mean 'epochs'"),
        ({"precision": "float16"}, "did you mean 'bfloat16'"),
        ({"seeds": []}, "seeds are a list"),
        ({"seeds": 3}, "seeds are a list"),
        ({"seeds": [-1]}, "whole number from 0"),
        ({"seeds": [0, 0]}, "the same"),
        ({"data_seeds": [0, 1]}, "number of data seeds is 2, but of seeds 1"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"latents": 0}, "latents must be a whole number"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"lr": float("nan")}, "must be finite"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"clip": "1m"}, "clip must be a number or None, not '1m'"),
        ({"lr": "fast"}, "lr must be a number, not 'fast'"),
        ({"seeds": "3-1"}, "not a range"),
        ({"seeds": "0-99999999999"}, "not a range"),
        ({"dataset": {"name": "synthetic_linear", "ratio": float("nan")}}, "must be finite"),
        ({"watch": ["jacobian_l3"]}, "did you mean 'jacobian_l"),
    ],
)
def test_mistakes_are_refused_with_a_suggestion(change: dict, message: str) -> None:
    with pytest.raises(uw.UntwineError, match=message):
        uw.Run.from_json({**tiny().to_json(), **change})


def test_the_identity_is_what_can_change_the_result() -> None:
    run = tiny()
    assert run.id == tiny(log_every=7, watch=("jacobian_l1",)).id
    for change in ({"lr": 2e-3}, {"seeds": [1]}, {"steps": 21}, {"method": "vae"}, {"data_seeds": [5]}):
        assert tiny(**change).id != run.id
    member = tiny(seeds=[0, 1, 2]).members()[1]
    assert member.id == tiny(seeds=[1]).members()[0].id
    assert member.name == "seed-1"
    assert tiny(seeds=[1], data_seeds=[4]).members()[0].name == "seed-1-data-4"


@pytest.mark.parametrize("values", [[1.0, 4.0], (1, 4), np.array([1.0, 4.0]), torch.tensor([1.0, 4.0])])
def test_numbers_by_member(values: object) -> None:
    run = tiny(uw.methods.beta_vae(beta=values, anneal=10), seeds=[0, 1])
    weights = [member.objective.penalties["kl"].weight for member in run.members()]
    assert weights == [Ramp(1.0, 10), Ramp(4.0, 10)]
    assert run.members()[1].id == tiny(uw.methods.beta_vae(beta=4.0, anneal=10), seeds=[1]).members()[0].id
    with pytest.raises(uw.UntwineError, match="2 values, but the number of seeds is 3"):
        tiny(uw.methods.beta_vae(beta=values), seeds=[0, 1, 2])


def test_a_seed_may_repeat_when_something_else_differs() -> None:
    run = tiny(uw.methods.beta_vae(beta=[1.0, 4.0]), seeds=[0, 0])
    assert len({member.id for member in run.members()}) == 2


def test_seeds_as_text() -> None:
    assert parse_seeds("3") == (3,)
    assert parse_seeds("0-2, 5") == (0, 1, 2, 5)
    with pytest.raises(uw.UntwineError, match="written as"):
        parse_seeds("one")


def test_the_network_suits_the_data() -> None:
    def chosen(dataset: uw.Dataset) -> str:
        return uw.Run(method="vae", dataset=dataset).network.spec["name"]

    assert chosen(uw.datasets.synthetic_linear(samples=5)) == "mlp"
    assert chosen(uw.datasets.three_dots(examples=5)) == "rhodes64"
    assert chosen(uw.datasets.three_dots(examples=5, size=16)) == "rhodes16"
    assert chosen(uw.datasets.three_dots(examples=5, size=32)) == "conv"


def test_a_run_is_frozen() -> None:
    with pytest.raises(AttributeError):
        tiny().steps = 3  # type: ignore[misc]


def test_numbers_from_numpy_and_whole_numbers_are_the_same() -> None:
    assert tiny(seeds=np.arange(2), latents=np.int64(3)) == tiny(seeds=[np.int64(0), 1])
    assert tiny(clip=1).id == tiny(clip=1.0).id
    assert tiny(network={"name": "rhodes64", "log_variance": -3}).id == tiny(network="rhodes64").id
    assert tiny(watch="jacobian-l1") == tiny(watch=["jacobian_l1", "jacobian_l1"])


def test_a_misspelt_argument_of_a_method_in_python() -> None:
    with pytest.raises(uw.UntwineError, match="did you mean 'beta'"):
        uw.methods.beta_vae(betta=3.0)  # type: ignore[call-arg]


def test_the_source_of_images_is_a_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "pictures.npy", np.zeros((3, 16, 16), np.uint8))
    monkeypatch.chdir(tmp_path)
    by_name = uw.Run(method="vae", dataset={"name": "images", "source": "pictures.npy"})
    assert by_name.dataset["source"] == str(tmp_path / "pictures.npy")
    assert by_name == uw.Run(method="vae", dataset=uw.datasets.images("pictures.npy"))


# Ids as earlier versions wrote them into run.json: with other ids no stored run could be extended.
IDS = {
    "jl1": ("b8edafc5d5322daa", ["2178a2cbba0fd78c", "f9baf4e85596626f"]),
    "sentence": ("06031b66479fdbba", ["d6eb4db315740bdf", "4151b177c7ab158b"]),
}


@pytest.mark.parametrize("name", IDS)
def test_ids_stay_as_they_were(name: str) -> None:
    sentence = uw.Objective(
        uw.likelihoods.laplace([0.1, 0.5]),
        uw.posteriors.full_normal,
        uw.priors.student_t(5),
        {
            "kl": uw.ramp([1.0, 2.0], 5) * uw.penalties.kl,
            "j": 0.5 * uw.penalties.jacobian(2) + 0.1 * uw.penalties.flatness(),
        },
    )
    settings = {"steps": 12, "log_every": 4}
    runs = {
        "jl1": lambda: tiny(
            uw.methods.jl1_vae(
                0.01, [0.01, 0.1], 10, None, "exact", eps=1e-3, likelihood="squared_error"
            ),  # the defaults of then
            seeds=[0, 1],
            watch=("jacobian_l2",),
            **settings,
        ),
        "sentence": lambda: tiny(sentence, seeds=[0, 0], lr=[1e-3, 2e-3], **settings),
    }
    run = runs[name]()
    assert (run.id, [member.id for member in run.members()]) == IDS[name]
    again = uw.Run.from_json(json.loads(json.dumps(run.to_json())))
    assert [member.id for member in again.members()] == IDS[name][1]


def test_what_a_method_got_later_is_read_as_it_was_before() -> None:
    """A stored run of finite differences, from before their step was an argument, is no run of today's default."""
    stored = tiny(uw.methods.jl1_vae(estimator="finite", eps=1e-3), seeds=[0]).to_json()
    assert not stored["method"].keys() & {"eps", "every"}
    again = uw.Run.from_json(stored)
    term = again.method.penalties["jacobian"].term
    assert (term.eps, term.every, again.to_json()) == (1e-3, 1, stored)
    assert uw.Run.from_json({**stored, "method": {"name": "jl1_vae"}}).method == uw.methods.jl1_vae()


def test_members_hold_their_own_values() -> None:
    """A member's objective is that of its spec, for every method with a number of its own for each member."""
    for name in uw.methods.names():
        run = tiny(name, seeds=[3, 4], lr=[1e-3, 2e-3])
        for member in run.members():
            assert member.objective == Member.from_json(member.seed, member.data_seed, member.spec).objective
            assert member.network == run.network
    run = tiny(uw.methods.jl1_vae(gamma=[0.1, 0.2], prior=uw.priors.sparse([0.5, 0.6])), seeds=[3, 4], watch="delta_kl")
    for member in run.members():
        assert member.objective == Member.from_json(member.seed, member.data_seed, member.spec).objective
    assert [member.objective.prior.gamma for member in run.members()] == [0.5, 0.6]
    assert "delta_kl" in run.members()[0].objective.penalties
