"""The benchmark of sweeps, in a small form."""

import json
from pathlib import Path

import pytest

from untwine.errors import UntwineError
from untwine.launch import overhead


def test_its_rows_add_up(tmp_path: Path):
    engine, many = overhead.run(calls=3, units=2, members=20, engines=("inline",), out=str(tmp_path / "sweeps.json"))
    assert engine["engine"] == "inline"
    assert all(engine[f"{name}_ms"] > 0 for name in ("call", "fit", "unit", "scored_unit"))
    assert (many["members"], many["packs"]) == (20, 1)
    assert all(many[f"{name}_s"] > 0 for name in ("plan", "sweep", "again", "status"))
    assert many["files"] > 20 and many["bytes"] > many["bytes_without_weights"] > 0
    assert json.loads((tmp_path / "sweeps.json").read_text())["rows"] == [engine, many]


def test_too_little_is_refused():
    with pytest.raises(UntwineError, match="a multiple of 10 members"):
        overhead.run(members=5)
    with pytest.raises(UntwineError, match="2 calls and units or more"):
        overhead.run(units=1)
