"""The engine: members are shared and trained once, interruptions lose nothing, and verdicts follow from rows."""

import json
from dataclasses import replace
from functools import wraps
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import untwine as uw
from untwine.errors import Interrupted, Unavailable, UntwineError
from untwine.experiments.engine import contract, costs, findings, pages, running
from untwine.experiments.engine.claims import Beyond, Exactly, Near, Related, Trend
from untwine.experiments.engine.comparisons import Alike, Higher
from untwine.experiments.engine.contract import Experiment, Fact, Plan
from untwine.experiments.engine.findings import Finding, judge, overall
from untwine.experiments.engine.result import Result, verdict
from untwine.experiments.engine.rows import Rows
from untwine.experiments.engine.store import Store
from untwine.launch.mapping import Engine
from untwine.locks import locked
from untwine.train import loop
from untwine.train.joining import joined


def test_a_result_has_every_number_and_verdicts_that_follow_from_them(toy: Experiment, tmp_path: Path):
    result = running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    assert result.problems == ()
    assert result.about["members"] == 6
    assert len(result.rows.where(measure="kl", beta=0.001)) == 3
    assert result.rows.where(measure="square").values == [0.0, 1.0, 4.0]
    ours = [np.mean(result.rows.where(measure="kl", beta=beta).values) for beta in (0.001, 50.0)]
    test = stats.ttest_ind(*(result.rows.where(measure="kl", beta=b).values for b in (0.001, 50.0)), equal_var=False)
    finding = result.findings[0]
    assert finding.p == pytest.approx(test.pvalue)
    assert finding.agrees == (ours[0] > ours[1])
    assert result.findings[1].verdict == "reproduced"
    folder = tmp_path / "toy" / "fig1" / "paper"
    assert {"fig1.png", "fig1.svg", "result.json", "result.md"} <= {file.name for file in folder.iterdir()}
    assert Result.read(folder / "result.json").to_json() == json.loads((folder / "result.json").read_text())
    assert "It is a toy." in (folder / "result.md").read_text()
    assert pages.check(tmp_path) == []


def test_nothing_is_trained_or_measured_twice(toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    assert len(list((tmp_path / "runs").iterdir())) == 1  # two betas differ in a number alone: one pack

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("nothing is missing")

    monkeypatch.setattr("untwine.launch.members.fit", refuse)
    monkeypatch.setattr("untwine.experiments.engine.measures.evaluate", refuse)
    assert list(running.reproduce("toy/fig1", "paper", "cpu", tmp_path).rows) == list(first.rows)
    assert costs.estimate("toy/fig1", "paper", "cpu", tmp_path) == []


def test_a_further_seed_trains_alone_and_counts_with_the_others(toy: Experiment, tmp_path: Path):
    running.reproduce("toy/fig1", "paper", "cpu", tmp_path, seeds="0-1")
    result = running.reproduce("toy/fig1", "paper", "cpu", tmp_path, seeds="0-2")
    folders = [json.loads(file.read_text())["members"] for file in (tmp_path / "runs").glob("*/run.json")]
    assert sorted(len(members) for members in folders) == [2, 4]
    assert [row["seed"] for row in result.rows.where(measure="kl", beta=50.0)] == [0, 1, 2]
    alone = running.reproduce("toy/fig1", "paper", "cpu", tmp_path / "other")
    for measure in ("kl", "mig"):
        assert result.rows.where(measure=measure).values == pytest.approx(
            alone.rows.where(measure=measure).values, rel=1e-3
        )


def test_interrupted_the_same_command_goes_on(toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = loop.Trainer.steps

    def broken(self: loop.Trainer):
        for i, entry in enumerate(real(self)):
            yield entry
            if i == 5:
                loop.signal.raise_signal(loop.signal.SIGINT)

    monkeypatch.setattr(loop.Trainer, "steps", broken)
    with pytest.raises(Interrupted, match="the same command goes on"):
        running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    monkeypatch.setattr(loop.Trainer, "steps", real)
    (row,) = costs.estimate("toy/fig1", "paper", "cpu", tmp_path)
    assert (row["members"], row["packs"]) == (6, 1) and row["seconds"] > 0
    went_on = running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    whole = running.reproduce("toy/fig1", "paper", "cpu", tmp_path / "whole")
    assert went_on.rows.where(measure="kl").values == whole.rows.where(measure="kl").values
    assert len(went_on.rows.where(measure="kl").values) == 6


@pytest.mark.parametrize("part", ["measured", "judge", "_draw"])
def test_an_interruption_says_that_nothing_is_lost(
    part: str, toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*((Store, part) if part == "measured" else (running, part)), stop)
    with pytest.raises(Interrupted, match="the same command goes on"):
        running.reproduce("toy/fig1", "smoke", "cpu", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_every_engine_trains_the_same(engine: Engine, toy: Experiment, tmp_path: Path, request: pytest.FixtureRequest):
    if engine == "ray":
        request.getfixturevalue("ray")
    here = running.reproduce("toy/fig1", "smoke", "cpu", tmp_path / "here")
    result = running.reproduce("toy/fig1", "smoke", "cpu", tmp_path / "there", engine=engine, workers=1, gpus=0)
    assert result.problems == ()
    assert list(result.rows) == list(here.rows)
    assert result.findings == here.findings


def test_a_smaller_scale_gives_no_verdict(toy: Experiment, tmp_path: Path):
    result = running.reproduce("toy/fig1", "smoke", "cpu", tmp_path)
    assert result.verdict == "not testable here"
    assert {finding.verdict for finding in result.findings} == {"not testable here"}


def test_data_that_are_not_there_leave_their_part_out(toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def gone(*args: object, **kwargs: object) -> None:
        raise Unavailable("the file is not there\nand more")

    monkeypatch.setattr("untwine.launch.members.fit", gone)
    result = running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    assert "the file is not there" in result.problems
    assert any(text.startswith("fig1 is not drawn") for text in result.problems)
    assert [finding.verdict for finding in result.findings] == ["not testable here", "reproduced"]


def test_a_changed_verdict_or_number_is_noticed(toy: Experiment, tmp_path: Path):
    running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    file = tmp_path / "toy" / "fig1" / "paper" / "result.json"
    content = json.loads(file.read_text())
    for row in content["rows"]:
        if row.get("number") == 2:
            row["value"] = 5.0
    file.write_text(json.dumps(content))
    assert any("two squared is four" in text for text in pages.check(tmp_path))


def _damaged(content: dict[str, object], **changes: object) -> str:
    return json.dumps({**content, **changes})


def test_a_changed_statistic_and_damaged_files_are_noticed(toy: Experiment, tmp_path: Path):
    result = running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    file = tmp_path / "toy" / "fig1" / "paper" / "result.json"
    content = result.to_json() | {"findings": [vars(finding) for finding in result.findings]}
    content = json.loads(json.dumps(content, default=list))
    first = {**content["findings"][0], "p": 1e-9}
    rows = [{**row, "value": "high"} for row in content["rows"]]
    for text, wrong in [
        (_damaged(content, findings=[first, *content["findings"][1:]]), "p of 'a small beta"),
        (_damaged(content, verdict="great"), "verdict of a result must be 'reproduced'"),
        (_damaged(content, rows=rows), "must be a number or None, not 'high'"),
        (_damaged(content, rows=[{**row, "value": 10**400} for row in rows]), "must be finite"),
        (_damaged(content, settings=None), "settings of a result must be a mapping"),
        (_damaged(content, settings={"betas": []}), "betas of experiment 'toy/fig1' must have a value or more"),
        (_damaged(content, name=["toy"]), "name of a result must be a text"),
        ("{}", "its format is None"),
        ("[" * 100_000, "not a result that this version can read"),
    ]:
        file.write_text(text)
        (said,) = [said for said in pages.check(tmp_path) if str(file) in said][:1]
        assert wrong in said
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "result.json").write_text(json.dumps(content))
    assert len(pages.check(tmp_path)) == 1  # the other one is checked all the same
    with pytest.raises(UntwineError, match="not a result"):
        pages.page(tmp_path)


def test_the_page_has_a_row_for_each_figure_also_of_papers_of_ones_own(toy: Experiment, tmp_path: Path):
    running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    page = pages.write_page(tmp_path)
    assert "[fig1](toy/fig1/paper/result.md)" in page.read_text()
    page.write_text(page.read_text() + "A sentence by hand.\n")
    assert "A sentence by hand." in pages.write_page(tmp_path).read_text()


def test_a_result_says_which_settings_are_not_those_of_the_paper(toy: Experiment, tmp_path: Path):
    assert running.other_settings(toy, toy.settings("paper")) == []
    changed = toy.settings("paper", steps=7)
    (said,) = running.other_settings(toy, changed)
    assert said == "Settings other than those of the scale paper: steps 7 instead of 12."
    result = running.reproduce("toy/fig1", "paper", "cpu", tmp_path, settings={"steps": 7})
    assert said in result.caveats


def test_the_page_names_what_was_not_run(toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    running.reproduce("toy/fig1", "paper", "cpu", tmp_path)
    other = replace(toy, name="toy/fig2", claim="Three is four.")
    elsewhere = replace(toy, name="else/fig1")
    known = {experiment.name: experiment for experiment in (toy, other, elsewhere)}
    monkeypatch.setattr(pages.catalogue, "experiments", lambda: known)
    last = [line for line in pages.page(tmp_path).splitlines() if line.startswith("| ")][-1]
    assert last == "| fig2 | Three is four. |  |  |  | not run yet |  |"  # of papers with results alone


# --- what cannot be, and what fails ---------------------------------------------------------------------


def test_settings_of_which_there_is_no_plan_are_refused(toy: Experiment):
    with pytest.raises(UntwineError, match="betas of experiment 'toy/fig1' must have a value or more"):
        toy.settings("paper", betas=[])
    with pytest.raises(UntwineError, match="seeds is given more than once"):
        costs.changed("0-1", {"seeds": "0-2"})
    same = replace(toy, function=lambda: Plan(cases=[*toy.plan(toy.settings("paper")).cases] * 2))
    with pytest.raises(UntwineError, match="toy/fig1 has two cases of"):
        same.plan({})
    broken = replace(toy, function=lambda: [][0])
    with pytest.raises(UntwineError, match=r"no plan for these settings \(test_engine.py, line \d+\): IndexError"):
        broken.plan({})


@pytest.mark.parametrize("part", ["facts", "measures", "claims", "figures"])
def test_a_part_of_ones_own_that_fails_is_named(part: str, toy: Experiment, tmp_path: Path):
    class Broken:
        text, key = "a", {"own": 1}

        def find(self, *given: object) -> Finding:
            raise RuntimeError("it is\nbroken")

        __call__ = find

    broken = Broken()
    parts = {"facts": [Fact("f", broken)], "figures": {"f": broken}}

    def plan(**settings: object) -> Plan:
        return replace(toy.plan(settings), **{part: parts.get(part, [broken])})

    contract._EXPERIMENTS[toy.name] = replace(toy, function=wraps(toy.function)(plan))
    with pytest.raises(UntwineError, match=r"of toy/fig1 failed \(test_engine.py, line \d+\): RuntimeError: it is$"):
        running.reproduce("toy/fig1", "smoke", "cpu", tmp_path)


def test_places_that_cannot_be_written_are_refused_before_training(toy: Experiment, tmp_path: Path):
    (tmp_path / "measured").write_text("")
    with pytest.raises(UntwineError, match="measured is a file, not a folder"):
        running.reproduce("toy/fig1", "smoke", "cpu", tmp_path)
    (tmp_path / "measured").unlink()
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UntwineError, match="holds a run of its own"):
        running.reproduce("toy/fig1", "smoke", "cpu", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_the_same_command_twice_at_a_time_is_refused(toy: Experiment, tmp_path: Path):
    with locked(tmp_path / "toy" / "fig1" / "smoke"), pytest.raises(UntwineError, match="smoke is in use by process"):
        running.reproduce("toy/fig1", "smoke", "cpu", tmp_path)
    assert running.reproduce("toy/fig1", "smoke", "cpu", tmp_path).problems == ()


def test_texts_of_an_experiment_are_lines_of_markdown(toy: Experiment, tmp_path: Path):
    result = replace(running.reproduce("toy/fig1", "smoke", "cpu", tmp_path), claim="<b>a\nb |\x1b[31m", figures=())
    result.write(tmp_path / "toy" / "fig1" / "smoke")
    assert "&lt;b>a b |\\x1b[31m\n" in (tmp_path / "toy" / "fig1" / "smoke" / "result.md").read_text()
    assert "| &lt;b>a b \\|\\x1b[31m |" in pages.page(tmp_path)


# --- members as runs ------------------------------------------------------------------------------------


def test_members_that_differ_in_numbers_alone_are_one_run():
    def run(**changes: object) -> uw.Run:
        settings = {"dataset": "synthetic_linear", "network": "mlp", "steps": 9, **changes}
        return uw.Run(**{"method": {"name": "beta_vae", "beta": 1.0}, **settings})  # type: ignore[arg-type]

    runs = [
        run(seeds=[0, 1]),
        run(method={"name": "beta_vae", "beta": 4.0}),
        run(lr=0.01, data_seeds=7),
        run(latents=3),
        run(method={"name": "vae"}),
        run(seeds=[1, 2]),
    ]
    members = [member for each in runs for member in each.members()]
    together = joined(members)
    assert [len(each.members()) for each in together] == [5, 1, 1]
    assert sorted(m.id for each in together for m in each.members()) == sorted({m.id for m in members})
    assert {m.data_seed for m in together[0].members()} == {0, 1, 2, 7}


def test_a_store_reports_a_damaged_folder(tmp_path: Path):
    folder = tmp_path / "runs" / "broken"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    with pytest.warns(UserWarning, match="trained again"):
        assert Store(tmp_path).finished() == {}


# --- claims ---------------------------------------------------------------------------------------------


def rows(**groups: list[float]) -> Rows:
    return Rows(
        {"method": name, "place": i, "seed": i, "measure": "mig", "value": value}
        for name, values in groups.items()
        for i, value in enumerate(values)
    )


def one(claim: findings.Claim, ours: Rows, published: Rows | None = None) -> findings.Finding:
    return judge([claim], ours, published or Rows([]))[0]


HIGH, LOW = [0.9, 0.95, 0.92, 0.97], [0.1, 0.15, 0.12, 0.14]


def test_higher_is_welch_and_its_direction_counts():
    claim = Higher("a", "mig", {"method": "x"}, {"method": "y"})
    found = one(claim, rows(x=HIGH, y=LOW))
    test = stats.ttest_ind(HIGH, LOW, equal_var=False)
    assert (found.verdict, found.models) == ("reproduced", 8)
    assert found.p == pytest.approx(test.pvalue)
    assert one(claim, rows(x=LOW, y=HIGH)).verdict == "not"
    assert one(claim, rows(x=[0.1, 0.5, 0.9], y=[0.1, 0.5, 0.8])).verdict == "partly"
    assert one(claim, rows(x=HIGH[:2], y=LOW)).verdict == "not testable here"
    paper = Rows([{"method": "x", "measure": "mig", "value": 0.5}, {"method": "y", "measure": "mig", "value": 0.25}])
    assert one(claim, rows(x=HIGH, y=LOW), paper).paper == "0.5 against 0.25"


def test_best_compares_the_maximum_over_a_sweep():
    swept = Rows(
        {"method": name, "beta": beta, "seed": seed, "measure": "mig", "value": value + 0.01 * seed}
        for name, values in {"x": (0.1, 0.9), "y": (0.5, 0.4)}.items()
        for beta, value in enumerate(values)
        for seed in range(3)
    )
    found = one(Higher("a", "mig", {"method": "x"}, {"method": "y"}, best=True), swept)
    assert found.ours == "0.91 against 0.51" and found.models == 6


def test_alike_and_near_need_a_margin_and_enough_models():
    near = [0.5, 0.51, 0.49, 0.5, 0.505]
    claim = Alike("a", "mig", {"method": "x"}, {"method": "y"}, within=0.05)
    assert one(claim, rows(x=near, y=near)).verdict == "reproduced"
    assert one(claim, rows(x=near, y=HIGH)).verdict == "not"
    assert one(claim, rows(x=[0.3, 0.5, 0.7], y=[0.35, 0.5, 0.68])).verdict == "partly"
    # The means differ by less than the margin, but not by chance, and perhaps by more than the margin.
    apart = one(claim, rows(x=[0.5, 0.52, 0.51, 0.49], y=[0.54, 0.56, 0.55, 0.55]))
    assert apart.verdict == "not" and "no chance" in apart.why
    paper = Rows([{"method": "x", "measure": "mig", "value": 0.5}])
    assert one(Near("a", "mig", {"method": "x"}, 0.05), rows(x=[0.54, 0.55, 0.545, 0.55]), paper).verdict == "not"
    assert (
        one(Near("a", "mig", {"method": "x"}, 0.05), rows(x=[0.51, 0.512, 0.51, 0.51]), paper).verdict == "reproduced"
    )
    assert one(Near("a", "mig", {"method": "x"}, 0.05), rows(x=near), paper).verdict == "reproduced"
    # Two one-sided tests, computed by scipy's one-sided tests.
    sides = [
        stats.ttest_1samp(near, 0.45, alternative="greater").pvalue,
        stats.ttest_1samp(near, 0.55, alternative="less").pvalue,
    ]
    assert one(Near("a", "mig", {"method": "x"}, 0.05), rows(x=near), paper).p == pytest.approx(max(sides))


def test_beyond_a_bound():
    assert one(Beyond("a", "mig", {"method": "x"}, 0.5), rows(x=HIGH)).verdict == "reproduced"
    assert one(Beyond("a", "mig", {"method": "x"}, 0.5, above=False), rows(x=HIGH)).verdict == "not"
    assert one(Beyond("a", "mig", {"method": "x"}, 0.5), rows(x=[1.0, 1.0, 1.0])).verdict == "reproduced"


def test_trends_and_relations_are_rank_correlations():
    rising = rows(x=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert one(Trend("a", "mig", "place"), rising).verdict == "reproduced"
    assert one(Trend("a", "mig", "place", rising=False), rising).verdict == "not"
    other = Rows([{**row, "measure": "dto", "value": -(row["value"] ** 3)} for row in rising])
    both = Rows([*rising, *other])
    assert one(Related("a", "mig", "dto", rising=False), both).effect == pytest.approx(-1)
    assert one(Related("a", "mig", "dto", rising=False), both).verdict == "reproduced"


def test_exactly_has_no_test():
    paper = Rows([{"method": "x", "measure": "mig", "value": 0.5}])
    assert one(Exactly("a", "mig", {"method": "x"}, 0.02), rows(x=[0.505]), paper).verdict == "reproduced"
    assert one(Exactly("a", "mig", {"method": "x"}, 0.02), rows(x=[0.52]), paper).verdict == "not"
    assert one(Exactly("a", "mig", {"method": "x"}, 0.02), rows(), paper).verdict == "not testable here"


def test_several_tests_of_one_figure_are_corrected():
    close = rows(x=[0.50, 0.60, 0.55, 0.58], y=[0.40, 0.50, 0.45, 0.47])
    claim = Higher("a", "mig", {"method": "x"}, {"method": "y"})
    p = one(claim, close).p
    assert p is not None and 0.05 / 4 < p < 0.05
    assert {finding.verdict for finding in judge([claim], close, Rows([]))} == {"reproduced"}
    several = judge([claim] * 4, close, Rows([]))
    assert {finding.verdict for finding in several} == {"partly"}
    assert several[0].corrected == pytest.approx(4 * p)


def test_the_verdict_of_a_figure_is_that_of_its_claims():
    def with_verdicts(*verdicts: findings.Verdict) -> list[findings.Finding]:
        return [findings.Finding("a", True, "1", verdict=verdict) for verdict in verdicts]

    assert overall(with_verdicts("reproduced", "not testable here")) == "reproduced"
    assert overall(with_verdicts("reproduced", "not")) == "partly"
    assert overall(with_verdicts("not", "not")) == "not"
    assert overall([]) == "not testable here"


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["reproduced", "partly"], "partly reproduced"),
        (["partly", "partly"], "not shown"),
        (["partly", "not"], "not shown"),
        (["not", "not testable here"], "not reproduced (1 of 2 claims tested)"),
        (["reproduced"], "reproduced"),
    ],
)
def test_a_figure_of_which_nothing_was_shown_is_not_called_partly_reproduced(
    verdicts: list[findings.Verdict], words: str, toy: Experiment, tmp_path: Path
):
    known = tuple(Finding(f"claim {i}", True, "1", verdict=one) for i, one in enumerate(verdicts))
    result = replace(running.reproduce("toy/fig1", "paper", "cpu", tmp_path), findings=known, verdict=overall(known))
    assert verdict(result) == words
