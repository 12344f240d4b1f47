"""Where a run lies, as users write it; and which of its members is asked for."""

from pathlib import Path

import pytest

import untwine as uw
from untwine.cli import main
from untwine.errors import UntwineError


def test_home_run_json_and_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    words = ["--dataset", "synthetic-linear", "--network", "rolinek-linear", "--steps", "1", "--out", "~/run"]
    assert main(["train", "vae", *words]) == 0
    assert (tmp_path / "run" / "run.json").is_file() and not (tmp_path / "~").exists()
    assert main(["train", "--resume", "run/run.json"]) == 0
    assert "is finished" in capsys.readouterr().out
    assert main(["train", "--resume", "run", "--resume=other"]) == 2
    assert "more than once" in capsys.readouterr().err
    ensemble = uw.load("run")
    assert ensemble.member(-1) is not None
    for wrong in (5, -2):
        with pytest.raises(UntwineError, match="from 0 to 0, or a name, not"):
            ensemble.member(wrong)
    for name, weights in ensemble.member("seed-0").state_dict().items():
        assert weights.equal(ensemble.member(0).state_dict()[name])
    with pytest.raises(UntwineError, match=r"seed-1.*seed-0"):
        ensemble.member("seed-1")
