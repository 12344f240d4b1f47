"""Checkpoints are whole or not there, and a damaged one is passed over."""

from pathlib import Path

import pytest
import torch

from untwine import files
from untwine.train.folders import checkpoint


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"a": torch.full((3,), value), "b": torch.tensor([1, 2])}


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        checkpoint.save(tmp_path, step, tensors(step), {"pack": 0})
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"step-{step:09d}.{kind}" for step in (10, 15) for kind in ("json", "safetensors")
    ]
    found = checkpoint.newest(tmp_path, {"pack": 0})
    assert found is not None
    assert found.step == 15
    assert torch.equal(found.tensors["a"], tensors(15)["a"])
    assert found.tensors["b"].dtype == torch.int64


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "json"])
def test_a_damaged_newest_one_is_reported_and_the_older_used(tmp_path: Path, damage: str) -> None:
    for step in (5, 10):
        checkpoint.save(tmp_path, step, tensors(step), {"pack": 0})
    file = tmp_path / "step-000000010.safetensors"
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[-3] ^= 1
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[:-4])
    elif damage == "remove":
        file.unlink()
    else:
        file.with_suffix(".json").write_text('{"step": 10, "sha')
    with pytest.warns(UserWarning, match="step-000000010 is damaged"):
        found = checkpoint.newest(tmp_path, {"pack": 0})
    assert found is not None
    assert found.step == 5
    assert torch.equal(found.tensors["a"], tensors(5)["a"])


def test_where_all_are_damaged_training_begins_again_and_says_so(tmp_path: Path) -> None:
    for step in (5, 10):
        checkpoint.save(tmp_path, step, tensors(step), {"pack": 0})
        (tmp_path / f"step-{step:09d}.safetensors").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match=r"step-000000010 is damaged .*; training begins anew"),
        pytest.warns(UserWarning, match=r"step-000000005 is damaged .*; training begins anew"),
    ):
        assert checkpoint.newest(tmp_path, {"pack": 0}) is None


def test_another_packs_checkpoint_is_not_used(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 5, tensors(1.0), {"pack": 0})
    assert checkpoint.newest(tmp_path, {"pack": 1}) is None


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.json"
    files.write_json(file, {"a": 1})

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write_json(file, {"a": 2})
    assert file.read_text() == '{\n "a": 1\n}\n'
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_clear_removes_everything(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    checkpoint.save(folder, 5, tensors(1.0), {})
    checkpoint.clear(folder)
    assert not folder.exists()
    checkpoint.clear(folder)
