"""Trained models as ONNX files, which run without Python: an encoder and a decoder for each member."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from untwine import files
from untwine._version import __version__
from untwine.arguments import checked
from untwine.errors import UntwineError, brief, refuse_unknown
from untwine.sharing.modules import DecoderModule, EncoderModule
from untwine.train.ensemble import Ensemble
from untwine.train.folders.names import file_stem
from untwine.train.loading import load

TOLERANCE = 1e-4  # of the largest output: float32 sums in another order differ by far less, a wrong graph by far more
_INSTALL = "ONNX files need further packages: pip install 'untwine[onnx]'"
_CHECKED = (1, 5)  # numbers of examples on which a file is compared with torch; the graph is traced with two


@checked("run")
def export_onnx(
    run: str | Path | Ensemble, out: str | Path | None = None, members: str | Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Write an encoder and a decoder for each member as ONNX files, and compare their outputs with torch's.

    The encoder takes `x` (float32 `[batch, *shape]`, images in [0, 1]) and gives `mean` and `log_variance`, each
    `[batch, latents]`; a deterministic one gives `mean` alone. The decoder takes `z` and gives `x`. Batches may have
    any size. A run's own standardisation of images is part of both. The metadata of a file says what it is.

    Args:
        run: A run's folder, or trained members.
        out: The folder of the files; None takes `onnx` in the run's folder.
        members: Names of members, such as "seed-0"; none exports all.

    Returns:
        For each member its name, the paths of its files, and the largest difference from torch.
    """
    _refuse_missing_packages()
    ensemble = run if isinstance(run, Ensemble) else load(run, "cpu")
    if out is None and ensemble.path is None:
        raise UntwineError("these members have no folder: say where to write, with out=")
    folder = Path(out) if out is not None else Path(ensemble.path or "") / "onnx"
    files.refuse_place(folder, folder=True)
    names = [member.name for member in ensemble.members]
    wanted = [members] if isinstance(members, str) else list(members)
    refuse_unknown("member", wanted, names)
    return [_export_member(ensemble, names.index(name), folder) for name in wanted or names]


def _refuse_missing_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UntwineError(_INSTALL) from None


def _export_member(ensemble: Ensemble, i: int, folder: Path) -> dict[str, Any]:
    """Write and check the two files of the i-th member."""
    name, model = ensemble.members[i].name, ensemble.member(i).cpu().eval()
    encoder, decoder = EncoderModule(model).eval(), DecoderModule(model).eval()
    codes = torch.from_numpy(np.random.default_rng(0).standard_normal((max(_CHECKED), ensemble.info.latents))).float()
    with torch.no_grad():
        examples = decoder(codes)
    about = _metadata(ensemble, i)
    outputs = ["mean", "log_variance"][: 1 + encoder.has_variance]
    halves = {"encoder": (encoder, examples, "x", outputs), "decoder": (decoder, codes, "z", ["x"])}
    exported: dict[str, Any] = {"member": name}
    differences = []
    for half, (module, inputs, given, outputs) in halves.items():
        content = _onnx_bytes(module, inputs[:2], given, outputs, about | {"half": half})
        differences.append(_difference(content, module, inputs, given, f"the {half} of {name}"))
        path = folder / f"{file_stem(name)}-{half}.onnx"
        files.write(path, content)
        exported[half] = str(path)
    return exported | {"difference": max(differences)}


def _metadata(ensemble: Ensemble, i: int) -> dict[str, str]:
    """What a file says of itself, by key: texts, or JSON."""
    member, info = ensemble.members[i], ensemble.info
    image = len(info.shape) == 3
    about: dict[str, Any] = {
        "latents": [f"z{latent}" for latent in range(info.latents)],
        "shape": list(info.shape),
        "axes": ["channels", "height", "width"] if image else ["values"],
        "value_range": [0.0, 1.0] if image else None,
        "method": member.spec["method"].get("name"),
        "dataset": member.spec["dataset"]["name"],
    }
    texts = {key: json.dumps(value) for key, value in about.items()}
    return {**texts, "member": member.name, "member_id": member.id, "untwine": __version__}


def _onnx_bytes(module: nn.Module, inputs: Tensor, given: str, outputs: list[str], about: dict[str, str]) -> bytes:
    """A module as the content of an ONNX file, for batches of any size.

    Args:
        module: The module, with one tensor as its input.
        inputs: A batch with which its operations are traced.
        given: The name of the input.
        outputs: The names of the outputs.
        about: The metadata.
    """
    try:
        with _quiet(), torch.no_grad():
            program: Any = torch.onnx.export(
                module,
                (inputs,),
                dynamo=True,
                verbose=False,
                input_names=[given],
                output_names=outputs,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
            )
            proto = program.model_proto
    except Exception as error:  # whatever torch cannot translate in a network of the user's
        raise UntwineError(f"torch cannot write this network as ONNX: {brief(error)}") from error
    for key, value in about.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    return proto.SerializeToString()


def _difference(content: bytes, module: nn.Module, inputs: Tensor, given: str, what: str) -> float:
    """The largest difference between a file's outputs and torch's, refused where it is not one of rounding.

    Args:
        content: The content of the file.
        module: The module that it was made from.
        inputs: A batch, of which the first examples are tried.
        given: The name of the input.
        what: What the file is, for the error.
    """
    import onnxruntime

    session: Any = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    largest = 0.0
    for count in _CHECKED:
        with torch.no_grad():
            outputs = module(inputs[:count])
        expected = outputs if isinstance(outputs, tuple) else (outputs,)
        for wanted, found in zip(expected, session.run(None, {given: inputs[:count].numpy()}), strict=True):
            difference = float(np.abs(wanted.numpy() - found).max()) if wanted.shape == found.shape else float("inf")
            if not difference <= TOLERANCE * max(1.0, float(wanted.abs().max())):
                raise UntwineError(
                    f"{what} differs by {difference:.2g} from torch as an ONNX file; nothing was written"
                )
            largest = max(largest, difference)
    return largest


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context without the exporter's reports about itself, which are of no use to a user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
