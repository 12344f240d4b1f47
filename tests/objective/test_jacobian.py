"""The penalties on the Jacobian, and the parts of the reconstruction that it explains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untwine as uw
from untwine.errors import UntwineError
from untwine.kernels.layers import Linear
from untwine.model import jacobian as tangents
from untwine.model.info import Info
from untwine.model.networks import Network
from untwine.model.vae import VAE, create
from untwine.objective.core import Penalty
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.jacobian import _spread
from untwine.objective.penalties import (
    deterministic_reconstruction,
    flatness,
    jacobian,
    linearised_reconstruction,
    orthogonality,
    stochastic_reconstruction,
)
from untwine.parts import each, from_json, structure, to_json

INFO = Info(latents=4, shape=(6,))


def model(network: Network | None = None, likelihood=uw.likelihoods.bernoulli, posterior=uw.posteriors.diagonal_normal):
    network = network or uw.networks.mlp((7,), activation="softplus")
    return create(INFO, network, likelihood, posterior, uw.priors.standard_normal).double()


def batch(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 6, generator=generator).double()
    return x, torch.randn(count, 4, generator=generator).double()


def term(vae: VAE, penalty: Penalty, x: Tensor, eps: Tensor, **noise: Tensor) -> Tensor:
    named = {f"p/{key}": value for key, value in noise.items()}
    return evaluate(vae, at_step({"p": penalty}, 0), x, {"posterior": eps, **named})["p"]


def gradients(vae: VAE, value: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(value, list(vae.parameters()), allow_unused=True, materialize_grads=True))


def whole(vae: VAE, x: Tensor, eps: Tensor) -> Tensor:
    """The Jacobian of the mean image at the sampled z, by reverse mode."""
    z = vae.posterior(x).sample(eps)
    return torch.func.vmap(torch.func.jacrev(lambda v: vae.decode(v[None])[0]))(z)


# --- the norm ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [uw.likelihoods.bernoulli, uw.likelihoods.squared_error])
@pytest.mark.parametrize("p", [1, 2])
def test_the_norm_and_its_gradient(p, likelihood):
    """Sum over latents and pixels, mean over the batch (Eq. 3); through z to the encoder as well."""
    vae, (x, eps) = model(likelihood=likelihood), batch(3)
    value = term(vae, jacobian(p, through="both"), x, eps)
    expected = whole(vae, x, eps).abs().pow(p).sum() / 3
    assert torch.allclose(value, expected)
    found = gradients(vae, value)
    for ours, theirs in zip(found, gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)
    assert found[0].abs().max() > 1e-6


def test_the_default_holds_z_fixed():
    assert jacobian(1) == jacobian(1, through="decoder")
    vae, (x, eps) = model(), batch(3)
    both, decoder = (term(vae, jacobian(1, through=through), x, eps) for through in ("both", "decoder"))
    assert torch.allclose(both, decoder)
    names = [name for name, _ in vae.named_parameters()]
    grad_both, grad_decoder = gradients(vae, both), gradients(vae, decoder)
    for name, a, b in zip(names, grad_both, grad_decoder, strict=True):
        if name.startswith("encoder"):
            assert b.abs().max() == 0 < a.abs().max(), name
        else:
            assert torch.allclose(a, b) and a.abs().max() > 0, name


@pytest.mark.parametrize("images", [None, 0.5])
@pytest.mark.parametrize("activation", ["softplus", "relu"])
def test_what_holds_z_fixed_leaves_the_others_their_way_to_the_encoder(activation, images):
    """The loss of two such terms, the reconstruction and a term that reaches the encoder: each as if it were alone."""
    vae, (x, eps) = model(uw.networks.mlp((7, 5), activation=activation)), batch(4)
    held = 0.3 * jacobian(1, through="decoder") + 0.7 * jacobian(2, through="decoder", images=images)
    loss = evaluate(vae, at_step({"held": held, "other": 0.2 * flatness()}, 0), x, {"posterior": eps})["loss"]
    alone = evaluate(vae, at_step({"other": 0.2 * flatness()}, 0), x, {"posterior": eps})["loss"]
    z = vae.posterior(x).sample(eps).detach()
    columns = torch.func.vmap(torch.func.jacrev(lambda v: vae.decode(v[None])[0]))(z)
    squares = columns.square().sum((1, 2))[_spread(4, *(1, 1 if images is None else 2)) or slice(None)].mean()
    expected = alone + 0.3 * columns.abs().sum((1, 2)).mean() + 0.7 * squares
    assert torch.allclose(loss, expected)
    found = gradients(vae, loss)
    for ours, theirs in zip(found, gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)
    assert found[0].abs().max() > 1e-6


@pytest.mark.parametrize("through", ["both", "decoder"])
@pytest.mark.parametrize("p", [1, 2])
def test_the_finite_estimator(p, through):
    """One-sided differences, written out; its gradient too."""
    vae, (x, eps) = model(), batch(3)
    value = term(vae, jacobian(p, "finite", through=through, eps=1e-3), x, eps)
    z = vae.posterior(x).sample(eps)
    z = z.detach() if through == "decoder" else z
    steps = [(vae.decode(z + 1e-3 * torch.eye(4).double()[j]) - vae.decode(z)) / 1e-3 for j in range(4)]
    expected = sum(step.abs().pow(p).sum() for step in steps) / 3
    assert torch.allclose(value, expected)
    for ours, theirs in zip(gradients(vae, value), gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-9)
    assert abs(value.item() / term(vae, jacobian(p), x, eps).item() - 1) < 1e-2


@pytest.mark.parametrize("activation", ["softplus", "relu"])
@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize("images", [None, 0.5])
@pytest.mark.parametrize("through", ["both", "decoder"])
@pytest.mark.parametrize("p", [1, 2])
def test_the_central_estimator(p, through, images, columns, activation):
    """Differences around z, written out, in a loss with others; its gradient too."""
    vae, (x, noise) = model(uw.networks.mlp((7, 5), activation=activation)), batch(4)
    uniforms = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)).double()
    penalty = jacobian(p, "central", columns, through, 0.3, images)
    names = {"posterior": noise, "central/columns": uniforms}
    loss = evaluate(vae, at_step({"central": 0.7 * penalty, "other": 0.2 * flatness()}, 0), x, names)["loss"]
    z = vae.posterior(x).sample(noise)
    z = z.detach() if through == "decoder" else z
    norms = torch.zeros(4).double()
    chosen = uniforms.argsort(1)[:, : columns or 4].tolist()
    for place in range(4) if images is None else (0, 2):
        for latent in chosen[place]:
            half = 0.15 * torch.eye(4).double()[latent]
            column = (vae.decode(z[place : place + 1] + half) - vae.decode(z[place : place + 1] - half)) / 0.3
            norms[place] = norms[place] + column.abs().pow(p).sum() * 4 / (columns or 4)
    expected = 0.7 * norms.sum() * (1.0 if images is None else 2.0) / 4
    expected = expected + evaluate(vae, at_step({"other": 0.2 * flatness()}, 0), x, {"posterior": noise})["loss"]
    assert torch.allclose(loss, expected, rtol=1e-10)
    for ours, theirs in zip(gradients(vae, loss), gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_central_differences_have_passes_of_their_own():
    """Nothing is to be held fixed or kept for them in the pass of the reconstruction."""
    for through in ("both", "decoder"):
        needs = jacobian(1, "central", through=through).term.needs(INFO)
        assert needs.jacobian and not needs.fixed and not needs.differences


def test_chunks_do_not_change_the_penalty(monkeypatch):
    vae, (x, eps) = model(), batch(3)
    value = term(vae, jacobian(1), x, eps)
    expected = gradients(vae, value)
    monkeypatch.setattr(tangents, "CHUNK_BYTES", 1)
    again = term(vae, jacobian(1), x, eps)
    assert torch.allclose(value, again)
    for ours, theirs in zip(gradients(vae, again), expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


# --- sampled columns --------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("estimator", ["exact", "finite", "central"])
def test_sampled_columns_are_unbiased(p, columns, estimator):
    """The batch repeats its examples once for each order of four uniforms: its mean is the expectation."""
    vae, (x, eps) = model(), batch(2)
    orders = torch.tensor(list(itertools.permutations(range(4)))).double() / 4
    x24, eps24 = x.repeat_interleave(24, 0), eps.repeat_interleave(24, 0)
    value = term(vae, jacobian(p, estimator, columns), x24, eps24, columns=orders.repeat(2, 1))
    expected = term(vae, jacobian(p, estimator), x, eps)
    assert torch.allclose(value, expected)
    for ours, theirs in zip(gradients(vae, value), gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)
    if columns < 4:  # one draw alone is something else
        single = term(vae, jacobian(p, estimator, columns), x, eps, columns=orders[:2])
        assert abs(single / expected - 1) > 1e-3


def test_sampled_columns_are_d_over_k_times_the_chosen():
    vae, (x, eps) = model(), batch(2)
    uniforms = torch.tensor([[0.9, 0.1, 0.5, 0.2], [0.3, 0.4, 0.2, 0.8]]).double()
    value = term(vae, jacobian(1, columns=2), x, eps, columns=uniforms)
    norms = whole(vae, x, eps).abs().sum(1)  # [example, latent]
    assert value.item() == pytest.approx((norms[0, 1] + norms[0, 3] + norms[1, 2] + norms[1, 0]).item() * (4 / 2) / 2)


# --- sampled images ---------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["both", "decoder"])
@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize("estimator", ["exact", "finite", "central"])
@pytest.mark.parametrize("images", [0.2, 0.5, 0.75])
def test_sampled_images_are_unbiased(images, estimator, columns, through):
    """Over all orders of a batch of four, the mean of the estimates is the value on all images; of gradients too."""
    vae, (x, eps) = model(), batch(4)
    uniforms = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)).double()
    penalty = jacobian(1, estimator, columns, through, images=images)
    whole_noise = {} if columns is None else {"columns": uniforms}
    expected = term(vae, jacobian(1, estimator, columns, through), x, eps, **whole_noise)
    values = []
    for order in map(list, itertools.permutations(range(4))):
        noise = {} if columns is None else {"columns": uniforms[order]}
        values.append(term(vae, penalty, x[order], eps[order], **noise))
    assert max(values) - min(values) > 0.01 * expected  # one of them alone is something else
    value = torch.stack(values).mean()
    assert torch.allclose(value, expected)
    for ours, theirs in zip(gradients(vae, value), gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("p", [1, 2])
def test_sampled_images_and_their_gradient_by_brute_force(p):
    """Of nine images a third: the mean over the second, fifth and eighth; one column of four in each."""
    vae, (x, eps) = model(), batch(9)
    uniforms = torch.rand(9, 4, generator=torch.Generator().manual_seed(1)).double()
    value = term(vae, jacobian(p, columns=1, through="both", images=1 / 3), x, eps, columns=uniforms)
    norms = whole(vae, x, eps).abs().pow(p).sum(1)  # [example, latent]
    expected = sum(4 * norms[i, uniforms[i].argmin()] for i in (1, 4, 7)) / 3
    assert torch.allclose(value, expected)
    for ours, theirs in zip(gradients(vae, value), gradients(vae, expected), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("through", ["both", "decoder"])
@pytest.mark.parametrize("estimator", ["exact", "finite", "central"])
def test_tangents_pass_through_the_chosen_images_alone(estimator, through):
    """The others may be anything: a pass through them would show their NaN in the gradient of the weights."""
    vae, (x, eps) = model(), batch(8)
    value = term(vae, jacobian(1, estimator, through=through, images=0.25), x, eps)
    eps[[i for i in range(8) if i not in (1, 5)]] = torch.nan
    assert torch.allclose(term(vae, jacobian(1, estimator, through=through, images=0.25), x, eps), value)
    assert term(vae, jacobian(1, estimator, through=through), x, eps).isnan()


@pytest.mark.parametrize("count", range(1, 70))
def test_places_are_spread_over_both_halves(count):
    for images in (0.001, 0.1, 0.25, 0.3, 1 / 3, 0.5, 0.7, 0.99, 1.0):
        chosen = torch.arange(count)[_spread(count, *jacobian(images=images).term.images) or slice(None)].tolist()
        assert len(chosen) == max(1, int(np.ceil(count * images - 1e-9)))
        assert len({b - a for a, b in itertools.pairwise(chosen)}) <= 1
        halves = sum(place < count / 2 for place in chosen), sum(place >= count / 2 for place in chosen)
        assert abs(halves[0] - halves[1]) <= 1 or count % 2  # pairs are even in number


def test_all_images_is_the_default_and_a_share_is_structure():
    assert jacobian(1) == jacobian(1, images=1.0) == jacobian(1, images=1)
    quarter = jacobian(1, columns=1, images=0.25)
    assert quarter != jacobian(1, columns=1)
    assert from_json(to_json(quarter)) == quarter
    assert structure(to_json(quarter)) != structure(to_json(jacobian(1, columns=1, images=0.5)))  # never in one pack
    assert at_step({"p": quarter}, 0)["p"].term.images == (1, 4)


def test_steps_of_differences():
    """A number, one for each member, or a schedule; each comes back from JSON, as do penalties of old runs."""
    for eps in (0.1, [0.1, 0.2], each(0.1, 0.2), uw.ramp(0.1, 10, 1.0), uw.ramp([0.1, 0.2], 10, start=[1.0, 2.0])):
        penalty = jacobian(1, "finite", eps=eps)
        assert from_json(to_json(penalty)) == penalty
    assert jacobian(1, "finite", eps=[0.1, 0.2]).term.eps == each(0.1, 0.2)
    assert at_step({"p": jacobian(1, "finite", eps=uw.ramp(0.1, 10, 1.0))}, 5)["p"].term.eps == pytest.approx(0.55)
    old = to_json(jacobian(1))
    del old["term"]["eps"]
    assert from_json(old) == jacobian(1)


def test_differences_declare_that_they_need_the_pass():
    assert jacobian(1, "finite").term.needs(INFO).differences and not jacobian(1).term.needs(INFO).differences
    summed = 0.3 * jacobian(1) + 0.7 * jacobian(2, "finite")
    assert summed.term.needs(INFO).differences
    assert jacobian(1, "finite").term.needs(INFO).fixed == 1


def test_needs():
    assert jacobian(1).term.needs(INFO).noise == {}
    assert jacobian(1, columns=3).term.needs(INFO).noise == {"columns": ("uniform", (4,))}
    with pytest.raises(UntwineError, match="5 columns were asked for, but there are 4 latents"):
        jacobian(1, columns=5).term.needs(INFO)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 3}, "p of penalty 'jacobian' must be 1 or 2, not 3"),
        ({"estimator": "sampled"}, "must be 'exact', 'finite' or 'central', not 'sampled'"),
        ({"through": "encoder"}, "'decoder' or 'both', not 'encoder'"),
        ({"columns": 0}, "1 or more, not 0"),
        ({"images": 0.0}, "more than 0 and at most 1, not 0.0"),
        ({"images": 1.5}, "more than 0 and at most 1, not 1.5"),
        ({"images": 1e-9}, "a thousandth or more"),
        ({"eps": 0.0}, "eps of penalty 'jacobian' must be positive, not 0.0"),
        ({"eps": [0.1, -1.0]}, "eps of penalty 'jacobian' must be positive, not -1.0"),
        ({"eps": abs}, "a number was expected"),
        ({"eps": uw.ramp(0.1, 10)}, "eps of penalty 'jacobian' must stay positive, and .* begins or ends at 0: ramp"),
        ({"eps": uw.ramp(0.0, 10, start=0.1)}, "must stay positive, and .* begins or ends at 0"),
        ({"eps": uw.ramp([0.1, 0.2], 10, start=[0.3, -1.0])}, "must stay positive, and .* begins or ends at -1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UntwineError, match=message):
        jacobian(**arguments)


# --- precision and packs ----------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["exact", "finite", "central"])
def test_under_bfloat16_the_penalty_is_float32(estimator):
    vae, (x, eps) = model().float(), batch(3)
    x, eps = x.float(), eps.float()
    exact = term(vae, jacobian(1, estimator), x, eps)
    # Without oneDNN: its bfloat16 kernels are an illegal instruction where AMX is announced but not allowed.
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        terms = evaluate(vae, at_step({"p": jacobian(1, estimator)}, 0), x, {"posterior": eps})
    assert {value.dtype for value in terms.values()} == {torch.float32}
    assert terms["p"] != exact and terms["p"].item() == pytest.approx(exact.item(), rel=0.02)


# --- the parts of the reconstruction ----------------------------------------------------------------


def linear(seed: int = 0) -> Network:
    """An encoder for any posterior, and a linear decoder."""

    def build(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        return nn.Sequential(Linear(6, 5), nn.Tanh(), Linear(5, outputs)), nn.Sequential(Linear(4, 6))

    return Network({}, build)


@pytest.mark.parametrize("posterior", [uw.posteriors.diagonal_normal, uw.posteriors.full_normal])
def test_the_three_reconstructions(posterior):
    """rolinek2019, Eq. 13, one sample of Eq. 14, and Eq. 17 (S48 for a diagonal posterior)."""
    vae, (x, eps) = model(likelihood=uw.likelihoods.squared_error, posterior=posterior), batch(5)
    q = vae.posterior(x)
    at_mean, at_sample = vae.decode(q.mean), vae.decode(q.sample(eps))
    assert torch.allclose(term(vae, deterministic_reconstruction, x, eps), (at_mean - x).square().sum() / 5)
    assert torch.allclose(term(vae, stochastic_reconstruction, x, eps), (at_mean - at_sample).square().sum() / 5)
    columns = torch.func.vmap(torch.func.jacrev(lambda v: vae.decode(v[None])[0]))(q.mean)  # [batch, pixel, latent]
    factor = q.factor if hasattr(q, "factor") else torch.diag_embed(q.variance().sqrt())
    covariance = factor @ factor.mT
    expected = torch.einsum("bpi,bij,bpj->", columns, covariance, columns) / 5
    assert torch.allclose(term(vae, linearised_reconstruction, x, eps), expected)
    by_columns = (columns.square().sum(1) * q.variance()).sum() / 5
    assert torch.allclose(expected, by_columns) == (posterior is uw.posteriors.diagonal_normal)


@pytest.mark.parametrize("posterior", [uw.posteriors.diagonal_normal, uw.posteriors.full_normal])
def test_for_a_linear_decoder_the_linearised_part_is_the_mean_of_the_stochastic_one(posterior):
    """Noise at +-sqrt(d) e_j has the moments of a standard normal up to the third: its mean is exact here."""
    vae = model(linear(), uw.likelihoods.squared_error, posterior)
    x, _ = batch(3)
    corners = 2.0 * torch.cat((torch.eye(4), -torch.eye(4))).double()
    x8, eps = x.repeat_interleave(8, 0), corners.repeat(3, 1)
    total = evaluate(vae, {}, x8, {"posterior": eps})["loss"]
    deterministic, stochastic, linearised = (
        term(vae, penalty, x8, eps)
        for penalty in (deterministic_reconstruction, stochastic_reconstruction, linearised_reconstruction)
    )
    assert torch.allclose(stochastic, linearised)
    assert torch.allclose(total, deterministic + stochastic)  # Proposition 4


def test_a_point_has_no_stochastic_part():
    vae, (x, eps) = model(posterior=uw.posteriors.deterministic), batch(3)
    assert term(vae, stochastic_reconstruction, x, eps) == 0 == term(vae, linearised_reconstruction, x, eps)
    assert term(vae, deterministic_reconstruction, x, eps) > 0


# --- the angles and lengths of the columns ----------------------------------------------------------


def with_columns(matrix: Tensor) -> VAE:
    """A linear decoder with these columns."""
    vae = model(linear(), uw.likelihoods.squared_error)
    with torch.no_grad():
        vae.decoder[0].weight.copy_(matrix)
    return vae


@pytest.mark.parametrize("likelihood", [uw.likelihoods.bernoulli, uw.likelihoods.squared_error])
def test_orthogonality_and_flatness_by_definition(likelihood):
    vae, (x, eps) = model(likelihood=likelihood), batch(3)
    hadamard, flat = 0.0, 0.0
    for columns in whole(vae, x, eps).detach().numpy():  # [pixel, latent]
        gram = columns.T @ columns
        hadamard += np.log(np.linalg.norm(columns, axis=0)).sum() - 0.5 * np.log(np.linalg.det(gram))
        flat += np.linalg.norm(gram - 0.3 * np.eye(4)) ** 2
    assert term(vae, orthogonality(1e-12), x, eps).item() == pytest.approx(hadamard / 3, rel=1e-6)
    assert term(vae, orthogonality(), x, eps).item() == pytest.approx(hadamard / 3, rel=1e-2)
    assert term(vae, flatness(0.3), x, eps).item() == pytest.approx(flat / 3)


def test_orthogonality_is_zero_for_orthogonal_columns_alone_whatever_their_lengths():
    x, eps = batch(3)
    generator = torch.Generator().manual_seed(3)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=generator).double())[0][:, :4]
    lengths = torch.tensor([1.0, 1e-3, 50.0, 2.0]).double()
    value = lambda matrix: term(with_columns(matrix), orthogonality(), x, eps).item()
    assert value(rotation) == pytest.approx(0, abs=1e-12) == value(rotation * lengths)
    leaning = rotation + 0.3 * rotation.roll(1, 1)
    assert value(leaning) > 0.05
    assert value(leaning * lengths) == pytest.approx(value(leaning), rel=1e-9) == value(-leaning)
    assert value(leaning[:, [2, 0, 3, 1]]) == pytest.approx(value(leaning))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_columns_of_zeros_and_parallel_ones_are_harmless(dtype):
    x, eps = (one.to(dtype) for one in batch(3))
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(6, 4, generator=generator).double()
    three = -0.5 * torch.logdet(torch.corrcoef(torch.cat((matrix, -matrix))[:, :3].T)).item()  # cosines
    for last, expected in ((0.0, three), (1e-30, None), (matrix[:, 0], None)):
        changed = matrix.clone()
        changed[:, 3] = last
        vae = with_columns(changed).to(dtype)
        value = term(vae, orthogonality(), x, eps)
        slopes = torch.autograd.grad(value, vae.decoder[0].weight)[0]
        assert value.isfinite() and slopes.isfinite().all()
        if expected is not None:
            assert value.item() == pytest.approx(expected, rel=1e-4) and (slopes[:, 3] == 0).all()
    vae = with_columns(torch.zeros(6, 4)).to(dtype)
    assert term(vae, orthogonality(), x, eps) == 0 and term(vae, flatness(2.0), x, eps) == 16
    with torch.no_grad():  # a member that diverged must not stop its pack
        vae.decoder[0].weight.fill_(torch.nan)
    assert term(vae, orthogonality(), x, eps).isnan()


def test_flatness_is_zero_for_scaled_isometries():
    x, eps = batch(3)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(3)).double())[0][:, :4]
    vae = with_columns(1.5 * rotation)
    assert term(vae, flatness(1.5**2), x, eps).item() == pytest.approx(0, abs=1e-20)
    assert term(vae, flatness(), x, eps).item() == pytest.approx(4 * (1.5**2 - 1) ** 2)
    assert flatness([1.0, 2.0]) == flatness(each(1, 2))


@pytest.mark.parametrize("penalty", [orthogonality(1e-4), flatness(0.3)], ids=["orthogonality", "flatness"])
def test_gradients_against_finite_differences(penalty):
    """In float64, of all parameters: also through z to the encoder."""
    vae, (x, eps) = model(), batch(3)
    slopes = torch.cat([g.flatten() for g in gradients(vae, term(vae, penalty, x, eps))])
    start = torch.nn.utils.parameters_to_vector(vae.parameters()).detach()
    for seed in range(4):
        direction = torch.randn(len(start), generator=torch.Generator().manual_seed(seed)).double()
        ends = []
        for step in (1e-6, -1e-6):
            torch.nn.utils.vector_to_parameters(start + step * direction, vae.parameters())
            ends.append(term(vae, penalty, x, eps).item())
        torch.nn.utils.vector_to_parameters(start, vae.parameters())
        assert (slopes @ direction).item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
    assert slopes[: sum(p.numel() for p in vae.encoder.parameters())].abs().max() > 1e-8


@pytest.mark.parametrize("penalty", [orthogonality(), flatness(0.3)], ids=["orthogonality", "flatness"])
def test_columns_of_members_under_vmap(penalty):
    vae, (x, eps) = model(), batch(6)
    x, eps = x.unflatten(0, (2, 3)), eps.unflatten(0, (2, 3))
    together = torch.func.vmap(lambda x, eps: term(vae, penalty, x, eps))(x, eps)
    alone = torch.stack([term(vae, penalty, x[i], eps[i]) for i in range(2)])
    assert torch.allclose(together, alone)
    for ours, theirs in zip(gradients(vae, together.sum()), gradients(vae, alone.sum()), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)
    assert penalty.term.needs(INFO).jacobian


def test_eps_of_orthogonality_is_positive():
    with pytest.raises(UntwineError, match=r"eps of penalty 'orthogonality' must be positive, not 0"):
        orthogonality(0.0)
