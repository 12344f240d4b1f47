"""What a model takes for its examples, and what it says of others."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.inputs import SLACK, as_examples

IMAGES, VECTORS = Info(latents=2, shape=(1, 4, 4)), Info(latents=2, shape=(3,))
STANDARD = Info(latents=2, shape=(1, 4, 4), standard=((0.1,), (0.2,)))
PIXELS = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4) * 8


@pytest.mark.parametrize("info", [IMAGES, STANDARD])
@pytest.mark.parametrize(
    "images",
    [
        PIXELS,
        PIXELS[:, :, ::-1],
        torch.from_numpy(PIXELS),
        PIXELS / 255,
        (PIXELS / 255).astype(np.float32),
        (PIXELS / 255).astype(np.float16),
        (torch.from_numpy(PIXELS) / 255).bfloat16(),
        (PIXELS / 255).tolist(),
        PIXELS > 100,
        PIXELS * 0,
        np.full((2, 1, 4, 4), 1 + SLACK / 2),
        np.full((2, 1, 4, 4), -1e-6),
    ],
)
def test_images_in_the_range_of_training_are_taken_as_they_are(images, info):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        taken = as_examples(images, info)
    expected = images if isinstance(images, torch.Tensor) else torch.tensor(np.array(images))
    assert taken.dtype == expected.dtype and torch.equal(taken, expected)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (PIXELS.astype(np.float32), r"float32 from 0 to 248, .* trained on images in \[0, 1\]: divide them by 255, or"),
        (PIXELS.astype(np.int64), r"int64 from 0 to 248; .* uint8 from 0 to 255, .*use x\.astype\(np\.uint8\)"),
        (PIXELS.astype(np.uint16), "uint16 from 0 to 248; this model takes images as uint8"),
        (PIXELS.astype(np.int8) * 0, "int8 from 0 to 0; this model takes images as uint8"),
        (PIXELS.tolist(), "int64 from 0 to 248; this model takes images as uint8"),
        (PIXELS / 127.5 - 1, r"float64 from -1 to 0\.945098, .*: map them to \[0, 1\], or clip them"),
        (PIXELS / 255 * 1.1, r"float64 from 0 to 1\.0698, .* clip them if they are reconstructions$"),
        (PIXELS * np.nan, "float64 from nan to nan, .*: remove or replace what is not finite"),
        (np.where(PIXELS == 8, np.inf, 0.5), r"float64 from 0\.5 to inf, .*: remove or replace what is not finite"),
        (PIXELS * 1j, "complex128; they must be real numbers"),
        (np.full((2, 1, 4, 4), "a"), "examples must be an array of numbers"),
        (np.full((2, 1, 4, 4), None), "examples must be an array of numbers"),
        ([[1, 2], [3]], "examples must be an array of numbers"),
        (PIXELS[:, 0], r"must have shape \[n, 1, 4, 4\], not \[2, 4, 4\]"),
        (PIXELS[:0], r"must have shape \[n, 1, 4, 4\], not \[0, 1, 4, 4\]"),
    ],
)
def test_other_images_are_refused_with_what_to_do(images, message):
    with pytest.raises(UntwineError, match=message):
        as_examples(images, IMAGES)


def test_a_model_that_standardises_says_so():
    standardised = (PIXELS / 255 - 0.1) / 0.2
    with pytest.raises(UntwineError, match=r"map them to .*; this model standardises images itself"):
        as_examples(standardised, STANDARD)


def test_black_and_white_in_uint8_is_doubted():
    with pytest.warns(UserWarning, match="uint8 images are 0 or 1, and 255 is white: .* multiply them by 255"):
        as_examples((PIXELS > 100).astype(np.uint8), IMAGES)


@pytest.mark.parametrize("vectors", [[[1, 2, 3]], np.array([[-1e6, 0.5, 300.0]]), torch.ones(2, 3, dtype=torch.int32)])
def test_vectors_may_be_any_numbers(vectors):
    expected = vectors if isinstance(vectors, torch.Tensor) else torch.tensor(np.array(vectors))
    assert torch.equal(as_examples(vectors, VECTORS), expected)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((2, 3), np.uint8), "uint8, but the model was trained on vectors of floats: give them as floats"),
        ([[1.0, np.inf, 0.0]], "float64 from 0 to inf; they must be finite"),
        (np.full((1, 3), np.nan, np.float32), "float32 from nan to nan; they must be finite"),
    ],
)
def test_what_no_vector_can_be_is_refused(vectors, message):
    with pytest.raises(UntwineError, match=message):
        as_examples(vectors, VECTORS)
