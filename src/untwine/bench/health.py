"""What `untwine doctor` says of a machine: versions, devices, data, extras, room, and a self-test."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import untwine as uw
from untwine._version import __version__
from untwine.errors import UntwineError, brief
from untwine.room import free_memory
from untwine.threads import usable_cores

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "matplotlib", "h5py", "tyro", "rich")

# What each extra is for, and the modules that it brings.
EXTRAS = {
    "explore": ("untwine explore", ("starlette", "uvicorn")),
    "onnx": ("untwine export --onnx", ("onnx", "onnxruntime", "onnxscript")),
    "hub": ("models on the Hugging Face hub", ("huggingface_hub",)),
    "ray": ("untwine sweep --engine ray", ("ray",)),
    "parquet": ("table.parquet of a sweep", ("pyarrow",)),
    "pandas": ("Scores.to_frame", ("pandas",)),
    "tensorboard": ("untwine train --tensorboard", ("tensorboard",)),
}
SELF_TEST_STEPS = 20


def versions() -> dict[str, str | None]:
    """The versions of untwine, Python and the packages that it needs; None for one that is missing."""
    found: dict[str, str | None] = {"untwine": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def devices() -> dict[str, Any]:
    """The processor, how threads work and wait on it, the GPUs, and the device that "auto" takes."""
    import torch

    from untwine.train.devices import pick_device

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "auto": str(pick_device()),
        "cores": usable_cores(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "waiting": os.environ.get("OMP_WAIT_POLICY"),
        "gpus": [
            {"name": gpu.name, "memory": gpu.total_memory, "capability": f"{gpu.major}.{gpu.minor}"} for gpu in gpus
        ],
        "mps": torch.backends.mps.is_available(),
    }


def data() -> dict[str, Any]:
    """The data folder, its free room, and which of the public datasets are in it."""
    from untwine.data.catalogue import DRAWN, PRESENT, YOURS, describe
    from untwine.data.files.places import can_write, folder, writable

    states = {name: describe(name)["state"] for name in uw.datasets.names()}
    public = {name: state == PRESENT for name, state in states.items() if state not in (DRAWN, YOURS)}
    return {
        "folder": str(folder()),
        "written_to": str(writable()) if can_write(writable()) else None,
        "free": free_disk(writable()),
        "present": [name for name, here in public.items() if here],
        "to_fetch": [name for name, here in public.items() if not here],
    }


def extras() -> list[dict[str, Any]]:
    """Each extra: what it is for, whether all its modules are here, and the command that adds it."""
    return [
        {
            "name": name,
            "for": purpose,
            "installed": all(importlib.util.find_spec(module) is not None for module in modules),
            "install": f"pip install 'untwine[{name}]'",
        }
        for name, (purpose, modules) in EXTRAS.items()
    ]


def room() -> dict[str, int | None]:
    """Bytes that are free: on the disk of this folder, and in memory."""
    return {"disk": free_disk(Path.cwd()), "memory": free_memory()}


def free_disk(folder: Path) -> int | None:
    """The bytes that are free on the disk of a folder, which need not exist yet."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return None


# --- the self-test ------------------------------------------------------------------------------------------


def self_test(device: str = "auto") -> dict[str, Any]:
    """Train a tiny model, stop it, resume it, load it, compare its bits, and score it: each with its verdict.

    Args:
        device: Where to train.
    """
    checks: list[dict[str, Any]] = []

    @contextmanager
    def check(name: str) -> Iterator[None]:
        """Note whether the block raised; after a failure the checks behind it are left out."""
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, UntwineError) else f"{type(error).__name__}: {brief(error)}"
            checks.append({"check": name, "passed": False, "why": why})
            raise _Stopped from None
        checks.append({"check": name, "passed": True, "why": None})

    began = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="untwine-doctor-") as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _examine(Path(place), device, check)
    except _Stopped:
        pass
    passed = all(entry["passed"] for entry in checks)
    return {"passed": passed, "seconds": round(time.perf_counter() - began, 2), "checks": checks}


class _Stopped(Exception):
    """A check failed, and those behind it need what it made."""


def _examine(place: Path, device: str, check: Any) -> None:
    run = uw.Run(
        method=uw.methods.jl1_vae(beta=0.01, gamma=0.01, anneal=10, likelihood="squared_error"),
        dataset=uw.datasets.synthetic_nonlinear(samples=200, seed=3),
        network=uw.networks.mlp(hidden=(12,), activation="tanh"),
        latents=3,
        seeds=(0, 1),
        steps=SELF_TEST_STEPS,
        batch_size=16,
        log_every=5,
    )
    with check(f"train {SELF_TEST_STEPS} steps on {device}"):
        trained = uw.fit(run, place / "run", device, progress=False, path="plain")
    with check("the same bits again, in memory"):
        again = uw.fit(run, None, device, progress=False, path="plain")
        _require(_bits(trained) == _bits(again), "two runs of the same seeds differ")
    with check("load what was saved, bit by bit"):
        loaded = uw.load(place / "run", device)
        _require(_bits(trained) == _bits(loaded), "the weights that were read are not those that were written")
    with check("score"):
        value = uw.evaluate(loaded, metrics=["mig"]).entries[0]["members"]["seed-0"]["value"]
        _require(0 <= value <= 1, f"MIG is {value}, not between 0 and 1")


def _require(true: bool, message: str) -> None:
    if not true:
        raise UntwineError(message)


def _bits(ensemble: Any) -> list[bytes]:
    """The bytes of all weights, member by member."""
    states = [ensemble.member(i).state_dict() for i in range(len(ensemble.members))]
    return [tensor.cpu().numpy().tobytes() for state in states for tensor in state.values()]
