"""Likelihoods against torch.distributions."""

from __future__ import annotations

import inspect
import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch import distributions as D

import untwine as uw
from untwine.model import likelihoods
from untwine.model.info import Info
from untwine.model.vae import create
from untwine.objective.evaluation import at_step, evaluate
from untwine.parts import Each, from_json, to_json

INFO = Info(latents=2, shape=(3, 4, 5))
N = 60


def example(dtype: torch.dtype = torch.float32, scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    out = scale * torch.randn(7, *INFO.shape, generator=generator)
    return out.to(dtype), torch.rand(7, *INFO.shape, generator=generator).to(dtype)


def total(distribution: D.Distribution, x: torch.Tensor) -> torch.Tensor:
    return -distribution.log_prob(x).flatten(1).sum(1)


def test_bernoulli():
    out, x = example()
    built = likelihoods.bernoulli.build(INFO)
    # A continuous x has no Bernoulli probability, but the same formula: support checks are off.
    assert torch.allclose(built.loss(out, x), total(D.Bernoulli(logits=out, validate_args=False), x), rtol=1e-6)
    assert torch.allclose(built.loss(out, x.round()), total(D.Bernoulli(logits=out), x.round()), rtol=1e-6)
    assert torch.equal(built.mean(out), out.sigmoid())


@pytest.mark.parametrize("logit", [-1e4, -100.0, -20.0, 20.0, 100.0, 1e4])
def test_bernoulli_of_extreme_logits(logit):
    built = likelihoods.bernoulli.build(Info(2, (1,)))
    out = torch.full((1, 1), logit, requires_grad=True)
    for x in (0.0, 0.3, 1.0):
        expected = max(logit, 0.0) - logit * x + math.log1p(math.exp(-abs(logit)))
        loss = built.loss(out, torch.full((1, 1), x))
        assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-8)
        slope = torch.autograd.grad(loss.sum(), out)[0].item()
        assert slope == pytest.approx((1.0 if logit > 0 else 0.0) - x, abs=1e-6)


def test_bernoulli_of_a_mean_is_finite_at_the_ends():
    built = likelihoods.bernoulli.build(Info(2, (1,)))
    for mean, x in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0)):
        loss = built.loss_of_mean(torch.tensor([[mean]]), torch.tensor([[x]])).item()
        assert loss == pytest.approx(0.0 if mean == x else -math.log(1e-6), rel=0.01, abs=2e-6)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("scale", [0.05, 1.0, 3.0])
def test_gaussian(scale, learned):
    out, x = example()
    built = likelihoods.gaussian(scale, learned).build(INFO)
    assert torch.allclose(built.loss(out, x), total(D.Normal(out, scale), x), rtol=1e-5)
    assert torch.equal(built.mean(out), out)
    assert len(list(built.parameters())) == int(learned)
    assert built.state_dict().keys() == ({"log_scale"} if learned else set())  # a fixed scale is no weight


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_laplace(scale):
    out, x = example()
    built = likelihoods.laplace(scale).build(INFO)
    assert torch.allclose(built.loss(out, x), total(D.Laplace(out, scale), x), rtol=1e-5)


def test_the_learned_scale_finds_the_spread_of_the_errors():
    out, x = example(torch.float64)
    built = likelihoods.gaussian(1.0, learned=True).build(INFO).double()
    optimal = (x - out).square().mean().sqrt()
    with torch.no_grad():
        built.log_scale.copy_(optimal.log())
    slope = torch.autograd.grad(built.loss(out, x).sum(), built.log_scale)[0]
    assert abs(slope.item()) < 1e-9
    assert torch.allclose(built.loss(out, x).mean(), N * (0.5 + optimal.log() + 0.5 * math.log(2 * math.pi)))


def test_squared_error_is_a_normal_of_variance_one_half():
    out, x = example(torch.float64)
    loss = likelihoods.squared_error.build(INFO).loss(out, x)
    assert torch.allclose(loss, total(D.Normal(out, math.sqrt(0.5)), x) - N / 2 * math.log(math.pi))


@pytest.mark.parametrize(("sigma", "beta"), [(0.1, 1.0), (1.0, 4.0), (2.0, 0.3)])
def test_gaussian_and_beta_are_squared_error_and_two_sigma_squared_beta(sigma, beta):
    """FACTS, "Squared error and nats": the two losses differ by the factor 2 sigma^2 and a constant."""
    x = example()[1].double()
    noise = {"posterior": torch.randn(7, 2, generator=torch.Generator().manual_seed(1)).double()}
    losses, slopes = [], []
    for likelihood, weight in ((likelihoods.gaussian(sigma), beta), (likelihoods.squared_error, 2 * sigma**2 * beta)):
        parts = likelihood, uw.posteriors.diagonal_normal, uw.priors.standard_normal
        vae = create(INFO, uw.networks.mlp((6,)), *parts).double()
        loss = evaluate(vae, at_step({"kl": weight * uw.penalties.kl}, 0), x, noise)["loss"]
        losses.append(loss)
        slopes.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(vae.parameters()))]))
    constant = N * (math.log(sigma) + 0.5 * math.log(2 * math.pi))
    assert losses[0] > 0 and torch.allclose(2 * sigma**2 * (losses[0] - constant), losses[1], rtol=1e-6)
    assert torch.allclose(2 * sigma**2 * slopes[0], slopes[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, [1.0, -1.0]])
def test_scales_that_are_none_are_refused(scale):
    for make in (likelihoods.gaussian, likelihoods.laplace):
        with pytest.raises(uw.UntwineError, match=r"must be (positive|finite)"):
            make(scale)


def test_a_scale_for_each_member():
    made = likelihoods.gaussian([0.1, 0.2])
    assert made.scale == Each((0.1, 0.2))
    assert from_json(json.loads(json.dumps(to_json(made)))) == made


def test_named():
    assert likelihoods.named("squared-error") == likelihoods.squared_error
    assert likelihoods.named(likelihoods.laplace(2.0)) == likelihoods.laplace(2.0)
    assert likelihoods.named("learned-gaussian") == likelihoods.gaussian(1.0, learned=True)
    assert likelihoods.named("gaussian(scale=0.1)") == likelihoods.gaussian(0.1)
    assert likelihoods.named("gaussian(0.1, learned=true)") == likelihoods.gaussian(0.1, learned=True)
    assert likelihoods.named("laplace(scale=(0.1, 0.2))") == likelihoods.laplace([0.1, 0.2])
    for wrong, message in (
        ("bernouli", r"unknown likelihood 'bernouli'; did you mean 'bernoulli'\?"),
        ("gaussian(scal=1)", r"unknown argument of likelihood 'gaussian': 'scal'; did you mean 'scale'\?"),
        ("gaussian(scale=wide)", "scale of likelihood 'gaussian' must be a number, not 'wide'"),
        ("bernoulli(1)", "likelihood 'bernoulli' takes no arguments"),
        (
            "overlap",
            r"'overlap' needs likelihood; its arguments are \(likelihood, radius=31, weight=3969.0, k",
        ),
        ("gaussian(", r"cannot read the likelihood 'gaussian\('; .* such as gaussian\(scale=1.0\)"),
        (3, "a likelihood is a name such as 'bernoulli', or a Likelihood; 3 is neither"),
        (None, "None is neither"),
        (likelihoods.Gaussian, "is neither"),
    ):
        with pytest.raises(uw.UntwineError, match=message):
            likelihoods.named(wrong)


# --- overlap ----------------------------------------------------------------------------------------


def test_overlap_by_name():
    plain = likelihoods.squared_error
    assert likelihoods.named("overlap(squared-error)") == likelihoods.overlap(plain, 31, 63**2, "box")
    assert likelihoods.named("overlap(squared-error, radius=15)") == likelihoods.overlap("squared-error", 15)
    # The kernel's name is also a likelihood's.
    assert likelihoods.named("overlap(bernoulli, kernel=gaussian)").kernel == "gaussian"
    inner = likelihoods.named("overlap(gaussian(scale=0.1), weight=(1, 2))")
    assert inner == likelihoods.overlap(likelihoods.gaussian(0.1), weight=[1, 2]) and inner.weight == Each((1.0, 2.0))


def test_overlap_is_equation_11():
    """L(x, mean) + weight L(blur(x), blur(mean)), by loops over every pixel."""
    out, x = (value.double() for value in example())
    radius, weight = 1, 2.5
    channels, height, width = INFO.shape

    def blur(image: np.ndarray) -> np.ndarray:
        blurred = np.zeros_like(image)
        for c, i, j in np.ndindex(channels, height, width):
            for k in range(i - radius, i + radius + 1):
                for m in range(j - radius, j + radius + 1):
                    if 0 <= k < height and 0 <= m < width:
                        blurred[c, i, j] += image[c, k, m] / (2 * radius + 1) ** 2
        return blurred

    built = likelihoods.overlap("squared-error", radius, weight).build(INFO).double()
    for found in (built.loss(out, x), built.loss_of_mean(out, x)):
        for one, a, b in zip(found.tolist(), out.numpy(), x.numpy(), strict=True):
            expected = ((a - b) ** 2).sum() + weight * ((blur(a) - blur(b)) ** 2).sum()
            assert one == pytest.approx(expected, rel=1e-6)
    assert torch.equal(built.mean(out), out)


def test_overlap_of_bernoulli_blurs_the_mean_and_not_the_logits():
    out, x = (value.double() for value in example())
    built = likelihoods.overlap("bernoulli", 1, 3.0).build(INFO).double()
    inner = likelihoods.bernoulli.build(INFO)
    expected = inner.loss(out, x) + 3 * inner.loss_of_mean(built.blur(out.sigmoid()), built.blur(x))
    assert torch.allclose(built.loss(out, x), expected) and torch.equal(built.mean(out), out.sigmoid())
    assert likelihoods.overlap("bernoulli").domain == (0, 1)
    assert likelihoods.overlap("laplace").domain == (-math.inf, math.inf)


def test_overlap_orders_squares_that_share_no_pixel():
    """michlo2023, sections 5 and 6: the pixels' distance of XYSquares is constant, the overlap's grows."""
    info = Info(2, (3, 64, 64))
    squares = torch.zeros(8, 3, 64, 64)
    for place in range(8):
        squares[place, 0, 24:32, 8 * place : 8 * place + 8] = 1
    pairs = [(i, j) for i in range(8) for j in range(8)]
    here, there = (squares[list(which)] for which in zip(*pairs, strict=True))
    shifts = torch.tensor([abs(i - j) for i, j in pairs])
    plain = likelihoods.squared_error.build(info).loss(here, there)
    assert torch.equal(plain, 128.0 * (shifts > 0))
    box = likelihoods.overlap("squared-error").build(info).loss(here, there)
    gaussian = likelihoods.overlap("squared-error", kernel="gaussian").build(info).loss(here, there)
    for distances, furthest in ((box, 7), (gaussian, 5)):  # a gaussian loses more to the zeros around the image
        groups = [distances[shifts == shift] for shift in range(furthest + 1)]
        assert (groups[0] == 0).all()
        assert all(one.max() < next.min() for one, next in itertools.pairwise(groups))


def test_a_radius_of_0_does_not_blur_and_a_weight_of_0_does_not_count():
    out, x = example()
    plain = likelihoods.laplace().build(INFO).loss(out, x)
    for kernel in ("box", "gaussian"):
        assert torch.allclose(likelihoods.overlap("laplace", 0, 2.0, kernel).build(INFO).loss(out, x), 3 * plain)
        assert torch.allclose(likelihoods.overlap("laplace", 5, 0.0, kernel).build(INFO).loss(out, x), plain)


def test_overlap_in_bfloat16_keeps_the_blur_in_float32():
    out, x = example()
    built = likelihoods.overlap("squared-error", 3).build(INFO)
    expected = built.loss(out.bfloat16().float(), x)
    with torch.autocast("cpu", torch.bfloat16):
        found = built.loss(out.bfloat16(), x)
    assert found.dtype == torch.float32 and torch.allclose(found, expected, rtol=1e-5)


def test_overlap_has_no_weights_but_those_of_its_likelihood():
    built = likelihoods.overlap(likelihoods.gaussian(0.5, learned=True)).build(INFO)
    assert list(built.state_dict()) == ["inner.log_scale"] and len(list(built.parameters())) == 1
    assert {name for name, _ in built.named_buffers()} == {"weight", "blur.rows", "blur.columns"}


def test_members_differ_in_the_weight_of_the_overlap():
    def losses(weight: object, seeds: list[int]) -> list[float]:
        run = uw.Run(
            method=uw.methods.vae(likelihood=likelihoods.overlap("squared-error", 2, weight)),
            dataset=uw.datasets.three_dots(size=16, positions=16, examples=64),
            network=uw.networks.mlp((8,)),
            **dict(latents=2, seeds=seeds, steps=3, batch_size=8, lr=1e-3, log_every=1),
        )
        return [one["loss"] for one in uw.fit(run, device="cpu").history[-1]["members"].values()]

    together = losses([0.0, 10.0], [0, 0])
    assert together == pytest.approx([*losses(0.0, [0]), *losses(10.0, [0])], rel=1e-5)
    assert together[1] > 1.5 * together[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(radius=-1), "radius of likelihood 'overlap' must be a whole number, from 0 to 10000, not -1"),
        (dict(radius=10**12), "from 0 to 10000, not 1000000000000"),
        (dict(radius=1.5), "whole number, from 0 to 10000, not 1.5"),
        (dict(radius=True), "not True"),
        (dict(radius="wide"), "not 'wide'"),
        (dict(weight=-1), "weight of likelihood 'overlap' must be 0 or more, not -1"),
        (dict(weight=[1, -1]), "0 or more"),
        (dict(weight=math.inf), "must be finite"),
        (dict(weight="much"), "weight of likelihood 'overlap' must be a number, not 'much'"),
        (
            dict(kernel="boxes"),
            "kernel of likelihood 'overlap' must be 'box' or 'gaussian', not 'boxes'; did you mean 'box'",
        ),
        (dict(kernel=None), "must be 'box' or 'gaussian', not None"),
        (dict(likelihood="bernouli"), "unknown likelihood 'bernouli'; did you mean 'bernoulli'"),
        (dict(likelihood=3), "likelihood of likelihood 'overlap' must be a likelihood, or its name in a text, not 3"),
    ],
)
def test_overlaps_that_are_none_are_refused(arguments, message):
    overlap = inspect.unwrap(likelihoods.overlap)  # without the checks of types that only the tests have
    with pytest.raises(uw.UntwineError, match=message):
        overlap(**{"likelihood": "bernoulli", **arguments})


@pytest.mark.parametrize("shape", [(6,), (4, 5)])
def test_overlap_is_for_images(shape):
    with pytest.raises(uw.UntwineError, match=r"overlap blurs images \[channels, height, width\]; examples of \["):
        likelihoods.overlap("bernoulli").build(Info(2, shape))
