"""`untwine demo` in a small form: it trains once, goes on where it was stopped, and says what its numbers say."""

import inspect
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import untwine as uw
from untwine.cli import COMMANDS, main
from untwine.cli.commands.demo import NEXT
from untwine.errors import Interrupted
from untwine.experiments.demo import folder, page, plan, run_demo, sentences
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.findings import judge
from untwine.experiments.engine.rows import Rows

Captured = pytest.CaptureFixture[str]
METHODS = ("β-VAE", "JL1-VAE")
RESULTS = Path(__file__).parents[2] / "results" / "demo"
SMALL: dict[str, Any] = {"seeds": "0-2", "steps": 4, "windows": 2, "points": 100, "device": "cpu"}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]

pytestmark = pytest.mark.filterwarnings("ignore:.*no latent is active")  # as after four steps


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo that was interrupted when one method was trained, and the other not."""
    out = tmp_path_factory.mktemp("demo")
    uw.fit(plan.cases(SMALL["seeds"], SMALL["steps"])[0].run, folder(out, METHODS[0]), "cpu")
    return out


@pytest.fixture(scope="module", autouse=True)
def short_report() -> Iterator[None]:
    """A page of one line in place of the report, which has tests of its own and takes longer than all else here."""
    fits = inspect.signature(uw.write_report)

    def write(*args: Any) -> Path:
        given = fits.bind(*args).arguments
        given["out"].write_text(" ".join(uw.load(run).members[0].method for run in given["runs"]))
        return given["out"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uw, "write_report", write)
        yield


@pytest.fixture(scope="module")
def half(out: Path) -> dict[Path, int]:
    return _weights(out)


@pytest.fixture(scope="module")
def story(out: Path, half: dict[Path, int]) -> dict[str, Any]:
    return run_demo(out, **SMALL)


def _weights(out: Path) -> dict[Path, int]:
    """When each file of weights was written."""
    return {file: file.stat().st_mtime_ns for file in out.rglob("*.safetensors")}


def test_what_was_trained_before_an_interruption_is_kept(half: dict[Path, int], story: dict[str, Any], out: Path):
    assert len(half) == 3 and len(_weights(out)) == 6 and half.items() <= _weights(out).items()


def test_an_interruption_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    def interrupted(*args: Any, **options: Any) -> None:
        raise Interrupted("interrupted")

    monkeypatch.setattr(uw, "fit", interrupted)
    assert main(["demo", "--out", str(tmp_path), *FLAGS]) == 1
    assert "start the demo again" in capsys.readouterr().err


def test_it_draws_every_picture_and_writes_down_every_number(story: dict[str, Any], out: Path):
    kept = json.loads((out / "demo.json").read_text())
    assert kept == {key: story[key] for key in kept} and set(story) - set(kept) == {"pages", "report", "runs"}
    assert story["report"] == str(out / "report.html") and (out / "report.html").read_text() == "beta_vae jl1_vae"
    text = (out / "demo.md").read_text()
    for picture in story["pictures"]:
        assert (out / picture).read_bytes()[1:4] == b"PNG" and f"({picture})" in text
    assert all(line["sentence"] in text and line["what"] in text for line in story["numbers"])
    measured = {(row["method"], row["measure"], row["seed"]) for row in story["rows"]}
    assert measured == {(method, measure, seed) for method in METHODS for measure in plan.WORDS for seed in range(3)}


def test_numbers_are_those_of_the_models(story: dict[str, Any], out: Path):
    rows = Rows(story["rows"])
    for method in METHODS:
        ensemble = uw.load(folder(out, method))
        scores = uw.evaluate(ensemble, ["local-mig"], windows=2, points=100)
        entry = scores.entries[0]["members"]
        assert rows.where(method=method, measure="local_mig").values == [m["value"] for m in entry.values()]
        logged = [line["members"] for line in ensemble.history if line["step"] == 4][-1]
        errors = [logged[f"seed-{seed}"]["reconstruction"] for seed in range(3)]
        assert rows.where(method=method, measure="reconstruction").values == pytest.approx(errors)
        assert rows.where(method=method, measure="share_in_one").values == pytest.approx(_shares(ensemble), rel=1e-4)


def _shares(ensemble: uw.Ensemble) -> list[float]:
    """The share of a column's energy at one dot, pixel by pixel, of the first 64 images whose dots lie apart."""
    dataset, shares = ensemble.dataset(), [[0.0, 0.0] for _ in range(len(ensemble))]
    chosen = [state for state in dataset.factors_of(np.arange(6400)) if _apart(state.reshape(3, 2) / 63)][:64]
    images = dataset.observe(np.stack(chosen))
    energies = np.asarray(ensemble.jacobian(ensemble.encode(images))).astype(np.float64)[:, :, :, 0] ** 2
    for place, state in enumerate(chosen):
        at_dots = np.zeros((*energies.shape[::2][:2], 3))
        for row in range(16):
            for column in range(16):
                offsets = state.reshape(3, 2) / 63 * 16 - (column + 0.5, row + 0.5)
                at_dots[:, :, np.argmin((offsets**2).sum(1))] += energies[:, place, :, row, column]
        for model, dots in enumerate(at_dots):
            shares[model][0] += float(dots.max(1).sum())
            shares[model][1] += float(dots.sum())
    return [most / every for most, every in shares]


def _apart(places: np.ndarray) -> bool:
    gaps = [np.hypot(*(places[i] - places[j])) for i in range(3) for j in range(i)]
    return min(gaps) > 0.35 and bool((np.abs(places - 0.5) < 0.4).all())


def test_started_again_it_trains_nothing(story: dict[str, Any], out: Path, capsys: Captured):
    before = _weights(out)
    assert main(["demo", "--out", str(out), *FLAGS]) == 0
    said = capsys.readouterr().out
    assert "nothing was trained" in said and _weights(out) == before
    assert str(out) in said and all(f"  {picture}" in said for picture in story["pictures"])
    assert all(len(line) <= 80 or str(out) in line for line in said.splitlines())  # three columns, not fourteen


def test_the_stored_page_follows_from_the_stored_numbers():
    stored = json.loads((RESULTS / "demo.json").read_text())
    rows = Rows(stored["rows"])
    findings = judge(plan.plan(**stored["settings"]).claims, rows, Rows([]))
    told = sentences.told(rows, dict(zip(plan.CLAIMS, findings, strict=True)))
    assert [asdict(line) for line in told] == stored["numbers"]
    assert page.page(stored) == (RESULTS / "demo.md").read_text()


def test_what_to_type_next_is_a_command(story: dict[str, Any]):
    for text in NEXT:
        words = shlex.split(text)
        assert words[0] == "untwine" and words[1] in COMMANDS


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (2.0, ": yes (p ="),
        (0.5, "perhaps: it is so in this run, but 10 models cannot tell it from chance (p ="),
        (-2.0, "no, not in this run (p ="),
    ],
)
def test_a_sentence_follows_from_the_test(shift: float, words: str):
    values = {"β-VAE": [1.0, 2.0, 3.0, 2.5, 1.5], "JL1-VAE": [shift * 1.0 + x for x in (1.1, 2.1, 2.9, 2.4, 1.5)]}
    rows = Rows(
        {"method": method, "measure": "share", "seed": seed, "value": value}
        for method, of_method in values.items()
        for seed, value in enumerate(of_method)
    )
    (finding,) = judge([Higher("It is larger", "share", *({"method": m} for m in METHODS[::-1]))], rows, Rows([]))
    test = stats.ttest_ind(values["JL1-VAE"], values["β-VAE"], equal_var=False)
    said = sentences.sentence(finding)
    assert said.startswith("It is larger: ") and words in said and f"{test.pvalue:.2g}" in said


def test_intervals_are_students():
    values = [0.5, 0.61, 0.7, 0.64]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert sentences.mean(values) == f"{np.mean(values):.3f} ({low:.3f} to {high:.3f})"
    assert sentences.mean([124.71, 126.0]) == "125.4" and sentences.mean([]) == "none"


def test_few_models_are_not_tested():
    (finding,) = judge([Higher("It is larger", "share", {"method": "a"}, {"method": "b"})], Rows([]), Rows([]))
    assert sentences.sentence(finding) == "It is larger: not tested, as there are no numbers."
