"""ONNX files compute what the models compute, say what they are, and say what is missing."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import untwine as uw
from untwine.sharing import onnx_files
from untwine.sharing.modules import EncoderModule

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def trained(method: Any = "beta_vae", **changes: Any) -> uw.Ensemble:
    """Two members that have taken two steps, on colour images of 16 by 16."""
    images = np.random.default_rng(1).integers(0, 255, (12, 16, 16, 3), np.uint8)
    settings = {"network": uw.networks.conv(channels=(4, 4), hidden=8), "latents": 3, "seeds": [0, 1], "steps": 2}
    return uw.fit(uw.Run(method=method, dataset=uw.datasets.images(images), **(settings | changes)))


def outputs(path: str, **inputs: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(path).run(None, inputs)


def test_files_compute_what_the_ensemble_computes(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """By the ensemble's own functions, which go through stacked weights, and standardise images themselves.

    A full posterior has its variances from a matrix that is filled entry by entry.
    """
    ensemble = trained(uw.methods.vae(posterior="full_normal", likelihood="squared_error"), standardise=True)
    exported = uw.export_onnx(ensemble, tmp_path, members="seed-1")
    assert [(one["member"], sorted(one)) for one in exported] == [
        ("seed-1", ["decoder", "difference", "encoder", "member"])
    ]
    assert capfd.readouterr() == ("", "")  # the exporter's own reports are silenced
    x = np.random.default_rng(2).random((7, 3, 16, 16), np.float32)
    mean, log_variance = outputs(exported[0]["encoder"], x=x)
    np.testing.assert_allclose(mean, ensemble.encode(x)[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.exp(log_variance), ensemble.variances(x)[1], rtol=1e-4, atol=1e-5)
    [decoded] = outputs(exported[0]["decoder"], z=mean)
    np.testing.assert_allclose(decoded, ensemble.decode(mean)[1], rtol=1e-4, atol=1e-5)
    session = onnxruntime.InferenceSession(exported[0]["encoder"])
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["latents"]) == ["z0", "z1", "z2"] and json.loads(about["shape"]) == [3, 16, 16]
    assert json.loads(about["value_range"]) == [0.0, 1.0] and about["member"] == "seed-1"
    assert session.get_inputs()[0].shape[1:] == [3, 16, 16] and isinstance(session.get_inputs()[0].shape[0], str)


@pytest.mark.parametrize("posterior", ["full_normal", "isotropic_normal", "deterministic"])
def test_the_encoder_gives_the_posterior(posterior: str):
    ensemble = trained(uw.methods.beta_vae(posterior=posterior) if posterior != "deterministic" else "ae", seeds=[0])
    x = np.random.default_rng(2).random((4, 3, 16, 16), np.float32)
    with torch.no_grad():
        mean, *rest = EncoderModule(ensemble.member(0))(torch.from_numpy(x))
    np.testing.assert_allclose(mean, ensemble.encode(x)[0], rtol=1e-4, atol=1e-5)
    assert len(rest) == (posterior != "deterministic")
    for log_variance in rest:
        expected = torch.diagonal(ensemble.posteriors(x)[0].covariance(), dim1=-2, dim2=-1).log()
        np.testing.assert_allclose(log_variance, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shift", [0.0, 0.01])
def test_a_file_that_differs_is_refused(shift: float):
    """A file that shifts its input, made without torch, against a module that does not."""
    onnx = pytest.importorskip("onnx")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 3]) for name in "zx"]
    offset = onnx.helper.make_tensor("offset", onnx.TensorProto.FLOAT, [1], [shift])
    nodes = [onnx.helper.make_node("Add", ["z", "offset"], ["x"])]
    graph = onnx.helper.make_graph(nodes, "shifted", values[:1], values[1:], [offset])
    opset = [onnx.helper.make_opsetid("", 18)]
    content = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    given = content, nn.Identity(), torch.randn(5, 3), "z", "the decoder of seed-0"
    if not shift:
        assert onnx_files._difference(*given) == 0.0
        return
    with pytest.raises(uw.UntwineError, match=r"the decoder of seed-0 differs by 0\.01 from torch"):
        onnx_files._difference(*given)


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ensemble = trained(seeds=[0])
    with pytest.raises(uw.UntwineError, match="say where to write"):
        uw.export_onnx(ensemble)
    with pytest.raises(uw.UntwineError, match="unknown member 'seed-2'; did you mean 'seed-0'"):
        uw.export_onnx(ensemble, tmp_path, ["seed-2"])
    found = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnxscript":
            raise ImportError(name)
        return found(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "onnxscript", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(uw.UntwineError, match=r"pip install 'untwine\[onnx\]'"):
        uw.export_onnx(ensemble, tmp_path)
