"""Every code block of every page runs: Python in one namespace for each page, commands in the same scratch folder.

A page says why a block is only parsed: `<!-- parsed only: REASON -->` in the line before it.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine.cli import flags, main

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(?:<!-- parsed only: (?P<reason>[^\n]+?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)```", re.DOTALL)
Names = dict[str, Any]


def none(names: Names, folder: Path, printed: str) -> None:
    """Nothing more to check of a page than that it runs."""


@dataclass(frozen=True)
class Page:
    """How a page is run: what is made smaller, each of which it must have, and what must hold afterwards."""

    smaller: dict[str, str] = field(default_factory=dict)
    holds: Callable[[Names, Path, str], None] = none


def readme(names: Names, folder: Path, printed: str) -> None:
    assert names["columns"].shape == (2, 100, 6, 1, 32, 32)
    assert names["scores"]["mig"].values.shape == (2,)
    run = names["run"].replace(method=names["my_vae"](gamma=[0.1, 0.2]), steps=2)
    assert len(names["uw"].fit(run)) == 2


def getting_started(names: Names, folder: Path, printed: str) -> None:
    assert names["codes"].shape == (2, 16, 6) and names["columns"].shape == (2, 16, 6, 1, 32, 32)
    assert (folder / "columns.png").exists() and "local-mig" in printed


def explaining(names: Names, folder: Path, printed: str) -> None:
    assert names["score"].values.shape == (2,)
    pictures = {"columns", "density", "magnitudes", "plane", "scores", "sparse", "traversals"}
    assert {path.name for path in folder.glob("*.png")} == {f"{name}.png" for name in pictures}


def perceived(names: Names, folder: Path, printed: str) -> None:
    assert len(names["matrices"]) == 6 and len(names["found"].factors) == 6
    assert {path.name for path in folder.glob("*.png")} == {"cumulative.png", "distances.png"}
    assert len(list((folder / "perceived").iterdir())) == 3


def extending(names: Names, folder: Path, printed: str) -> None:
    uw, run = names["uw"], names["run"]
    assert names["codes"].shape == (1, 8, 10)
    assert set(names["scores"]) == {"reach(points=200)", "local-reach(rho=0.1, windows=5, points=200)"}
    assert "reach" in names["scores"] and "local_reach" in names["scores"]
    steep = uw.methods.vae().with_penalties(steep=uw.Penalty(names["Steepness"]()))
    assert uw.fit(run.replace(method=steep, steps=2)).history[-1]["members"]["seed-0"]["steep"] > 0
    assert names["HalfCosine"](start=2.0, steps=10)(np.array([0, 5, 10])) == pytest.approx([2, 1, 0])


def getting_out(names: Names, folder: Path, printed: str) -> None:
    """The traced program and the ONNX files compute what the model does, and what was saved can be read."""
    torch, model, images = names["torch"], names["model"], names["images"]
    traced = torch.export.load(str(folder / "model.pt2")).module()
    assert torch.allclose(traced(images[:3]), model(images[:3]), atol=1e-5)
    assert np.allclose(names["mean"], names["codes"].detach(), atol=1e-4) and len(names["latents"]) == 6
    assert len(names["ensemble"]) == 2 and (folder / "for-the-hub" / "README.md").exists()
    assert (folder / "mine.csv").read_text().count("mig") == 2 == (folder / "scores.csv").read_text().count("mig")
    assert len(names["frame"]) == 4 and "toprule" in (folder / "mine.tex").read_text()


def reproducing(names: Names, folder: Path, printed: str) -> None:
    assert len(names["result"].rows.where(measure="agreement")) > 0
    assert (folder / "reproduced" / "michlo2023" / "fig8" / "smoke" / "result.md").exists()


def datasets(names: Names, folder: Path, printed: str) -> None:
    assert "(3, 32, 64) ('x_R1'" in printed


def your_data(names: Names, folder: Path, printed: str) -> None:
    (seen,) = (folder / "perceived").iterdir()
    shown = sorted(path.name for path in (folder / "shown").iterdir())
    assert shown[0].startswith("discs") and shown[1].startswith("images-source-discs")
    assert (seen / "matrices.png").exists() and (folder / "runs" / "discs" / "report.html").exists()
    data, score, local = names["data"], names["score"], names["local"]
    assert data.factors.to_json() == {
        "names": ["x", "y", "colour"],
        "sizes": [10, 10, 2],
        "kinds": ["ordered", "ordered", "categorical"],
        "values": [[x / 2 for x in range(10)], list(range(10)), ["blue", "red"]],
    }
    assert score.values == pytest.approx(names["by_hand"].values) and score.settings["samples"] == 150
    assert local.values.shape == (2,) and local.settings["windows"] == 20
    assert "150 of the 200 states of images have an example" in printed


def sweeps(names: Names, folder: Path, printed: str) -> None:
    table, lengths = names["table"], names["lengths"]
    assert table.counts() == {"done": 5} and (folder / "sweeps" / "betas" / "table.csv").exists()
    assert sum(len(list(run.glob("*"))) for run in folder.glob("sweeps/betas/runs/*/members")) == 5
    assert "5 models: 5 done." in printed and "Nothing was written" in printed and lengths == [4, 9]


def columns(names: Names, folder: Path, printed: str) -> None:
    assert names["jacobians"].shape == (2, 3, 6, 1, 32, 32) and (folder / "columns.png").exists()


SHORT = {"steps=1_000": "steps=4", "anneal=500": "anneal=2", "20_000": "200"}
COMMANDS = {"--steps 1000": "--steps 4", "--anneal 500": "--anneal 2", "examples 20000": "examples 200"}
PAGES = {
    "README.md": Page({**SHORT, '"local_mig"]': '"local_mig"], points=500, windows=2'}, readme),
    "docs/getting-started.md": Page({**COMMANDS, "--points 2000": "--points 300 --windows 2"}, getting_started),
    "docs/sweeps.md": Page(
        {
            "steps = 2_000": "steps = 2",
            "examples = 20_000": "examples = 100",
            'seeds = "0-2"': 'seeds = "0"',
            "points = 2_000": "points = 60\nwindows = 2",
        },
        sweeps,
    ),
    "docs/training.md": Page({"--steps 500": "--steps 4"}),
    "docs/your-data.md": Page(
        {"--steps 200": "--steps 4", "perceive images": "perceive images --pairs 200 --traversals 3"}, your_data
    ),
    "docs/explaining.md": Page(
        {
            "steps=2_000": "steps=4",
            "20_000": "200",
            "5_000": "500",
            "range(1_000)": "range(150)",
            "300 * 64": "30 * 64",
            "points=2_000": "points=100",
            "runs/explained  ": "runs/explained --points 300 --windows 2  ",
            "--metrics dci": "--points 300 --windows 2 --metrics dci",
            "--compare": "--points 300 --windows 2 --compare",
        },
        explaining,
    ),
    "docs/jacobian-columns.md": Page(SHORT, columns),
    "docs/perceived-distances.md": Page(
        {
            "steps=2_000": "steps=4",
            "20_000": "200",
            "pairs=2_000": "pairs=200",
            "traversals=10": "traversals=2",
            "perceive xy-squares": "perceive xy-squares --pairs 100 --traversals 2",
            "perceive three-dots": "perceive three-dots --pairs 100 --traversals 2",
        },
        perceived,
    ),
    "docs/extending.md": Page(SHORT, extending),
    "docs/choosing-settings.md": Page(
        {"--steps 2000": "--steps 4", "examples 20000": "examples 200", "--points 2000": "--points 200 --examples 200"}
    ),
    "docs/getting-out.md": Page({"steps=200": "steps=2", "examples=2_000": "examples=100"}, getting_out),
    "docs/reproducing.md": Page(holds=reproducing),
    "docs/datasets.md": Page(holds=datasets),
}


def pages() -> list[str]:
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return ["README.md", "CONTRIBUTING.md", *found]


def commands(code: str) -> list[list[str]]:
    """The words of each command of a block, without comments; a backslash continues a line."""
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str], parsed_only: bool, patch: pytest.MonkeyPatch) -> None:
    """Run a command of Untwine, or parse it; of other programs look up what is named."""
    program, *rest = words
    if program == "untwine":
        parsed = []
        if parsed_only:
            real = flags.parse

            def parse(*given: Any, **options: Any) -> Any:
                parsed.append(real(*given, **options))
                raise SystemExit(0)

            patch.setattr(flags, "parse", parse)
        try:
            assert main(rest) == 0, shlex.join(words)
            assert not parsed_only or parsed, f"{shlex.join(words)}: nothing was parsed"
        finally:
            patch.undo()
    elif program == "make":
        assert set(rest) <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)), rest
    elif program == "pip":
        extras = {extra for word in rest for group in re.findall(r"\[([\w,]+)\]", word) for extra in group.split(",")}
        declared = (ROOT / "pyproject.toml").read_text()
        assert rest[0] == "install" and all(f"\n{extra} = [" in declared for extra in extras), rest
    elif program == "ray":  # no part of Untwine: a machine joins a cluster, or leaves it
        assert rest[0] in ("start", "stop"), rest
    elif program == "python":
        compile((ROOT / rest[0]).read_text(), rest[0], "exec")
    else:
        pytest.fail(f"a command that nothing runs: {shlex.join(words)}")


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers is known to its test alone."""
    from untwine.data.specs import datasets
    from untwine.methods import methods
    from untwine.metrics.score import metrics
    from untwine.model.networks import networks
    from untwine.parts import Part
    from untwine.train.steps.optimisers import optimisers

    for name in dir(uw):  # all that Untwine has is registered first: else it would be forgotten with the page's parts
        getattr(uw, name)
    kinds = [kind.registry for kind in Part.__subclasses__() if "registry" in vars(kind)]
    assert len(kinds) > 3
    for registry in (datasets, methods, metrics, networks, optimisers, *kinds):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.mark.usefixtures("own_names")
@pytest.mark.filterwarnings("ignore::UserWarning")  # of models that have hardly been trained
@pytest.mark.parametrize("name", pages())
def test_the_blocks_of_the_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, text = PAGES.get(name, Page()), (ROOT / name).read_text()
    for old, new in page.smaller.items():
        assert old in text, f"{name} has no {old}"
        text = text.replace(old, new)
    names: Names = {"__name__": "page"}
    with monkeypatch.context() as context:
        context.chdir(tmp_path)
        for block in BLOCK.finditer(text):
            reason, language, code = block["reason"], block["language"], block["code"]
            if language == "python":
                compiled = compile(code, name, "exec")
                if reason is None:
                    exec(compiled, names)
            elif language == "sh":
                for words in commands(code):
                    with pytest.MonkeyPatch.context() as patch:
                        run_command(words, reason is not None, patch)
            elif language == "toml":  # its first line names the file
                Path(code.split()[1]).write_text(code)
            else:
                assert language == "text", f"a block of {name} is {language or 'no language'}: python, sh, toml or text"
        page.holds(names, tmp_path, "".join(capsys.readouterr()))


@pytest.mark.parametrize("name", pages())
def test_no_block_of_the_page_escapes(name: str) -> None:
    """A block that is only indented, or a mark that stands before no block, would not be run."""
    text = (ROOT / name).read_text()
    outside = re.sub(r"<!-- table: .*?<!-- end -->", "", BLOCK.sub("", text), flags=re.DOTALL)
    assert re.findall(r"\n\n {4,}[^\s-].*", outside) == []
    assert "```" not in outside and "<!-- parsed only" not in outside


@pytest.mark.parametrize("name", [path.name for path in sorted((ROOT / "results").glob("*.md"))])
def test_commands_of_results_can_be_parsed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of results indent their commands, and "..." stands for more of the same."""
    text = (ROOT / "results" / name).read_text().replace("\\\n", " ")
    for line in re.findall(r"^ {4}(untwine .*)$", text, flags=re.MULTILINE):
        with pytest.MonkeyPatch.context() as patch:
            run_command([word for word in shlex.split(line, comments=True) if word != "..."], True, patch)
