"""README says what the code says, and its Python runs as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_tables_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "tables.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def test_the_readme_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = blocks("README.md")
    shorter = first.replace("steps=1_000", "steps=4").replace("anneal=500", "anneal=2").replace("20_000", "200")
    assert shorter != first
    names: dict = {}
    exec(shorter, names)
    assert names["codes"].shape == (2, 100, 6)
    assert names["columns"].shape == (2, 100, 6, 1, 32, 32)
    exec(second, names)
    run = names["run"].replace(method=names["my_vae"](gamma=[0.1, 0.2]), steps=2)
    assert len(names["uw"].fit(run)) == 2


def test_the_page_on_explaining_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("docs/explaining.md"))
    smaller = {
        "steps=2_000": "steps=4",
        "20_000": "200",
        "5_000": "500",
        "range(1_000)": "range(150)",
        "300 * 64": "30 * 64",
    }
    smaller |= {"points=2_000": "points=100", "pairs=2_000": "pairs=200", "traversals=10": "traversals=2"}
    shorter = text
    for old, new in smaller.items():
        assert old in shorter
        shorter = shorter.replace(old, new)
    names: dict = {}
    exec(shorter, names)
    assert names["score"].values.shape == (2,) and len(names["matrices"]) == 6
    pictures = {path.name for path in tmp_path.glob("*.png")}
    names = ("columns", "cumulative", "density", "distances", "magnitudes", "plane", "scores", "sparse", "traversals")
    assert pictures == {f"{name}.png" for name in names}
