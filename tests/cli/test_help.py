"""The help of every command: it has an example, fits 80 columns, and names what there is."""

from __future__ import annotations

import re

import pytest

from untwine.cli import COMMANDS, helptext, main
from untwine.cli.commands.train import NETWORKS, OPTIMISERS
from untwine.model.networks import networks
from untwine.train.steps.optimisers import optimisers

# Commands whose help depends on what follows them.
MORE = ["train jl1-vae", "train vae --dataset images --network conv", "train --resume DIR", "perceive xy-squares"]
MORE += ["data list", "data get", "data check", "data show", "data show dsprites", "data get mnist", "bench metrics"]
Captured = pytest.CaptureFixture[str]


def help_of(words: str, capsys: Captured) -> str:
    assert main([*words.split(), "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [*COMMANDS, *MORE])
def test_every_help_has_an_example_and_fits(words: str, capsys: Captured):
    text = help_of(words, capsys)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    after = re.split(r"^examples?:", text, flags=re.MULTILINE | re.IGNORECASE)
    assert len(after) > 1, "there is no example"
    examples = re.findall(r"^[ -]*untwine (\w+)", "\n".join(after[1:]), flags=re.MULTILINE)
    assert words.split()[0] in examples and set(examples) <= set(COMMANDS)


def test_the_help_of_all_fits(capsys: Captured):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and any(line.startswith("  networks ") for line in lines)


def test_train_help_names_networks_and_optimisers(capsys: Captured):
    """Its tables need no torch, so they are written down; here they are compared with what there is."""
    ours = [name for name in networks.names() if networks[name].__module__.startswith("untwine.")]
    assert list(NETWORKS) == ours and list(OPTIMISERS) == optimisers.names()
    text = help_of("train", capsys)
    assert [name for name in (*NETWORKS, *OPTIMISERS) if name.replace("_", "-") not in text] == []


def test_a_long_example_is_one_that_a_shell_reads():
    """Its lines, joined as a shell joins them, are the command again."""
    command = "untwine train jl1-vae --dataset three-dots --dataset.size 32 --gamma 0.1 --seeds 0-9"
    lines = helptext.wrapped(f"Examples:\n- {command}", 40).splitlines()[1:]
    assert len(lines) > 2 and max(map(len, lines)) <= 40
    assert re.sub(r" \\\n +", " ", "\n".join(lines)) == f"- {command}"
