"""Encoding on a GPU: the codes of the CPU, and fast."""

import time

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.metrics.encoder import Encoder
from untwine.train.ensemble import Ensemble
from untwine.train.steps.pack import build

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def ensemble(device: str, padding: str = "valid", seeds: int = 10) -> uw.Ensemble:
    run = uw.Run(
        method="beta_vae",
        dataset=uw.datasets.three_dots(examples=100),
        network=uw.networks.rhodes64(padding=padding),
        seeds=range(seeds),
        steps=1,
    )
    info, members = run.info(), run.members()
    return Ensemble(members, [build(member, info) for member in members], torch.device(device))


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_codes_agree_with_the_cpu(padding: str) -> None:
    data = uw.datasets.three_dots(examples=100)
    expected = ensemble("cpu", padding, 3).encode(data.examples())
    there = ensemble("cuda", padding, 3)
    for kernels in (True, False):
        there.kernels = kernels
        for batch in (None, 33):
            codes = there.encode(data.examples(), batch)
            assert codes.device.type == "cpu"
            assert (codes - expected).abs().max() < 1e-5 * expected.abs().max()
    on_device = there.encode(torch.from_numpy(data.examples()).cuda())
    assert (on_device - expected).abs().max() < 1e-5 * expected.abs().max()
    there.kernels = True
    variances = there.variances(data.examples())
    torch.testing.assert_close(variances, ensemble("cpu", padding, 3).variances(data.examples()), rtol=1e-4, atol=0.0)


def test_states_that_are_drawn_there_have_the_same_codes() -> None:
    data = uw.datasets.three_dots(examples=100)
    states = data.factors.sample(500, seed=0)
    here, there = (Encoder(ensemble(device, seeds=2).encode, data)(states) for device in ("cpu", "cuda"))
    assert np.abs(here - there).max() < 1e-5 * np.abs(here).max()


def test_two_hundred_thousand_states_in_two_seconds() -> None:
    data = uw.datasets.three_dots(examples=100)
    encoder = Encoder(ensemble("cuda").encode, data)
    states = data.factors.sample(200_000, seed=0)
    encoder(states[:20_000])
    start = time.perf_counter()
    codes = encoder(states)
    seconds = time.perf_counter() - start
    assert codes.shape == (10, 200_000, 10)
    if "H200" in torch.cuda.get_device_name():
        assert seconds < 2
