"""What every part must keep to: each way of making it checks it, and its name works in a text and in a file."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import untwine as uw
from untwine import parts, trees
from untwine.cli import main
from untwine.errors import UntwineError
from untwine.model.networks import networks
from untwine.objective.core import Penalty
from untwine.objective.jacobian import Jacobian
from untwine.objective.schedules import Schedule
from untwine.parts import Part, from_json, to_json

KINDS: dict[str, Any] = {
    "likelihood": uw.Likelihood,
    "posterior": uw.Posterior,
    "prior": uw.Prior,
    "penalty": Penalty,
    "pairing": uw.pairings.Pairing,
    "schedule": Schedule,
}


def ours(entry: Any) -> bool:
    """Whether something is defined by Untwine, not by another test."""
    return (entry if hasattr(entry, "__qualname__") else type(entry)).__module__.startswith("untwine.")


ENTRIES = [
    pytest.param(kind, name, id=f"{kind} {name}")
    for kind, base in KINDS.items()
    for name, entry in base.registry.items()
    if ours(entry)
]
CLASSES = [cls for cls in trees.classes.values() if ours(cls) and dataclasses.fields(cls)]

# A complete set of arguments for the classes that need some.
KL = {"part": "Penalty", "term": {"part": "KL"}}
NEEDED: dict[str, dict[str, Any]] = {
    "Overlap": {"likelihood": {"part": "Bernoulli"}},
    "Constant": {"value": 1.0},
    "Ramp": {"end": 1.0, "steps": 3},
    "Cyclic": {"schedule": {"part": "Constant", "value": 1.0}, "period": 3},
    "Join": {"schedules": [{"part": "Constant", "value": 1.0}], "boundaries": []},
    "Product": {key: {"part": "Constant", "value": 1.0} for key in ("first", "second")},
    "Plus": {key: {"part": "Constant", "value": 1.0} for key in ("first", "second")},
    "Penalty": {"term": {"part": "KL"}},
    "Sum": {"penalties": [KL]},
    "Distance": {"penalty": KL, "target": {"part": "Constant", "value": 1.0}},
    "Given": {"recipe": {"distribution": "Normal", "arguments": {"loc": [0.0], "scale": [1.0]}}},
    "Objective": {
        "likelihood": {"part": "Bernoulli"},
        "posterior": {"part": "DiagonalNormal"},
        "prior": {"part": "StandardNormal"},
    },
}


def complete(cls: type) -> dict[str, Any]:
    return {"part": cls.__name__, **NEEDED.get(cls.__name__, {})}


# --- one validator for every way --------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_examples_are_right(cls):
    part = from_json(complete(cls))
    assert type(part) is cls and from_json(json.loads(json.dumps(to_json(part)))) == part
    assert dataclasses.replace(part) == part


@pytest.mark.parametrize("wrong", [object(), "nonsense", {"nonsense": 1}], ids=["object", "text", "mapping"])
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_field_takes_what_it_is_not(cls, wrong):
    part = from_json(complete(cls))
    arguments = {field.name: getattr(part, field.name) for field in dataclasses.fields(cls)}
    for name in arguments:
        with pytest.raises(UntwineError):
            cls(**{**arguments, name: wrong})
        with pytest.raises(UntwineError):
            dataclasses.replace(part, **{name: wrong})
        if type(wrong) is not object:
            with pytest.raises(UntwineError):
                from_json({**complete(cls), name: wrong})


@pytest.mark.parametrize(
    ("text", "cls", "arguments"),
    [
        ("sparse(gamma=5)", "SparsePrior", {"gamma": 5}),
        ("sparse(variance=-1)", "SparsePrior", {"variance": -1}),
        ("sparse(gamma=(0.5, 2))", "SparsePrior", {"gamma": {"each": [0.5, 2.0]}}),
        ("student-t(nu=0)", "StudentTPrior", {"nu": 0}),
        ("laplace(scale=0)", "LaplacePrior", {"scale": 0}),
        ("generalised-normal(p=31)", "GeneralisedNormalPrior", {"p": 31}),
        ("anisotropic-normal((1, -1))", "AnisotropicNormal", {"variances": [1, -1]}),
        ("anisotropic-normal(learned=1)", "AnisotropicNormal", {"learned": 1}),
        ("mixture-of-normals(((0, 1), (1,)))", "MixtureOfNormals", {"means": [[0, 1], [1]]}),
        ("mixture-of-normals(weights=(1, 2))", "MixtureOfNormals", {"weights": [1, 2]}),
        ("gaussian(scale=-1)", "Gaussian", {"scale": -1}),
        ("laplace(scale=true)", "Laplace", {"scale": True}),
        ("overlap(bernoulli, radius=1.5)", "Overlap", {"likelihood": {"part": "Bernoulli"}, "radius": 1.5}),
        ("overlap(bernoulli, kernel=disc)", "Overlap", {"likelihood": {"part": "Bernoulli"}, "kernel": "disc"}),
        ("mmd(kernel=linear)", "MMD", {"kernel": "linear"}),
        ("mmd(scales=())", "MMD", {"scales": []}),
        ("mmd(scales=(1, 0))", "MMD", {"scales": [1, 0]}),
        ("total-correlation(mixture)", "TotalCorrelation", {"estimator": "mixture"}),
        ("kl-aggregate-prior(weighted)", "KLAggregatePrior", {"estimator": "weighted"}),
        ("covariance(of=sample)", "Covariance", {"of": "sample"}),
        ("adversarial-total-correlation(hidden=0)", "AdversarialTotalCorrelation", {"hidden": 0}),
        ("jacobian(p=7)", "Jacobian", {"p": 7}),
        ("jacobian(estimator=nonsense)", "Jacobian", {"estimator": "nonsense"}),
        ("jacobian(columns=0)", "Jacobian", {"columns": 0}),
        ("jacobian(images=2)", "Jacobian", {"images": [2, 1]}),
        ("orthogonality(eps=0)", "Orthogonality", {"eps": 0}),
        ("ada(average=mode)", "Ada", {"average": "mode"}),
        ("ada(differing=0)", "Ada", {"differing": 0}),
        ("ramp(1, -1)", "Ramp", {"end": 1.0, "steps": -1}),
        ("cyclic(1, 0)", "Cyclic", {"schedule": {"part": "Constant", "value": 1.0}, "period": 0}),
        ("join((1, 2), ())", "Join", {"schedules": [{"part": "Constant", "value": 1.0}] * 2, "boundaries": []}),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_every_way(text, cls, arguments):
    part = trees.classes[cls]
    base = next(base for base in (*KINDS.values(), uw.Term) if issubclass(part, base))
    kind = Penalty if base is uw.Term else base
    with pytest.raises(UntwineError):
        kind.read(text)
    with pytest.raises(UntwineError):
        from_json({"part": cls, **arguments})
    python = {key: from_json(value) for key, value in arguments.items()}
    with pytest.raises(UntwineError):
        part(**python)
    whole = from_json(complete(part))
    with pytest.raises(UntwineError):
        dataclasses.replace(whole, **python)


def test_a_jacobian_of_nonsense_does_not_train():
    objective = json.loads(json.dumps(to_json(uw.methods.jl1_vae())))
    for change in ({"p": 7}, {"estimator": "nonsense"}):
        wrong = json.loads(json.dumps(objective))
        wrong["penalties"]["jacobian"]["term"].update(change)
        with pytest.raises(UntwineError, match="must be"):
            uw.Run(method={"objective": wrong}, dataset="synthetic_linear")
    assert Jacobian(2).p == 2


# --- names of arguments -----------------------------------------------------------------------------


def entries_of(registry: Any) -> list[str]:
    return [name for name in registry.names() if ours(registry[name])]


CALLABLES: dict[str, Callable[..., Any]] = {
    **{f"{kind} {name}": base.registry[name] for kind, base in KINDS.items() for name in entries_of(base.registry)},
    **{f"penalty function {name}": getattr(uw.penalties, name) for name in entries_of(Penalty.registry)},
    **{f"method {name}": uw.methods.get(name) for name in entries_of(uw.methods.methods)},
    **{f"network {name}": networks[name] for name in entries_of(networks)},
}
CALLABLES = {name: entry for name, entry in CALLABLES.items() if not parts.is_part(entry)}


@pytest.mark.parametrize("name", CALLABLES)
def test_a_misspelt_argument_gets_a_suggestion(name):
    function = CALLABLES[name]
    with pytest.raises(UntwineError, match=r"unknown argument of .*: 'zzz'; known: |takes no arguments, but 'zzz'"):
        function(zzz=1)
    for argument in inspect.signature(function).parameters:
        misspelt = argument + "e"
        with pytest.raises(UntwineError, match=rf"unknown argument of .*: '{misspelt}'; did you mean '{argument}'\?"):
            function(**{misspelt: 1})
    with pytest.raises(UntwineError):
        function(*[object()] * 20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uw.priors.sparse(gama=1), r"^unknown argument of prior 'sparse': 'gama'; did you mean 'gamma'\?$"),
        (
            lambda: uw.networks.conv(chanels=(3,)),
            r"unknown argument of network 'conv': 'chanels'; did you mean 'channels'",
        ),
        (lambda: uw.likelihoods.overlap(), "likelihood 'overlap' needs likelihood"),
        (lambda: uw.priors.standard_normal.__class__(1), "prior 'standard_normal' takes no arguments"),
        (lambda: uw.networks.mlp(hidden="wide"), "hidden of network 'mlp' must be a list of whole numbers, not 'wide'"),
        (lambda: uw.networks.conv(hidden=0), "hidden of network 'conv' must be a whole number, 1 or more, not 0"),
    ],
)
def test_what_the_errors_say(make, message):
    with pytest.raises(UntwineError, match=message):
        make()


# --- names of parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_it_has_a_public_name(kind, name):
    room = {"penalty": "penalties", "pairing": "pairings"}.get(kind, f"{kind}s")
    if kind == "schedule" and name in ("product", "plus"):
        return  # written * and + in Python
    public = getattr(uw, room)
    assert name in public.__all__ and name in dir(public)


@pytest.mark.parametrize("room", ["priors", "likelihoods", "posteriors", "penalties", "schedules", "pairings"])
def test_public_modules_list_only_what_is_public(room):
    module = getattr(uw, room)
    assert dir(module) == sorted(module.__all__)
    assert not {"math", "nn", "torch", "part", "annotations", "UntwineError"} & set(dir(module))
    assert all(hasattr(module, name) for name in dir(module))


@pytest.mark.parametrize("room", ["methods", "networks"])
def test_functions_are_listed_by_name(room):
    module = getattr(uw, room)
    assert dir(module) == sorted(module.__all__) and "annotations" not in dir(module)


# --- parts of one's own -----------------------------------------------------------------------------


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Forget parts and methods that are defined within."""
    registries = [*(base.registry for base in KINDS.values()), uw.methods.methods]
    before = [dict(registry._entries) for registry in registries], dict(trees.classes)
    try:
        yield
    finally:
        for registry, entries in zip(registries, before[0], strict=True):
            registry._entries.clear()
            registry._entries.update(entries)
        trees.classes.clear()
        trees.classes.update(before[1])


@pytest.fixture
def own() -> Iterator[dict[str, type]]:
    with forgotten():

        @uw.part
        class MinePrior(uw.Prior):
            """A normal with a standard deviation of one's own."""

            scale: float = 1.0

            def build(self, info: uw.Info) -> uw.PriorModule:
                return uw.priors.anisotropic_normal((float(self.scale) ** 2,) * info.latents).build(info)

        @uw.part
        class MineLikelihood(uw.Likelihood):
            scale: float = 1.0

            def build(self, info: uw.Info) -> uw.LikelihoodModule:
                return uw.likelihoods.laplace(self.scale).build(info)

        @uw.part
        class MyPosterior(uw.Posterior):
            def width(self, latents: int) -> int:
                return latents

            def build(self, raw: Tensor) -> Any:
                return uw.posteriors.deterministic.build(raw)

        @uw.part
        class MeanSize(uw.Term):
            power: float = 2.0

            def value(self, passed: uw.Pass) -> Tensor:
                return passed.q.mean.abs().pow(self.power).sum(1).mean()

        yield {"prior": MinePrior, "likelihood": MineLikelihood, "posterior": MyPosterior, "penalty": MeanSize}


def test_an_own_part_has_a_text_name_at_once(own):
    assert uw.priors.named("mine(scale=2)") == own["prior"](2.0)
    assert uw.likelihoods.named("overlap(mine(0.5), radius=1)").likelihood == own["likelihood"](0.5)
    assert uw.posteriors.named("my") == own["posterior"]()
    assert uw.penalties.named("mean-size(power=3)") == uw.Penalty(own["penalty"](3.0))
    assert uw.penalties.watchable("mean-size") == uw.Penalty(own["penalty"]())
    with pytest.raises(UntwineError, match=r"unknown argument of prior 'mine': 'scal'; did you mean 'scale'\?"):
        uw.priors.named("mine(scal=2)")
    with pytest.raises(UntwineError, match=r"scale of prior 'mine' must be a number, not 'wide'"):
        own["prior"]("wide")
    assert own["prior"]([1, 2]).scale == uw.each(1, 2)  # a float may differ by member


def test_a_run_of_own_parts_is_written_down(own):
    run = uw.Run(
        method=uw.methods.decomposition_vae(prior="mine(scale=2)", likelihood="mine", divergence="mean-size"),
        dataset="synthetic_linear",
        seeds=[0, 1],
        steps=2,
        latents=2,
        watch=["mean-size"],
    )
    spec = json.loads(json.dumps(run.to_json()))
    assert spec["method"]["prior"] == {"part": "MinePrior", "scale": 2.0}
    assert uw.Run.from_json(spec) == run
    ensemble = uw.fit(run, device="cpu")
    assert ensemble.member(0).prior().variance.tolist() == [4.0, 4.0]


def test_own_parts_on_the_command_line(own, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [
        "--dataset",
        "synthetic-linear",
        "--dataset.samples",
        "50",
        "--latents",
        "2",
        "--steps",
        "2",
        "--batch-size",
        "8",
        "--out",
        "run",
        "--json",
    ]
    assert main(["train", "vae", *flags, "--prior", "mine(scale=2)", "--likelihood", "mine(scale=0.5)"]) == 0
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert json.dumps({"part": "MinePrior", "scale": 2.0})[1:-1] in json.dumps(written)
    capsys.readouterr()
    assert main(["train", "decomposition-vae", "--help"]) == 0
    said = "".join(capsys.readouterr().out.replace("│", " ").split())
    for kind in ("likelihood", "posterior", "prior"):
        assert all(name.replace("_", "-") in said for name in KINDS[kind].registry)  # one's own, too
    assert all(name.replace("_", "-") in said for name in uw.penalties.divergences())
    assert main(["train", "vae", *flags, "--prior", "mine(scal=2)"]) == 2
    assert "unknown argument of prior 'mine': 'scal'; did you mean 'scale'?" in capsys.readouterr().err


def test_a_clash_of_names_is_refused():
    with forgotten(), pytest.raises(UntwineError, match="the prior 'sparse' exists already, in untwine"):

        @uw.part
        class Sparse(uw.Prior):
            pass

    assert uw.priors.named("sparse") == uw.priors.sparse()
    with pytest.raises(UntwineError, match="unknown part 'Sparse'"):
        from_json({"part": "Sparse"})
    with pytest.raises(UntwineError, match="a part named 'Laplace' exists already"):
        uw.part(type("Laplace", (uw.Prior,), {"__module__": "elsewhere", "__annotations__": {}}))


def test_what_is_not_imported_is_said_to_be(own):
    spec = uw.Run(method=uw.methods.vae(prior="mine"), dataset="synthetic_linear").to_json()
    named = {"name": "my_method", "beta": 1.0}
    with forgotten():
        del trees.classes["MinePrior"]
        for wrong, kind, name in ((spec["method"], "part", "MinePrior"), (named, "method", "my_method")):
            message = f"unknown {kind} '{name}'.* If '{name}' is your own, import the module that defines it first"
            with pytest.raises(UntwineError, match=message) as caught:
                uw.Run.from_json({**spec, "method": wrong})
            assert "--import MODULE_OR_FILE" in str(caught.value)


# --- arrays and sums --------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [np.array([1.0, 2.0]), [1, 2], (1.0, 2.0), uw.each(1, 2)])
def test_an_array_times_a_penalty_is_one_penalty(weights):
    expected = uw.Penalty(uw.penalties.kl.term, uw.constant(uw.each(1, 2)))
    assert weights * uw.penalties.kl == uw.penalties.kl * weights == expected
    ramp = uw.ramp(4.0, 10)
    assert weights * ramp == ramp * weights == uw.each(1, 2) * ramp
    assert weights * uw.constant(3.0) == uw.constant([3, 6]) and uw.constant(3.0) + weights == uw.constant([4, 5])
    assert uw.constant(3.0) - weights == uw.constant([2, 1])
    assert isinstance(weights * uw.penalties.kl, uw.Penalty) and isinstance(weights * ramp, Schedule)


def test_a_number_of_numpy_weighs_as_any_other():
    assert np.float64(2.0) * uw.penalties.kl == 2.0 * uw.penalties.kl
    assert np.float64(2.0) * uw.ramp(1.0, 3) == 2.0 * uw.ramp(1.0, 3)


def test_penalties_are_added_to_an_objective():
    vae, jacobian = uw.methods.vae(), 0.1 * uw.penalties.jacobian()
    both = vae.with_penalties(jacobian=jacobian)
    assert both == vae + {"jacobian": jacobian} == vae.replace(penalties={**vae.penalties, "jacobian": jacobian})
    assert list(vae.penalties) == ["kl"] and list(both.penalties) == ["kl", "jacobian"]
    with pytest.raises(UntwineError, match=r"has penalties \['kl'\] already"):
        vae.with_penalties(kl=jacobian)
    with pytest.raises(UntwineError, match=r"'size' of penalties of part 'Objective' must be a penalty such as 4.0"):
        vae.replace(penalties={"size": 3.0})
    with pytest.raises(TypeError):
        vae + jacobian  # type: ignore[operator]
    assert uw.methods.jl1_vae().with_penalties(mmd=uw.penalties.mmd()).published["lr"] == 1e-4  # type: ignore[attr-defined]


def test_the_kinds_are_all_there():
    assert {base.kind for base in KINDS.values()} == set(KINDS)
    assert all(issubclass(base, Part) for base in KINDS.values())
