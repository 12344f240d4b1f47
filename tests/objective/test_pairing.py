"""Pairs: how partners are drawn, and how posteriors are merged, against loops over the definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch import distributions as D

from untwine.errors import UntwineError
from untwine.model.posteriors import DiagonalQ, full_normal
from untwine.objective.pairing import ada

SIZES = torch.tensor([3, 1, 8, 2])


def factors(n: int) -> Tensor:
    return (torch.rand(n, 4, generator=torch.Generator().manual_seed(0)) * SIZES).long()


def uniforms(n: int) -> Tensor:
    return torch.rand(n, ada().width(4), generator=torch.Generator().manual_seed(1))


def posterior(pairs: int = 50, latents: int = 4) -> DiagonalQ:
    generator = torch.Generator().manual_seed(2)
    mean, log_variance = torch.randn(2, 2 * pairs, latents, generator=generator, dtype=torch.float64)
    return DiagonalQ(mean, log_variance)


# --- partners -----------------------------------------------------------------------------------------


def test_the_number_of_differing_factors_is_uniform():
    before, n = factors(30_000), 30_000
    after = ada().draw(before, uniforms(n), SIZES)
    count = (before != after).sum(1)
    shares = torch.bincount(count, minlength=5) / n
    assert shares[0] == shares[4] == 0  # of three that vary, one to three differ
    assert torch.allclose(shares[1:4], torch.tensor(1 / 3), atol=4 * math.sqrt(2 / 9 / n))
    assert (after >= 0).all() and (after < SIZES).all() and (after[:, 1] == 0).all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_fixed_number_of_differing_factors(k):
    before = factors(20_000)
    after = ada(differing=k).draw(before, uniforms(20_000), SIZES)
    differs = before != after
    assert (differs.sum(1) == k).all()
    # Each of the three that vary is as likely to be among them.
    assert torch.allclose(differs[:, [0, 2, 3]].float().mean(0), torch.tensor(k / 3), atol=0.02)


def test_new_values_are_uniform_over_the_others():
    before = torch.full((40_000, 4), 0)
    before[:, 2] = 5
    after = ada(differing=3).draw(before, uniforms(40_000), SIZES)
    shares = torch.bincount(after[:, 2], minlength=8) / 40_000
    assert shares[5] == 0 and torch.allclose(shares[[0, 1, 2, 3, 4, 6, 7]], torch.tensor(1 / 7), atol=0.01)


def test_values_may_repeat_when_asked_for():
    before = factors(20_000)
    after = ada(differing=3, repeat=True).draw(before, uniforms(20_000), SIZES)
    assert (before != after).float().mean(0)[2].item() == pytest.approx(7 / 8, abs=0.01)


def test_the_members_of_a_pack_draw_as_each_alone():
    before, noise = factors(12).reshape(3, 4, 4), uniforms(12).reshape(3, 4, -1)
    together = ada().draw(before, noise, SIZES)
    assert all(torch.equal(together[i], ada().draw(before[i], noise[i], SIZES)) for i in range(3))


def test_more_than_there_are_is_refused():
    with pytest.raises(UntwineError, match="only 3 of them vary"):
        ada(differing=4).draw(factors(2), uniforms(2), SIZES)
    with pytest.raises(UntwineError, match="only 0 of them vary"):
        ada().draw(torch.zeros(2, 4).long(), uniforms(2), torch.ones(4).long())


# --- merging --------------------------------------------------------------------------------------------


def by_hand(q: DiagonalQ, average: str, distance: str) -> tuple[Tensor, Tensor]:
    """Loops over pairs and latents, with torch's own divergences."""
    pairs, latents = len(q.mean) // 2, q.mean.shape[1]
    mean, variance = q.mean.clone(), q.variance().clone()
    for i in range(pairs):
        a, b = (D.Normal(q.mean[j], q.variance()[j].sqrt()) for j in (i, i + pairs))
        apart = D.kl_divergence(a, b)
        if distance == "symmetric":
            apart = (apart + D.kl_divergence(b, a)) / 2
        threshold = (apart.min() + apart.max()) / 2
        for j in range(latents):
            if apart[j] >= threshold:
                continue
            (m1, m2), (v1, v2) = (a.mean[j], b.mean[j]), (a.variance[j], b.variance[j])
            if average == "moments":
                m, v = (m1 + m2) / 2, (v1 + v2) / 2
            else:
                v = 1 / (1 / v1 + 1 / v2)
                m = v * (m1 / v1 + m2 / v2)
                v = 2 * v if average == "harmonic" else v
            mean[[i, i + pairs], j], variance[[i, i + pairs], j] = m, v
    return mean, variance


@pytest.mark.parametrize("distance", ["symmetric", "forward"])
@pytest.mark.parametrize("average", ["moments", "product", "harmonic"])
def test_merged_posteriors(average, distance):
    q = posterior()
    merged = ada(average, distance).merge(q)
    mean, variance = by_hand(q, average, distance)
    assert torch.allclose(merged.mean, mean) and torch.allclose(merged.variance(), variance)
    kept = (merged.mean == q.mean).all(1)
    assert not kept.any()  # the least divergence is always below the threshold
    assert (merged.mean != q.mean).any(1).all() and (merged.mean == q.mean).any(1).all()


@pytest.mark.parametrize("offset", [-1e-9, 1e-9])
def test_a_latent_is_shared_if_its_divergence_is_below_half_way(offset):
    """The decision itself: of three latents the middle one is a hair below or above the threshold."""
    divergences = torch.tensor([0.0, 0.5 + offset, 1.0], dtype=torch.float64)
    apart = (2 * divergences).sqrt()  # with unit variances the divergence is half the squared distance of the means
    q = DiagonalQ(torch.stack((torch.zeros_like(apart), apart)), torch.zeros(2, 3, dtype=torch.float64))
    merged = ada().merge(q).mean
    assert (merged[0] == merged[1]).tolist() == [True, offset < 0, False]


def test_a_product_is_the_product_of_the_densities():
    q = posterior(pairs=1, latents=1)  # with one latent nothing is below the threshold: merge by hand
    from untwine.objective.pairing import _product

    first, second = (DiagonalQ(q.mean[i : i + 1], q.log_variance[i : i + 1]) for i in (0, 1))
    mean, log_variance = _product(first, second)
    z = torch.linspace(-3, 3, 7, dtype=torch.float64)[:, None]
    product = first.log_prob(z) + second.log_prob(z)
    ratio = product - DiagonalQ(mean, log_variance).log_prob(z)
    assert torch.allclose(ratio, ratio[:1].expand(7))  # equal up to normalisation


def test_the_order_within_a_pair_does_not_matter_to_the_symmetric_distance():
    q = posterior()
    merged = ada().merge(q)
    swapped = ada().merge(DiagonalQ(q.mean.roll(50, 0), q.log_variance.roll(50, 0)))
    assert torch.allclose(merged.mean, swapped.mean.roll(50, 0))


def test_equal_posteriors_stay_as_they_are():
    q = posterior(pairs=5)
    same = DiagonalQ(q.mean[:5].repeat(2, 1), q.log_variance[:5].repeat(2, 1))
    for average in ("moments", "product"):
        assert torch.allclose(ada(average).merge(same).mean, same.mean)


def test_gradients_reach_both_examples():
    q = posterior(pairs=3)
    mean = q.mean.clone().requires_grad_()
    ada().merge(DiagonalQ(mean, q.log_variance)).mean[:3].sum().backward()
    assert (mean.grad[3:] != 0).any(1).all()  # the partner's mean is in the average


def test_it_maps_over_members():
    q = posterior(pairs=4)
    means, logs = torch.stack([q.mean, 2 * q.mean]), torch.stack([q.log_variance, q.log_variance - 1])
    together = torch.func.vmap(lambda m, v: ada().merge(DiagonalQ(m, v)).mean)(means, logs)
    assert all(torch.allclose(together[i], ada().merge(DiagonalQ(means[i], logs[i])).mean) for i in range(2))


def test_a_full_covariance_is_refused():
    with pytest.raises(UntwineError, match="diagonal"):
        ada().merge(full_normal.build(torch.zeros(4, full_normal.width(2))))


@pytest.mark.parametrize("arguments", [{"average": "mean"}, {"distance": "l2"}, {"differing": 0}], ids=str)
def test_bad_arguments(arguments):
    with pytest.raises(UntwineError):
        ada(**arguments)
