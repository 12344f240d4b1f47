"""`untwine demo` in a small form: it trains once, goes on where it was stopped, and says what its numbers say."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import untwine as uw
from untwine.cli import COMMANDS, main
from untwine.cli.demo import NEXT
from untwine.experiments.demo import plan, sentences
from untwine.experiments.demo.story import run_demo
from untwine.experiments.engine.claims import Higher, judge
from untwine.experiments.engine.rows import Rows

Captured = pytest.CaptureFixture[str]
METHODS = ("β-VAE", "JL1-VAE")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def command(out: Path, *more: str) -> list[str]:
    small = ["--seeds", "0-2", "--steps", "4", "--windows", "2", "--points", "100", "--device", "cpu"]
    return ["demo", "--out", str(out), *small, *more]


@pytest.fixture(scope="module")
def story(out: Path) -> dict[str, object]:
    return run_demo(out, seeds="0-2", steps=4, windows=2, points=100, device="cpu")
