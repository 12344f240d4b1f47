"""The fast path: what is traced is the plain step, whole, for every method; and when it is taken.

There is no GPU here: the backend "trace" runs what was traced as it is, which leaves only the compiler and
the CUDA graph to the tests in tests/gpu.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jaxtyping
import pytest
import torch
from helpers import StopAt, losses, same, tiny
from precision import double_precision

import untwine as uw
from untwine.train import paths
from untwine.train.folders import record
from untwine.train.remarks.progress import Bar, Reporter, Several
from untwine.train.steps import batches as train_batches
from untwine.train.steps import compiled
from untwine.train.steps.pack import Pack
from untwine.train.steps.step import PlainStep
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))
from test_training import MARKED_CASES
from test_training import run as contract

CPU, BLOCK = torch.device("cpu"), 8
Entries = list[dict[str, Any]]


def trained(run: uw.Run, backend: str | None, resident: bool = True) -> tuple[Trainer, Entries]:
    """A pack after all its steps, with the lines of its log."""
    table = Table(run.make_dataset(), CPU, resident, None, run.info().standard, run.training())
    trainer = Trainer(Pack(run.members(), run.info(), CPU, "vmap"), run, table)
    if backend:
        trainer.compile(backend)
    return trainer, [entry for entry in trainer.steps() if entry is not None]


def assert_equal(run: uw.Run, backend: str = "trace", resident: bool = True) -> Trainer:
    """Check that both paths lead to the same state, with the same log; return the trainer of the fast one.

    In float64, whose last bit leads to relative distances of 1e-12 or less in the cases below. Sums for the log are
    float32, hence the bound on those.
    """
    with double_precision():
        (plain, log), (fast, log2) = trained(run, None, resident), trained(run, backend, resident)
    assert (plain.path, fast.path, fast.state.step) == ("plain", "fast", run.steps)
    expected = plain.state.tensors()
    assert fast.state.tensors().keys() == expected.keys()
    for name, value in fast.state.tensors().items():
        exact = value.dtype == torch.float64
        bounds = {"rtol": 1e-9, "atol": 1e-12} if exact else {"rtol": 1e-6, "atol": 1e-6}
        torch.testing.assert_close(value, expected[name], check_dtype=False, **bounds)
    assert fast.state.parameters.dtype == torch.float64
    assert [entry["step"] for entry in log] == [entry["step"] for entry in log2]
    for a, b in zip(log, log2, strict=True):
        for member, terms in a["members"].items():
            assert b["members"][member].keys() == terms.keys()
            for term, value in terms.items():
                found = b["members"][member][term]
                assert found == (None if value is None else pytest.approx(value, rel=1e-6, abs=1e-6))
    return fast


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of a few steps, so that short runs have several; one thread suits models this small.

    Shapes are checked in all other tests: here it would take half the time.
    """
    torch.set_num_threads(1)
    monkeypatch.setitem(train_batches._BLOCK_STEPS, "cpu", BLOCK)
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.mark.parametrize("case", MARKED_CASES)
def test_every_sentence_is_traced_whole(case: str) -> None:
    """Through the smallest network: tracing takes its time, and others are traced below."""
    fast = assert_equal(contract(case, network=uw.networks.mlp(()), steps=5, log_every=2))
    assert isinstance(fast.step, compiled.CompiledStep) and fast.step.state is fast.state


@pytest.mark.parametrize(
    ("changes", "resident"),
    [
        ({"clip": 1e-2, "optimiser": "amsgrad", "lr": [1e-3, 1e-2]}, True),
        ({"optimiser": "adagrad", "sampling": "epochs", "batch_size": 64, "steps": 12}, True),  # 300 = 4 * 64 + 44
        ({"optimiser": "adagrad", "sampling": "epochs", "batch_size": 64, "steps": 12}, False),
        ({"sampling": "epochs", "batch_size": 400, "steps": 4}, True),  # every batch is all there is
        ({"watch": ("jacobian_l1", "deterministic_reconstruction"), "log_every": 3}, False),
        ({"method": uw.methods.jl1_vae(anneal=0, every=3), "watch": ("jacobian_l2",), "log_every": 3}, True),
        ({"steps": 2 * BLOCK + 1, "log_every": 5}, True),  # more than two blocks
        ({"steps": 2 * BLOCK + 1, "log_every": 5}, False),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "resident" if given else "streamed",
)
def test_settings_of_a_run(changes: dict[str, Any], resident: bool) -> None:
    assert_equal(tiny(**({"seeds": [0, 1], "steps": 7} | changes)), resident=resident)


def test_short_batches_take_the_plain_step(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: list[int] = []
    original = PlainStep.compute

    def spy(self: PlainStep, i: int, watch: bool) -> Any:
        plain.append(self.block.start + i)
        return original(self, i, watch)

    monkeypatch.setattr(PlainStep, "compute", spy)
    trained(tiny(sampling="epochs", batch_size=64, steps=12), "trace")
    assert plain == [4, 9]


def test_images_are_standardised_in_the_trace() -> None:
    images = uw.datasets.three_dots(size=16, positions=16, examples=64)
    settings: dict[str, Any] = {"dataset": images, "batch_size": 8, "steps": 4, "network": uw.networks.mlp(hidden=(8,))}
    run = tiny(uw.methods.vae(likelihood="squared_error"), standardise=True, **settings)
    assert_equal(run)
    assert run.info().standard is not None


def dots(**arguments: Any) -> uw.Run:
    images, network = uw.datasets.three_dots(size=32, examples=50), uw.networks.conv(channels=(4, 8), hidden=16)
    settings: dict[str, Any] = {"batch_size": 4, "seeds": [0, 1], "steps": 3, "log_every": 1}
    return uw.Run(method=uw.methods.jl1_vae(anneal=2, **arguments), dataset=images, network=network, **settings)


class Traced(NamedTuple):
    """A run on both paths, with their logs, and what was traced for the fast one."""

    plain: Trainer
    log: Entries
    fast: Trainer
    fast_log: Entries
    operations: list[str]


def test_held_out_losses_are_logged_beside_the_compiled_step() -> None:
    """Their examples are in no batch, and their loss is that of the plain path: no part of what is traced."""
    run = tiny(uw.methods.vae(likelihood="squared_error"), holdout=0.2, seeds=[0, 1], log_every=10)
    fast = assert_equal(run)
    assert fast.batches.gathered and fast.held_out is not None


@functools.cache
def convolutions(through: str, images: float | None, estimator: str) -> Traced:
    """Convolutions with a Jacobian penalty, traced once for all tests: tracing takes its time."""
    run = dots(columns=1, through=through, images=images, estimator=estimator, eps=0.3)
    graphs, traced = [], compiled._traced
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_traced", lambda *given: graphs.append(traced(*given)) or graphs[-1])
        (plain, log), (fast, fast_log) = trained(run, None), trained(run, "trace")
    graphs[-1].graph.eliminate_dead_code()
    return Traced(plain, log, fast, fast_log, [str(node.target) for node in graphs[-1].graph.nodes])


def counts(operations: list[str], *names: str) -> dict[str, int]:
    return {name: operations.count(f"untwine.{name}.default") for name in names}


@pytest.mark.rounding
@pytest.mark.parametrize("estimator", ["exact", "finite"])
@pytest.mark.parametrize("images", [None, 0.5])
@pytest.mark.parametrize("through", ["both", "decoder"])
def test_convolutions(through: str, images: float | None, estimator: str) -> None:
    """Through our own kernels where there are such: other sums in another order."""
    found = convolutions(through, images, estimator)
    for a, b in zip(found.log, found.fast_log, strict=True):
        assert b["members"]["seed-1"] == pytest.approx(a["members"]["seed-1"], rel=1e-4)
    moved = found.plain.state.optimiser["first"]
    assert (found.fast.state.optimiser["first"] - moved).norm() / moved.norm() < 1e-3


@pytest.mark.parametrize("images", [None, 0.5])
def test_what_is_the_same_is_computed_once(images: float | None) -> None:
    """Holding z fixed for the penalty takes another way back to z, two convolutions long, but no second pass."""
    names = ("conv_up", "conv_up_fold", "weight_gradient", "conv_down")
    both, decoder = (convolutions(through, images, "exact").operations for through in ("both", "decoder"))
    assert not any("detach" in target or "alias" in target for target in both + decoder)
    expected = counts(both, *names)
    assert min(expected.values()) > 0
    assert counts(decoder, *names) == {**expected, "conv_down": expected["conv_down"] + 2}


@pytest.mark.parametrize("estimator", ["exact", "central"])
def test_smooth_decoders(estimator: str) -> None:
    images = uw.datasets.three_dots(size=16, examples=50)
    assert_equal(
        uw.Run(
            method=uw.methods.jl1_vae(anneal=2, columns=1, estimator=estimator, eps=0.3),
            dataset=images,
            network=uw.networks.rhodes16(decoder_activation="silu"),
            **{"batch_size": 4, "seeds": [0, 1], "steps": 3, "log_every": 1},
        )
    )


def test_differences_share_the_pass() -> None:
    """Whether z is held fixed or not: the forward passes are the same."""
    names = ("conv_up", "conv_up_fold", "weight_gradient")
    both, decoder = (counts(convolutions(t, None, "finite").operations, *names) for t in ("both", "decoder"))
    assert both == decoder and min(both.values()) > 0


@pytest.mark.rounding
def test_crossed_gradients_are_scaled_where_they_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The norm's gradient of the inputs of both ReLUs takes no pass over memory of its own."""
    graphs, traced = [], compiled._traced
    monkeypatch.setattr(compiled, "_traced", lambda *given: graphs.append(traced(*given)) or graphs[-1])
    network = uw.networks.conv(channels=(4, 8, 8), hidden=16)
    run = dots(columns=1, estimator="finite", eps=0.3).replace(network=network)
    (plain, _), (fast, _) = trained(run, None), trained(run, "trace")
    moved = plain.state.optimiser["first"]
    assert (fast.state.optimiser["first"] - moved).norm() / moved.norm() < 1e-3
    nodes = [node for node in graphs[-1].graph.nodes if "untwine" in str(node.target)]
    assert not [node for node in nodes if "scaled" in str(node.target)]
    assert len([node for node in nodes if "conv_down" in str(node.target) and node.args[6] is not None]) == 2


@pytest.mark.parametrize("estimator", ["finite", "central"])
def test_steps_of_differences_that_differ_by_member(estimator: str) -> None:
    fast = assert_equal(dots(columns=1, estimator=estimator, eps=uw.each(0.01, 0.5)))
    with double_precision():
        alone, _ = trained(dots(columns=1, estimator=estimator, eps=0.5), None)
    torch.testing.assert_close(fast.state.parameters[1], alone.state.parameters[1], rtol=1e-9, atol=1e-12)
    assert not torch.allclose(fast.state.parameters[0], alone.state.parameters[0], rtol=1e-6)


def test_a_step_of_differences_that_is_a_schedule() -> None:
    """It moves at every step, on both paths; the same numbers as those of its steps at rest."""
    schedule = uw.ramp(0.5, 2, 0.01)
    fast = assert_equal(dots(columns=1, estimator="finite", eps=schedule))
    with double_precision():
        still, _ = trained(dots(columns=1, estimator="finite", eps=0.01), None)
    assert not torch.allclose(fast.state.parameters, still.state.parameters, rtol=1e-6)


def test_a_dead_member_stays_as_it_was() -> None:
    bad = uw.join([1.0, uw.ramp(uw.each(1e39, 1.0), 0)], [5])
    fast = assert_equal(tiny(uw.methods.beta_vae(beta=bad), seeds=[0, 1], steps=9, log_every=2))
    assert fast.state.died.tolist() == [5, -1]
    assert fast.state.parameters.isfinite().all()


def test_addresses_stay_and_compiling_changes_nothing() -> None:
    run = tiny(seeds=[0, 1], sampling="epochs", batch_size=64)
    trainer = Trainer(Pack(run.members(), run.info(), CPU, "vmap"), run, Table(run.make_dataset(), CPU))
    before = {name: (value.data_ptr(), value.clone()) for name, value in trainer.state.tensors().items()}
    trainer.compile("trace")
    for name, value in trainer.state.tensors().items():
        assert torch.equal(value, before[name][1])
    for _ in trainer.steps():
        pass
    trainer.state.put(3, {name: value for name, (_, value) in before.items()})
    for name, value in trainer.state.tensors().items():
        assert value.data_ptr() == before[name][0]
        assert torch.equal(value, before[name][1])
    assert trainer.step.state is trainer.state


@pytest.mark.skipif(not shutil.which("g++"), reason="Inductor needs a compiler")
def test_compiled_by_inductor() -> None:
    """A small method, and without vectors of numbers, which are tried out at length: compiling takes its time."""
    import torch._inductor.config as inductor

    run = tiny(uw.methods.vae(likelihood="squared_error"), network=uw.networks.mlp(()), seeds=[0, 1], steps=4)
    with inductor.patch({"cpp.vec_isa_ok": False}):
        assert_equal(run, "inductor")


TWICE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, torch._inductor.graph as graph
import untwine as uw
from untwine.train.steps.table import Table
from untwine.train.steps.pack import Pack
from untwine.train.steps.trainer import Trainer
made, codegen = [], graph.GraphLowering.codegen
def caught(self):
    made.append(codegen(self)[0].value.partition("\\n")[2])  # the first line has a running number
    raise InterruptedError
graph.GraphLowering.codegen = caught
torch._inductor.config.cpp.vec_isa_ok = False  # else they are tried out at length
dots, network = uw.datasets.three_dots(size=16, positions=16, examples=8), uw.networks.conv(channels=(4, 8), hidden=8)
run, device = uw.Run(method="beta_vae", dataset=dots, network=network, batch_size=4), torch.device("cpu")
for _ in range(2):
    trainer = Trainer(Pack(run.members(), run.info(), device, "vmap"), run, Table(run.make_dataset(), device))
    try:
        trainer.compile("inductor")
    except Exception:
        pass
assert len(made) == 2 and "untwine.weight_gradient" in made[0] and made[0] == made[1]
"""


def test_compiling_again_gives_the_same() -> None:
    """Else a run that goes on in another process would differ in its last bits: Inductor knows an operator by then."""
    command = [sys.executable, "-c", TWICE, str(Path(__file__).parent)]
    environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


BFLOAT16 = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from test_compiled import tiny, trained
import untwine as uw
run = tiny(uw.methods.beta_vae(beta=1.0, likelihood="squared_error"), precision="bfloat16", seeds=[0, 1], steps=3)
(plain, _), (fast, _) = trained(run, None), trained(run, "trace")
full, _ = trained(run.replace(precision="float32"), None)
torch.testing.assert_close(fast.state.parameters, plain.state.parameters, rtol=1e-5, atol=1e-6)
assert not torch.equal(fast.state.parameters, full.state.parameters)
"""


def test_bfloat16() -> None:
    """In a process of its own: on some virtual machines bfloat16 needs this variable, from the start."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    command = [sys.executable, "-c", BFLOAT16, str(Path(__file__).parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- when it is taken -------------------------------------------------------------------------------------


@pytest.fixture
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path here, without a compiler."""
    monkeypatch.setattr(paths, "obstacle", lambda device, batching: "")
    monkeypatch.setattr(compiled, "BACKEND", "trace")


def test_which_path(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    monkeypatch.setattr(paths, "obstacle", lambda device, batching: "" if device == gpu else "no GPU")
    long, short = paths.LONG, paths.LONG - 1
    assert paths.choose("auto", gpu, "vmap", long) == "fast"
    assert paths.choose("auto", gpu, "vmap", short) == "plain"
    assert paths.choose("auto", gpu, "vmap", short, "fast") == "fast"
    assert paths.choose("auto", gpu, "vmap", long, "plain") == "plain"
    assert paths.choose("fast", gpu, "vmap", short) == "fast"
    assert paths.choose("plain", gpu, "vmap", long, "fast") == "plain"
    assert paths.choose("auto", CPU, "vmap", long) == "plain"
    with pytest.warns(UserWarning, match="no GPU; training takes the plain one"):
        assert paths.choose("auto", CPU, "vmap", long, "fast") == "plain"


def test_paths_that_cannot_be_taken_are_refused(tmp_path: Path) -> None:
    with pytest.raises(uw.UntwineError, match="it is for cuda, and the device is cpu"):
        uw.fit(tiny(), tmp_path / "run", device="cpu", path="fast")
    with pytest.raises(uw.UntwineError, match="path is 'auto', 'fast' or 'plain', not 'quick'"):
        uw.fit(tiny(), tmp_path / "run", path="quick")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize("sampling", ["iid", "epochs"])
def test_going_on_is_bitwise_the_same(tmp_path: Path, sampling: str) -> None:
    """And a run that began on a path goes on with it."""
    run = tiny(seeds=[0, 1], sampling=sampling, batch_size=64, steps=20, log_every=3)
    options: dict[str, Any] = {"device": "cpu", "batching": "vmap"}
    whole = uw.fit(run, tmp_path / "whole", path="fast", **options)
    with pytest.raises(RuntimeError, match="the power went"):
        uw.fit(run, tmp_path / "cut", path="fast", progress=StopAt(11), checkpoint_seconds=0.0, **options)
    assert record.read(tmp_path / "cut")["packs"][0]["path"] == "fast"
    assert same(uw.fit(run, tmp_path / "cut", **options), whole)
    assert record.read(tmp_path / "cut")["packs"][0]["path"] == "fast"
    assert (tmp_path / "cut" / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
    plain = uw.fit(run, path="plain", **options)
    assert losses(whole, "seed-1") == pytest.approx(losses(plain, "seed-1"), rel=1e-5)


class Notes(Reporter):
    """Remembers what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, what: str) -> None:
        self.told.append(what)

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        self.told.append("begin")


@pytest.mark.usefixtures("possible")
def test_that_it_takes_a_while_is_said() -> None:
    fast, plain = Notes(), Notes()
    uw.fit(tiny(steps=10), path="fast", batching="vmap", progress=fast)
    uw.fit(tiny(steps=10), path="plain", batching="vmap", progress=plain)
    assert plain.told == ["begin"] and fast.told[1:] == ["begin"]
    assert "compiling the training step" in fast.told[0]


def test_a_bar_says_so_until_the_first_step() -> None:
    from rich.progress import Progress
    from rich.text import Text

    bar = Bar(Progress(disable=True), Text())
    Several([bar]).note("compiling")
    assert bar.terms.plain == "compiling"
    bar.begin({"members": ["seed-0"]}, 0, 10)
    assert bar.terms.plain == ""


@pytest.mark.usefixtures("possible")
def test_what_cannot_be_compiled_trains_on_the_plain_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("out of registers\nand a long trace")

    monkeypatch.setattr(compiled, "_traced", broken)
    monkeypatch.setattr(paths, "choose", lambda *_: "fast")
    with pytest.warns(UserWarning, match=r"RuntimeError: out of registers\); training takes the plain one"):
        found = uw.fit(tiny(), tmp_path, batching="vmap")
    assert record.read(tmp_path)["packs"][0]["path"] == "plain"
    assert same(found, uw.fit(tiny(), batching="vmap", path="plain"))
    with pytest.raises(uw.UntwineError, match=r"failed while it was compiled \(RuntimeError: out of registers\)"):
        uw.fit(tiny(), path="fast")
