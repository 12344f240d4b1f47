"""Every experiment runs at smoke scale, draws its figures, and makes plans that need neither data nor training."""

import json
import os
from pathlib import Path

import pytest

from untwine.experiments.engine import catalogue, pages, running
from untwine.experiments.engine.contract import SCALES

NAMES = list(catalogue.experiments())


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all of them, as experiments share members."""
    return tmp_path_factory.mktemp("reproduced")


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_at_smoke_scale(name: str, out: Path):
    result = running.reproduce(name, "smoke", "cpu", out)
    if not result.problems:  # all data are there
        assert result.figures == tuple(f"{figure}.png" for figure in _plan(name, "smoke").figures)
        assert not [finding.text for finding in result.findings if finding.why == "there are no numbers"]
    assert not [text for text in result.problems if "diverged" in text]
    for figure in result.figures:
        assert (out / name / "smoke" / figure).stat().st_size > 1000
    assert pages.check(out / name) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", SCALES)
def test_a_plan_needs_no_data(name: str, scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    plan = _plan(name, scale)
    assert plan.cases or plan.facts or plan.figures
    json.dumps([dict(row) for row in plan.published], allow_nan=False)
    json.dumps([dict(measure.key) for measure in plan.measures], allow_nan=False)
    assert os.listdir(tmp_path) == []
    texts = [claim.text for claim in plan.claims]
    assert len(set(texts)) == len(texts)
    columns = [tuple(sorted(case.columns.items())) for case in plan.cases]
    assert len(set(columns)) == len(columns), "two cases have the same columns"


def _plan(name: str, scale: str):
    experiment = catalogue.find(name)
    return experiment.plan(experiment.settings(scale))
