"""A short run of each method has a stored loss curve: a change that moves one must mean to.

To store new curves (say so in the commit's message): UNTWINE_GOLDEN=write pytest tests/contracts/test_golden.py
"""

import inspect
import json
import os
from pathlib import Path

import pytest

import untwine as uw

FILE = Path(__file__).parent / "golden.json"
SMALL = {"anneal": 20, "hidden": 16}  # arguments that make a short run show every term


def curve(name: str) -> dict[str, list[float]]:
    function = uw.methods.get(name)
    arguments = {key: value for key, value in SMALL.items() if key in inspect.signature(function).parameters}
    run = uw.Run(
        method=function(**arguments),
        dataset=uw.datasets.three_dots(size=16, positions=16, examples=256),
        network=uw.networks.conv(channels=(4, 8), hidden=16),
        latents=3,
        steps=40,
        batch_size=8,
        lr=1e-3,
        optimiser="adam",
        sampling="iid",
        log_every=10,
    )
    history = uw.fit(run, device="cpu").history
    return {term: [entry["members"]["seed-0"][term] for entry in history] for term in history[0]["members"]["seed-0"]}


@pytest.mark.parametrize("name", uw.methods.names())
def test_golden_loss_curve(name: str) -> None:
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    found = curve(name)
    if os.environ.get("UNTWINE_GOLDEN") == "write":
        rounded = {term: [float(f"{value:.6g}") for value in values] for term, values in found.items()}
        FILE.write_text(json.dumps({**stored, name: rounded}, indent=1, sort_keys=True) + "\n")
    assert name in stored or os.environ.get("UNTWINE_GOLDEN") == "write", f"no golden curve is stored for {name}"
    if name in stored and os.environ.get("UNTWINE_GOLDEN") != "write":
        assert set(found) == set(stored[name])
        for term, values in stored[name].items():
            assert found[term] == pytest.approx(values, rel=1e-3, abs=1e-5), term
        # Not the loss: a target may move away, and a noisy estimate on 8 examples may weigh 1,000.
        assert found["reconstruction"][-1] < found["reconstruction"][0]
