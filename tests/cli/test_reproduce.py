"""`untwine reproduce` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from untwine.cli import main
from untwine.errors import Unavailable

ROOT = Path(__file__).parents[2]
OWN = """
import untwine as uw
from untwine.experiments.engine.contract import Plan, case, experiment

@uw.method
def my_vae(weight: float = 1.0) -> uw.Objective:
    return uw.methods.vae().with_penalties(size=weight * uw.penalties.kl)

@experiment("mine/fig1", claim="a", smoke={})
def fig1() -> Plan:
    data = {"name": "synthetic_linear", "samples": 100}
    network = {"name": "mlp", "hidden": [8]}
    return Plan([case(uw.Run(method={"name": "my_vae"}, dataset=data, network=network, latents=2, steps=3))])
"""


def test_a_figure_its_page_and_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = str(tmp_path)
    assert main(["reproduce", "michlo2023/fig8", "--scale", "smoke", "--out", out]) == 0
    assert str(tmp_path / "michlo2023" / "fig8" / "smoke" / "result.md") in capsys.readouterr().out
    assert main(["reproduce", "--check", out]) == 0
    assert "every verdict follows" in capsys.readouterr().out
    assert main(["reproduce", "--page", out]) == 0
    assert "[fig8](michlo2023/fig8/smoke/result.md)" in (tmp_path / "README.md").read_text()


def test_the_list_has_every_figure_and_what_it_costs(tmp_path: Path):
    # In a process of its own, since thousands of members take half a minute where every argument's shape is checked.
    words = [sys.executable, "-m", "untwine", "reproduce", "--json", "--out", str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    listed = {entry["name"]: entry for entry in json.loads(said)["experiments"]}
    assert {"rhodes2021/fig4", "mathieu2019/fig3", "rolinek2019/table1", "michlo2023/fig9"} <= set(listed)
    assert listed["rhodes2021/fig4"]["costs"]["paper"]["members"] == 20
    assert listed["rhodes2021/fig4"]["costs"]["paper"]["steps"] == 20 * 300_000


def test_a_dry_run_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["reproduce", "mathieu2019/fig3", "--scale", "smoke", "--dry-run", "--json", "--out", str(tmp_path)]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert rows and all(row["seconds"] > 0 for row in rows)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["rhodes2021/fig44"], 2, "did you mean 'rhodes2021/fig4'?"),
        (["michlo2023/fig8", "--scale", "smalll"], 2, "--scale: unknown choice 'smalll'; did you mean 'small'?"),
        (["michlo2023/fig8", "--seeds", "0-1"], 2, "seeds"),
        (["michlo2023/fig8", "--set", "epss=3"], 2, "epss"),
    ],
)
def test_what_cannot_be_is_refused(
    words: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["reproduce", *words, "--out", str(tmp_path / "new")]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_what_was_left_out_ends_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def gone(*args: object, **kwargs: object) -> None:
        raise Unavailable("the data are not there")

    monkeypatch.setattr("untwine.launch.members.fit", gone)
    assert main(["reproduce", "mathieu2019/fig3", "--scale", "smoke", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "- the data are not there" in said and "result.md" in said


@pytest.mark.slow
def test_parts_of_ones_own_are_known_to_workers(tmp_path: Path):
    (tmp_path / "mine.py").write_text(OWN)
    words = ["reproduce", "mine/fig1", "--import", str(tmp_path / "mine.py"), "--scale", "smoke"]
    # In a process of its own, which forgets the experiment.
    words = [sys.executable, "-m", "untwine", *words, "--engine", "processes", "--out", str(tmp_path / "out")]
    assert subprocess.run(words, capture_output=True, text=True).returncode == 0


def test_the_stored_results_say_what_their_numbers_say(capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", "--check", str(ROOT / "results")]) == 0


def test_the_pages_of_the_stored_results_are_up_to_date():
    from untwine.experiments.engine import pages
    from untwine.experiments.engine.result import Result, page_of

    file = ROOT / "results" / "README.md"
    below = file.read_text().partition(pages.MARKER)[2]
    assert file.read_text() == pages.page(ROOT / "results", pages.MARKER + below)
    for result in pages.stored(ROOT / "results"):
        assert result.with_name("result.md").read_text() == page_of(Result.read(result))


def test_settings_given_one_by_one_all_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["reproduce", "mathieu2019/fig3", "--scale", "smoke", "--set", "seeds=0-2", "--dry-run", "--set=steps=7"]
    assert main([*words, "--json", "--out", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert {(row["members"], row["steps"]) for row in rows} == {(12, 7)}


def test_seeds_are_for_the_figures_that_have_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["reproduce", "mathieu2019/fig3", "michlo2023/fig8", "--seeds", "0-2", "--scale", "smoke", "--dry-run"]
    assert main([*words, "--json", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)["runs"]
    assert {row["figure"] for row in rows} == {"mathieu2019/fig3"} and {row["members"] for row in rows} == {12}
    assert said.err == "untwine: --seeds is for the other figures: michlo2023/fig8 has none\n"
