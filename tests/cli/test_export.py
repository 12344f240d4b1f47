"""`untwine export` as a user would call it; `tests/sharing` looks into what it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import untwine as uw
from untwine.cli import main
from untwine.sharing import hub, onnx_files

sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
from helpers import tiny

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("runs") / "jl1"
    uw.fit(tiny(seeds=[0, 1], steps=10), path)
    return str(path)


def test_onnx_says_how_close_it_is(run: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    asked: list[Any] = []

    def export(*given: Any) -> list[dict[str, Any]]:
        asked.append(given)
        return [{"member": "seed-0", "encoder": "e.onnx", "decoder": "d.onnx", "difference": 1.25e-7}]

    monkeypatch.setattr(onnx_files, "export_onnx", export)
    assert main(["export", run, "--onnx", "--members", "seed-0", "--out", "models"]) == 0
    assert asked == [(run, Path("models"), ("seed-0",))]
    assert capsys.readouterr().out == "e.onnx, d.onnx: the same as torch within 1e-07\n"
    assert main(["export", run, "--onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["onnx"][0]["difference"] == 1.25e-7


def test_a_folder_for_the_hub_loads(run: str, tmp_path: Path, capsys: Captured):
    assert main(["export", run, "--hub-folder", str(tmp_path / "hub")]) == 0
    assert "names no licence yet" in " ".join(capsys.readouterr().out.split())
    assert len(uw.from_hub(tmp_path / "hub")) == 2
    assert main(["export", run, "--hub-folder", str(tmp_path / "hub")]) == 1
    assert "is not an empty folder" in capsys.readouterr().err


def test_publishing_is_private_unless_said_otherwise(run: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    asked: list[Any] = []
    monkeypatch.setattr(hub, "push_to_hub", lambda *given, private: asked.append((*given, private)) or "https://there")
    assert main(["export", run, "--hub", "me/dots"]) == 0 and main(["export", run, "--hub", "me/dots", "--public"]) == 0
    assert asked == [(run, "me/dots", True), (run, "me/dots", False)]
    assert "Published at https://there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "export needs the folder of a run"),
        (["runs/none"], "say what to write: --onnx, --hub-folder DIR or --hub USER/NAME"),
        (["runs/none", "--onx"], "--onnx"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, capsys: Captured):
    assert main(["export", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_a_run(tmp_path: Path, capsys: Captured):
    assert main(["export", str(tmp_path), "--hub-folder", str(tmp_path / "hub")]) == 1
    assert "holds no run" in capsys.readouterr().err
