"""`untwine methods|metrics|networks|datasets NAME`: a page for everything that has a name, whose examples work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine import references
from untwine.cli import explained, main
from untwine.data.specs import datasets, public_of
from untwine.methods import methods
from untwine.metrics.score import metrics
from untwine.model.networks import networks

ROOT = Path(__file__).parents[2]
KINDS = {"methods": methods, "metrics": metrics, "networks": networks, "datasets": datasets}
EVERY = [(kind, name) for kind, registry in KINDS.items() for name in registry.names()]
# What no publication describes.
OURS = {"conv", "mlp", "images"}
Captured = pytest.CaptureFixture[str]


def shown(capsys: Captured, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def page(kind: str, name: str) -> dict[str, Any]:
    """What `untwine KIND NAME --json` prints."""
    return getattr(explained, f"{kind[:-1]}_page")(name).to_json()


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_page_is_complete_and_fits(kind: str, name: str, capsys: Captured):
    text = shown(capsys, kind, name.replace("_", "-"))
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert text.startswith(name.replace("_", "-")) and "On the command line:" in text and "In Python:" in text
    content = page(kind, name)
    assert content["name"] == name and content["about"]
    assert [key for key, argument in content["arguments"].items() if not argument["help"]] == []
    for key, argument in content["arguments"].items():
        assert re.search(rf"^  {key}(=|$| )", text, re.MULTILINE), key
        assert argument.get("needed") or "default" in argument
    assert bool(content["references"]) == (name not in OURS), content["about"]


# Every method, and networks and datasets of each kind of example: by shape, of files, with needed arguments.
TRIED = [("methods", name) for name in methods.names()]
TRIED += [
    ("networks", name) for name in ("rhodes64", "rhodes16", "mathieu_fashion", "mathieu_pinwheel", "rolinek_linear")
]
TRIED += [("datasets", name) for name in ("dsprites", "images", "split", "three_dots")]


@pytest.mark.parametrize(("kind", "name"), TRIED)
def test_examples_work(kind: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Commands are parsed and their runs built, and lines of Python are run; nothing is trained or downloaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    absent = kind == "datasets" and (public_of(datasets[name]) is not None or name in ("images", "split", "tiled"))
    runs: list[Any] = []
    monkeypatch.setattr("untwine.cli.commands.train.fit", lambda run, *_: runs.append(run))
    monkeypatch.setattr("untwine.cli.named.carried_out", lambda *given: pytest.skip("reached the drawing"))
    if absent:
        monkeypatch.setattr("untwine.cli.commands.train._run", lambda *_: None)
    examples = page(kind, name)["examples"]
    for command in examples["commands"]:
        program, *arguments = shlex.split(command)
        assert program == "untwine"
        if arguments[0] == "train":
            assert main([*arguments, "--steps", "300000"]) == 0, command  # a CPU would get fewer, and rise faster
    assert len(runs) == 1
    if not absent:
        monkeypatch.setattr(uw, "fit", runs.append, raising=False)
        exec("\n".join(examples["python"]), {"uw": uw})
    if kind != "datasets":
        by_command, in_python = runs
        assert in_python.method == by_command.method and in_python.network == by_command.network
        assert in_python.dataset == by_command.dataset and in_python.seeds == by_command.seeds


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_gets_a_suggestion(kind: str, capsys: Captured):
    name = KINDS[kind].names()[0].replace("_", "-")
    assert main([kind, name[:-1] + "x"]) == 2
    assert f"did you mean {name!r}?" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_name_everything_is_listed(kind: str, capsys: Captured):
    text = shown(capsys, kind)
    assert [name for name in KINDS[kind].names() if name.replace("_", "-") not in text] == []
    listed = json.loads(shown(capsys, kind, "--json"))[kind]
    assert [entry["name"] for entry in listed] == KINDS[kind].names()
    first = KINDS[kind].names()[0]
    assert json.loads(shown(capsys, kind, first, "--json")) == json.loads(json.dumps({kind: [page(kind, first)]}))


def test_the_layers_of_a_network_are_those_that_it_builds():
    """Parameters of mlp for 64 x 64 pixels, 10 latents and two hidden layers of 256, counted by hand."""
    widths = [(4096, 256), (256, 256), (256, 20), (10, 256), (256, 256), (256, 4096)]
    found = page("networks", "mlp")
    assert found["parameters"] == sum((before + 1) * after for before, after in widths)
    assert found["shape"] == [1, 64, 64] and sum("Linear" in layer for layer in found["layers"]) == 6


def test_the_floors_on_a_metric_page_are_the_stored_ones(capsys: Captured):
    stored = json.loads((ROOT / "src/untwine/metrics/floors.json").read_text())["rows"]
    [row] = [row for row in stored if row["metric"] == "local_mig"]
    assert re.search(rf"local-mig +{row['noise']:.3g} +{row['collapsed']:.3g}", shown(capsys, "metrics", "mig"))
    assert np.isfinite(row["untrained"])


def test_references_are_those_of_the_bibliography():
    """The same names, titles and identifiers, in the same order."""
    lines = (ROOT / "docs" / "bibliography.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    rows = [row for row in cells if row[0] not in ("key", "cited as", "---")]
    known = references.references()
    assert [(row[1], row[2]) for row in rows] == [(one.paper, one.identifier) for one in known]
    for row, one in zip(rows, known, strict=True):
        assert all(name.strip("`") in one.cited for name in ([row[0]] if "`" not in row[0] else row[0].split(", ")))
