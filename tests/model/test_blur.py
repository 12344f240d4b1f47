"""The blur against direct convolution and against the FFT."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage, signal

from untwine.errors import UntwineError
from untwine.model.blur import KERNELS, Blur

SIZES = [(1, 1, 7, 5, 0), (2, 1, 7, 5, 1), (2, 3, 8, 8, 3), (1, 2, 9, 6, 4), (1, 2, 6, 4, 6), (1, 1, 5, 5, 20)]


def images(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def taps(kernel: str, radius: int) -> np.ndarray:
    if kernel == "box" or radius == 0:
        return np.full(2 * radius + 1, 1 / (2 * radius + 1))
    window = signal.windows.gaussian(2 * radius + 1, radius / 2)
    return window / window.sum()


@pytest.fixture
def exact():
    """Modules are made in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_direct_convolution_with_zeros_around(kernel, size, exact):
    *shape, radius = size
    x = images(*shape)
    found = Blur(*shape[2:], radius, kernel)(x).numpy()
    one = taps(kernel, radius)
    for image, blurred in zip(x.numpy().reshape(-1, *shape[2:]), found.reshape(-1, *shape[2:]), strict=True):
        direct = signal.convolve2d(image, np.outer(one, one))  # all of it, then the part where the image was
        part = direct[radius : radius + shape[2], radius : radius + shape[3]]
        assert np.allclose(blurred, part, rtol=0, atol=1e-13)
        lines = ndimage.convolve1d(ndimage.convolve1d(image, one, 0, mode="constant"), one, 1, mode="constant")
        assert np.allclose(blurred, lines, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_fft_of_the_paper(kernel):
    """At michlo2023's size; what wraps around lands outside of the crop if a radius of zeros is added."""
    radius, side = 31, 64 + 31 + 1
    one = np.zeros(side)
    one[np.arange(-radius, radius + 1)] = taps(kernel, radius)
    x = images(2, 3, 64, 64)
    spectrum = np.fft.rfft2(x.numpy(), s=(side, side)) * np.fft.rfft2(np.outer(one, one))
    expected = np.fft.irfft2(spectrum, s=(side, side))[..., :64, :64]
    assert np.allclose(Blur(64, 64, radius, kernel).double()(x).numpy(), expected, rtol=0, atol=1e-7)
    assert np.allclose(Blur(64, 64, radius, kernel)(x.float()).numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernel_sums_to_one(kernel, exact):
    flat = Blur(12, 11, 3, kernel)(torch.ones(1, 2, 12, 11))
    assert torch.allclose(flat[..., 3:-3, 3:-3], torch.ones(()))
    assert (flat[..., 0, :] < 1).all() and (flat[..., -1] < 1).all()  # zeros around
    point = torch.zeros(1, 1, 15, 15)
    point[..., 7, 7] = 1
    seen = Blur(15, 15, 3, kernel)(point)[0, 0]
    assert torch.allclose(seen.sum(), torch.ones(())) and (seen > 0).sum() == 49
    assert torch.allclose(seen, seen.T) and torch.allclose(seen, seen.flip(0))


def test_the_kernels_differ_as_they_should(exact):
    point = torch.zeros(1, 1, 13, 13)
    point[..., 6, 6] = 1
    box, gaussian = (Blur(13, 13, 4, kernel)(point)[0, 0, 6] for kernel in ("box", "gaussian"))
    assert torch.allclose(box[2:11], torch.tensor(1 / 81)) and box[:2].sum() == 0
    ratios = gaussian[6:11] / gaussian[6]
    assert torch.allclose(ratios, torch.tensor([np.exp(-0.5 * (k / 2) ** 2) for k in range(5)]))
    assert (gaussian[[0, 1, 11, 12]] == 0).all()  # cut at the radius


def test_a_radius_of_0_is_no_blur():
    x = images(2, 1, 4, 5).float()
    for kernel in KERNELS:
        assert torch.equal(Blur(4, 5, 0, kernel)(x), x)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients(kernel):
    blur = Blur(4, 5, 2, kernel).double()
    x = images(2, 2, 4, 5).requires_grad_()
    assert torch.autograd.gradcheck(blur, x) and torch.autograd.gradgradcheck(blur, x)
    assert torch.autograd.gradcheck(lambda v: blur(v).square().sum(), x, check_forward_ad=True)


def test_vmap_is_a_loop():
    blur = Blur(4, 5, 2).double()
    x = images(3, 2, 2, 4, 5)
    assert torch.allclose(torch.func.vmap(blur)(x), torch.stack([blur(one) for one in x]))
    assert torch.allclose(blur(x), torch.stack([blur(one) for one in x]))

    def slope(v: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda v: blur(v).pow(3).sum())(v)

    assert torch.allclose(torch.func.vmap(slope)(x), torch.stack([slope(one) for one in x]))


def test_types():
    x, blur = images(1, 1, 6, 6), Blur(6, 6, 2)
    assert blur(x).dtype == torch.float64  # nothing is rounded to the module's type
    assert blur(x.float()).dtype == blur(x.bfloat16()).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(blur(x.float()), blur.float()(x.float())) and blur(x.float()).dtype == torch.float32
    assert blur.double().rows.dtype == torch.float64 and not blur.state_dict()


def test_an_unknown_kernel():
    with pytest.raises(UntwineError, match="unknown kernel 'gausian'; did you mean 'gaussian'"):
        Blur(4, 4, 1, "gausian")
