"""Runs for the hub, in local folders: what is published, what its card says, and that it can be loaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine.sharing import cards

WEIGHTS = "beta=0.01,seed-3.safetensors"
NAME = 'someone/dots: "two" #1'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    data = uw.datasets.synthetic_linear(samples=300)
    settings: dict[str, Any] = {"network": uw.networks.mlp(hidden=(8,)), "latents": 2, "steps": 60, "lr": 0.03}
    method = uw.methods.beta_vae(beta=[0.01, 0.02], likelihood="squared_error")
    run = uw.Run(method=method, dataset=data, seeds=[3, 4], **settings)
    uw.evaluate(uw.fit(run, path), ["hoyer"], examples=50)
    return path


def header(card: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(card.split("---\n")[1])


def test_a_saved_folder_loads_with_the_same_weights(folder: Path, tmp_path: Path):
    target = uw.save_for_hub(folder, tmp_path / "hub", NAME)
    files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    weights = {f"members/{WEIGHTS}", "members/beta=0.02,seed-4.safetensors"}
    assert files == {"README.md", "run.json", "log.jsonl", "scores.json", *weights}
    x = np.random.default_rng(0).random((5, 3), np.float32)
    ensemble = uw.from_hub(target)
    assert ensemble.encode(x).equal(uw.load(folder).encode(x))
    assert [member.seed for member in ensemble.members] == [3, 4] and ensemble.history
    with pytest.raises(uw.UntwineError, match="not an empty folder"):
        uw.save_for_hub(ensemble, target)


def test_the_card_says_what_was_trained(folder: Path, tmp_path: Path):
    card = (uw.save_for_hub(folder, tmp_path / "hub", NAME) / "README.md").read_text()
    assert header(card)["library_name"] == "untwine" and "license" not in header(card)
    assert 'someone/dots: "two" \\#1' in card and f"uw.from_hub({json.dumps(NAME)})" in card
    for text in ("beta\\_vae", "synthetic-linear(samples=300)", "300 examples of 3", "0.01, 0.02 (one for each model)"):
        assert text in card, text
    stored = json.loads((folder / "scores.json").read_text())["scores"][0]["members"]
    rows = [
        f"| `hoyer(examples=50), beta={beta}` | 1 | {m['value']:.3g} |"
        for beta, m in zip((0.01, 0.02), stored.values(), strict=True)
    ]
    for text in (*rows, "| `[3, 4]` |", "## Licence", "beta KL(q(z"):
        assert text in card, text


def test_texts_in_the_header_cannot_leave_it():
    yaml = pytest.importorskip("yaml")
    values = {"a": '"\n---\nb: 1', "list": ["- x: y", "#", "é\\", "{}"]}
    assert yaml.safe_load(cards.yaml(values)) == values
    assert cards.yaml(values).count("\n") == 2


def test_publishing_sends_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    sent: dict[str, Any] = {}

    class Api:
        def __init__(self, token: str | None) -> None:
            sent["token"] = token

        def create_repo(self, name: str, private: bool, exist_ok: bool) -> None:
            sent.update(name=name, private=private, exist_ok=exist_ok)

        def upload_folder(self, repo_id: str, folder_path: str, **options: Any) -> None:
            files = {path.name: path.read_bytes() for path in Path(folder_path).rglob("*") if path.is_file()}
            sent.update(files=files, options=options)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Api))
    address = uw.push_to_hub(uw.load(folder), "someone/dots", token="secret", commit_message="first")
    assert address == "https://huggingface.co/someone/dots"
    assert (sent["token"], sent["name"], sent["private"]) == ("secret", "someone/dots", True)
    assert sent["options"] == {"commit_message": "first"}
    assert sent["files"][WEIGHTS] == (folder / "members" / WEIGHTS).read_bytes()
    assert b"secret" not in b"".join(sent["files"].values())


def test_loading_asks_the_hub_for_what_is_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []

    def snapshot_download(name: str, revision: str | None, allow_patterns: list[str], **options: Any) -> str:
        asked.append((name, revision, allow_patterns, options))
        if name == "someone/else":
            raise OSError("no such\nrepository")
        return str(folder)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    assert len(uw.from_hub("someone/dots", revision="v1", cache_dir="here")) == 2
    patterns = ["run.json", "log.jsonl", "scores.json", "members/*.safetensors"]
    assert asked == [("someone/dots", "v1", patterns, {"cache_dir": "here"})]
    with pytest.raises(uw.UntwineError, match=r"someone/else is no folder here.*OSError: no such$"):
        uw.from_hub("someone/else")


def test_what_is_missing_is_said(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ensemble = uw.load(folder)
    ensemble.record = None
    with pytest.raises(uw.UntwineError, match="live in memory alone"):
        uw.save_for_hub(ensemble, tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(uw.UntwineError, match=r"pip install 'untwine\[hub\]'"):
        uw.push_to_hub(folder, "someone/dots")


def test_a_path_of_this_machine_is_pointed_out(tmp_path: Path):
    np.save(tmp_path / "mine.npy", np.zeros((4, 16, 16), np.uint8))
    run = uw.Run("ae", uw.datasets.images(tmp_path / "mine.npy"), uw.networks.mlp(hidden=(2,)), latents=1, steps=1)
    uw.fit(run, tmp_path / "run")
    with pytest.warns(UserWarning, match="names a path of this machine, which others will see: .*mine"):
        folder = uw.save_for_hub(tmp_path / "run", tmp_path / "hub")
    card = (folder / "README.md").read_text()
    assert str(tmp_path) not in card and "images(source=mine.npy)" in card and "None were stored" in card


@pytest.mark.parametrize("file", ["../elsewhere.safetensors", "/etc/hostname", "members/../../elsewhere.safetensors"])
def test_a_folder_from_the_hub_cannot_point_elsewhere(file: str, folder: Path, tmp_path: Path):
    target = uw.save_for_hub(folder, tmp_path / "hub")
    content = json.loads((target / "run.json").read_text())
    content["members"][0]["file"] = file
    (target / "run.json").write_text(json.dumps(content))
    for use in (uw.from_hub, lambda path: uw.save_for_hub(path, tmp_path / "other")):
        with pytest.raises(uw.UntwineError, match="lies outside of the run's folder"):
            use(target)
