"""The pages say what the code says, and their Python runs as written."""

import re
import shlex
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
    shorter = shorter.replace('"local_mig"]', '"local_mig"], points=500, windows=2')
    assert shorter.count("500") == 1
    names: dict = {}
    exec(shorter, names)
    assert names["columns"].shape == (2, 100, 6, 1, 32, 32)
    assert names["scores"]["mig"].values.shape == (2,)
    exec(second, names)
    run = names["run"].replace(method=names["my_vae"](gamma=[0.1, 0.2]), steps=2)
    assert len(names["uw"].fit(run)) == 2


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(links) >= 10 and [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("folder", ["docs", "results"])
def test_links_of_pages_lead_somewhere(folder: str) -> None:
    pages = sorted((ROOT / folder).glob("*.md"))
    links = [page.parent / link for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert len(links) >= 5 and [link for link in links if not link.exists()] == []


def test_every_key_of_the_literature_is_in_the_bibliography() -> None:
    listed = (ROOT / "docs" / "bibliography.md").read_text()
    cited = set()
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), *(ROOT / "results").glob("*.md")):
        text = " ".join(path.read_text().split())
        cited |= set(re.findall(r"\b[a-z]+(?:19|20)\d\d\b", text)) - {"nips2015"}  # a file's name
        cited |= set(re.findall(r"\b[A-Z][a-z]+ (?:et al\.|& [A-Z][a-z]+) (?:19|20)\d\d", text))
    full = {"Rhodes & Lee 2021", "Mathieu et al. 2019", "Rolinek et al. 2019", "Michlo et al. 2023"}
    assert len(cited) > 25
    assert sorted(name for name in cited - full if name not in listed) == []


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


def test_the_page_on_extending_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "\n".join(blocks("docs/extending.md"))
    shorter = page.replace("steps=1_000", "steps=3").replace("anneal=500", "anneal=2").replace("20_000", "200")
    names: dict = {"__name__": "docs_extending"}
    exec(shorter, names)
    uw, run = names["uw"], names["run"]
    assert names["codes"].shape == (1, 8, 10)
    assert set(names["scores"]) == {"reach(points=200)", "local-reach(rho=0.1, windows=5, points=200)"}
    assert "reach" in names["scores"] and "local_reach" in names["scores"]
    steep = uw.methods.vae().with_penalties(steep=uw.Penalty(names["Steepness"]()))
    assert uw.fit(run.replace(method=steep, steps=2)).history[-1]["members"]["seed-0"]["steep"] > 0


def test_the_page_on_datasets_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("docs/datasets.md")
    exec(block, {})
    assert capsys.readouterr().out.startswith("(3, 32, 64) ('x_R1'")


def test_the_page_on_your_own_data_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from untwine.cli import main

    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "your-data.md").read_text()
    smaller = {"--steps 200": "--steps 4", "perceive images": "perceive images --pairs 200 --traversals 3"}
    for old, new in smaller.items():
        assert old in text
        text = text.replace(old, new)
    names: dict = {}
    commands = []
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            exec(block, names)
            continue
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "untwine" and main(arguments) == 0, line
            commands.append(arguments[0])
    assert commands == ["data", "perceive", "train", "evaluate", "evaluate"]
    (shown,), (perceived,) = (tmp_path / "shown").iterdir(), (tmp_path / "perceived").iterdir()
    assert shown.name.startswith("images-source-discs") and (perceived / "matrices.png").exists()
    data, score, local = names["data"], names["score"], names["local"]
    assert data.factors.to_json() == {
        "names": ["x", "y", "colour"],
        "sizes": [10, 10, 2],
        "kinds": ["ordered", "ordered", "categorical"],
        "values": [[x / 2 for x in range(10)], list(range(10)), ["blue", "red"]],
    }
    assert score.values == pytest.approx(names["by_hand"].values) and score.settings["samples"] == 150
    assert local.values.shape == (2,) and local.settings["windows"] == 20
    assert "150 of the 200 states of images have an example" in capsys.readouterr().out
