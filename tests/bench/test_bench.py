"""The benchmark of training: on a CPU by turns, on a GPU in blocks, which any device can do."""

import json
from pathlib import Path

import pytest
import torch

import untwine as uw
from untwine.bench import gpu as bench_gpu
from untwine.bench import training as bench
from untwine.bench.gpu import Case, Plan
from untwine.bench.loops import LOOPS, jacobian_by_differences, loop
from untwine.bench.rows import Rows
from untwine.errors import UntwineError
from untwine.train.steps.trainer import Trainer

CPU = torch.device("cpu")


# --- the plan ---------------------------------------------------------------------------------------


def test_the_tables_of_the_plan():
    cases = list(Plan().cases(bench.VARIANTS))
    assert len(set(cases)) == len(cases)
    variants = [case for case in cases if case.table == "variants"]
    assert {(c.path, c.precision) for c in variants} == {
        (p, k) for p in ("fast", "plain") for k in bench_gpu.PRECISIONS
    }
    assert {c.variant for c in variants if c.path == "fast"} == bench.VARIANTS.keys()
    assert {c.variant for c in variants if c.path == "plain"} == bench.VARIANTS.keys()
    assert {(c.pack, c.latents) for c in variants} == {(10, 10)}
    assert sorted({c.pack for c in cases if c.table == "packs"}) == [1, 2, 5, 10, 20, 50]
    assert sorted({c.latents for c in cases if c.table == "latents"}) == [5, 10, 25, 50, 100]
    assert bench.VARIANTS.keys() >= set(bench_gpu.COMPARED)
    few = Plan(("packs",), ("jl1_vae k=2",), (3,), paths=("plain",), precisions=("float32",))
    assert list(few.cases(bench.VARIANTS)) == [Case("packs", "jl1_vae k=2", 3, 10, "plain", "float32")]
    with pytest.raises(UntwineError, match="unknown table 'pack'; did you mean 'packs'"):
        list(Plan(("pack",)).cases(bench.VARIANTS))


# --- measuring --------------------------------------------------------------------------------------


def measured(plan: Plan, out: Path | None = None, **more):
    dataset = uw.datasets.three_dots(size=16, examples=64)
    variants = {name: bench.VARIANTS[name] for name in ("beta_vae", "jl1_vae k=1 quarter")}
    settings = {
        "steps": 2,
        "batch_size": 2,
        "dataset": dataset,
        "network": uw.networks.conv(channels=(4, 4), hidden=8),
    } | more
    return bench_gpu.measure(plan, variants, CPU, {"hardware": "this"}, str(out) if out else None, **settings)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WARM": 1, "LONG": 3, "STATES": 50, "BLOCK_SECONDS": 0.01, "PACK": 2, "REPEATS": 2}.items():
        monkeypatch.setattr(bench_gpu, name, value)


PLAIN = {"paths": ("plain",), "precisions": ("float32",)}


def test_rows_of_every_table(quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compiled = []
    monkeypatch.setattr(Trainer, "compile", lambda self: compiled.append(self))
    out = tmp_path / "speed.json"
    rows = measured(Plan(("variants",), precisions=("float32",)), out)
    assert [(row["variant"], row["path"]) for row in rows] == [
        ("beta_vae", "fast"),
        ("jl1_vae k=1 quarter", "fast"),
        ("beta_vae", "plain"),
        ("jl1_vae k=1 quarter", "plain"),
    ]
    assert len(compiled) == 2 and len(compiled[0].pack.members) == 2
    for row in rows:
        assert row["ms_per_seed_and_step"] > 0 == row["diverged"] and "error" not in row
        base = next(r for r in rows if r["variant"] == "beta_vae" and r["path"] == row["path"])
        assert row["ratio_to_beta_vae"] == row["ms_per_seed_and_step"] / base["ms_per_seed_and_step"]
    (row,) = measured(Plan(("figure4",), ("beta_vae",), **PLAIN), out)
    each = row["ms_per_seed_and_step"] * 2 / 1e3
    assert row["steps"] == 3
    assert row["minutes_for_300000_steps"] == pytest.approx(300_000 * each / 60)
    (row, other) = measured(Plan(("encoding",), packs=(2,), paths=("plain",)), out)
    assert row["seconds"] > 0 == row["deviation"] and row["states"] == 50 and row["pack"] == 2
    assert [row["batching"], other["batching"]] == ["vmap", "loop"] and other["deviation"] < 1e-5
    written = json.loads(out.read_text())
    assert len(written["rows"]) == 7 and written["hardware"] == "this"


def test_rows_are_added_to_a_file_and_found_there(quick, tmp_path: Path):
    out = tmp_path / "speed.json"
    first = measured(Plan(("packs",), ("beta_vae",), (1, 2), **PLAIN), out)
    again = measured(Plan(("packs",), ("beta_vae",), (2, 3), **PLAIN), out, missing=True)
    assert [row["pack"] for row in again] == [3]
    rows = json.loads(out.read_text())["rows"]
    assert [row["pack"] for row in rows] == [1, 2, 3] and rows[:2] == first
    assert measured(Plan(("packs",), ("beta_vae",), (4,), **PLAIN), out, limit_minutes=-1.0) == []
    replaced = measured(Plan(("packs",), ("beta_vae",), (1,), **PLAIN), out)
    rows = json.loads(out.read_text())["rows"]
    assert [row["pack"] for row in rows] == [1, 2, 3] and rows[0] == replaced[0] != first[0]


def test_what_fails_says_so_and_the_others_go_on(quick):
    rows = measured(Plan(("latents",), ("jl1_vae k=1 quarter",), latents=(1, 2), **PLAIN), batch_size=0)
    assert [row["latents"] for row in rows] == [1, 2] and all("UntwineError" in row["error"] for row in rows)


def test_rows_of_other_hardware_are_refused(tmp_path: Path):
    out = tmp_path / "speed.json"
    Rows(out, ("a",), {"hardware": "one"}).put({"a": 1})
    with pytest.raises(UntwineError, match="has numbers from one, and these are from two"):
        Rows(out, ("a",), {"hardware": "two"})
    out.write_text("[]")
    with pytest.raises(UntwineError, match="holds no rows"):
        Rows(out, ("a",), {})


def test_by_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    small = uw.datasets.three_dots(size=16, examples=64)
    monkeypatch.setattr(bench, "three_dots", lambda examples: small)
    out = tmp_path / "speed.json"
    settings = {"pack_sizes": (1, 2), "steps": 1, "batch_size": 4, "latents": (3,), "device": "cpu"}
    rows = bench.run(variants=("beta_vae", "jl1_vae k=1"), out=str(out), **settings)
    assert [(row["variant"], row["pack"]) for row in rows] == [
        (name, size) for size in (1, 2) for name in ("beta_vae", "jl1_vae k=1")
    ]
    assert rows[0]["ratio_to_beta_vae"] == 1.0 and rows[1]["ratio_to_beta_vae"] > 0
    assert json.loads(out.read_text())["rows"] == rows
    peers = bench.run(variants=("beta_vae", *LOOPS), **settings)
    assert [row["variant"] for row in peers] == ["beta_vae", *LOOPS] * 2
    assert all(row["ms_per_seed_and_step"] > 0 and row["ratio_to_beta_vae"] > 0 for row in peers)
    with pytest.raises(UntwineError, match="unknown variant 'jl1'"):
        bench.run(variants=("jl1",), device="cpu")
    with pytest.raises(UntwineError, match="are for a GPU: --device cuda"):
        bench.run(latents=(3, 4), device="cpu")


# --- loops in plain torch ---------------------------------------------------------------------------


def test_the_norm_by_differences_is_ours_and_holds_z_fixed():
    torch.manual_seed(0)
    decode = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 5)).double()
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    norm = jacobian_by_differences(decode, z)
    exact = torch.func.vmap(torch.func.jacfwd(decode))(z).abs().sum() / 4
    assert norm.item() == pytest.approx(exact.item(), rel=1e-3)
    assert torch.autograd.grad(norm, z, allow_unused=True) == (None,)


def test_a_plain_loop_trains(monkeypatch: pytest.MonkeyPatch):
    """The same model as a run's, of torch's own layers, whose loss falls."""
    losses, backward = [], torch.Tensor.backward
    monkeypatch.setattr(torch.Tensor, "backward", lambda loss: losses.append(loss.item()) or backward(loss))
    torch.manual_seed(0)
    steps = loop(uw.datasets.three_dots(size=16, examples=64), jacobian_by_differences, 8, 3)
    for _ in range(40):
        next(steps)
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5])
