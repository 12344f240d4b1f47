"""What a run, an ensemble and scores say of themselves: a short line, and a small table in notebooks."""

from html.parser import HTMLParser
from typing import Any

import pytest
from helpers import tiny

import untwine as uw
from untwine.cards import card


class Cells(HTMLParser):
    """The texts of a table's cells; tags must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def sweep() -> uw.Ensemble:
    method = uw.methods.beta_vae([0.1, 4.0] * 3, likelihood="squared_error")
    return uw.fit(tiny(method, seeds=[0, 0, 1, 1, 2, 2], steps=5, holdout=0.1))


def test_reprs_are_short_lines(sweep: uw.Ensemble) -> None:
    run = uw.Run(uw.methods.jl1_vae(gamma=0.2), uw.datasets.three_dots(examples=10), seeds="0-3,7")
    assert repr(run) == "Run(jl1_vae(gamma=0.2) on three-dots(examples=10), seeds 0-3,7, 300,000 steps)"
    members = "6 members: beta=0.1, seed 0; beta=4, seed 0; ...; beta=4, seed 2"
    method = "beta_vae(beta=[0.1, 4], likelihood=SquaredError)"
    assert repr(sweep) == f"Ensemble({method} on synthetic-nonlinear(samples=300, seed=3), 3 latents, {members})"
    longest = uw.Run(uw.methods.beta_vae(list(range(1, 100))), "three_dots", seeds=range(99), lr=[0.1] * 99)
    assert "\n" not in repr(longest) and len(repr(longest)) < 200
    assert repr(uw.Run(tiny().method.watching({}), "three_dots")).startswith("Run(objective on three-dots, seeds 0, ")


def test_a_run_in_a_notebook(sweep: uw.Ensemble) -> None:
    cells = dict(Cells(sweep.run._repr_html_()).rows)
    assert cells["seeds"] == "0,0,1,1,2,2" and cells["holdout"] == "0.1" and cells["steps"] == "5"
    assert cells["method"].startswith("beta_vae(beta=[0.1, 4]")
    assert cells["network"] == "mlp(hidden=[12], activation=tanh)"
    assert "holdout" not in dict(Cells(tiny()._repr_html_()).rows)


def test_an_ensemble_in_a_notebook(sweep: uw.Ensemble) -> None:
    heading, *rows = Cells(sweep._repr_html_()).rows
    assert heading == ["member", "loss", "reconstruction", "kl", "holdout loss"]
    assert [row[0] for row in rows] == [member.name for member in sweep.members]
    assert float(rows[1][1]) == pytest.approx(sweep.history[-1]["members"]["beta=4, seed 0"]["loss"], rel=1e-3)


def test_scores_in_a_notebook(sweep: uw.Ensemble) -> None:
    scores = uw.evaluate(sweep, ["hoyer", "mig(points=50)"])
    heading, *rows = Cells(scores._repr_html_()).rows
    assert heading[:3] == ["metric", "models", "value"]
    assert [row[0] for row in rows] == ["hoyer, beta=0.1", "hoyer, beta=4", "mig, beta=0.1", "mig, beta=4"]
    assert heading[3:] == (["notes"] if any(row["notes"] for row in scores.summary()) else [])
    assert repr(scores).count("; ") == 3 and "Scores" in uw.Scores([])._repr_html_()


def test_cards_are_small_escaped_and_refer_to_nothing(sweep: uw.Ensemble) -> None:
    for page in (sweep._repr_html_(), sweep.run._repr_html_(), uw.Scores([])._repr_html_()):
        parsed = Cells(page)
        assert parsed.tags <= {"table", "caption", "tr", "th", "td"} and not parsed.attributes
        assert len(page) < 10_000
    attack = "<script>alert('x')</script> & \""
    parsed = Cells(card(attack, [attack], [[attack]] * 60))
    assert parsed.tags == {"table", "caption", "tr", "th", "td"}
    assert parsed.rows == [[attack]] * 51 + [["and 10 more"]]
