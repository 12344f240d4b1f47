"""The CUDA kernels on a CPU: compiled as C++, with the threads of a block as coroutines (`cuda_emulator.h`)."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from untwine.kernels.cuda_compiler import to_ctypes

COMPILER = shutil.which("g++")
HERE = Path(__file__).parent
_FOLDER = tempfile.TemporaryDirectory()


class Emulated:
    """A kernel with the interface of `cuda_compiler.Kernel`."""

    def __init__(self, name: str, macros: tuple[tuple[str, int], ...], shared: int):
        assert COMPILER is not None
        assert shared <= 232_448, "more shared memory than a block can have"
        folder = Path(tempfile.mkdtemp(dir=_FOLDER.name))
        sources = files("untwine.kernels") / "cuda"
        texts = [(sources / file).read_text() for file in ("common.cuh", "epilogue.cuh", f"{name}.cu")]
        entry = f'extern "C" void run(int x, int y, int count, void** args) {{ launch({name}, args, x, y, count); }}\n'
        (folder / "kernel.cpp").write_text("\n".join([*texts, entry]))
        flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{HERE}", "-DEMULATED"]
        sizes = [f"-D{key}={value}" for key, value in macros]
        command = [COMPILER, *flags, *sizes, str(folder / "kernel.cpp"), "-o", str(folder / "kernel.so")]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self.library = ctypes.CDLL(str(folder / "kernel.so"))

    def __call__(self, grid: tuple[int, int], threads: int, *arguments: Any) -> None:
        values = [to_ctypes(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
        self.library.run(grid[0], grid[1], threads, pointers)


@functools.cache
def kernel(name: str, macros: tuple[tuple[str, int], ...], shared: int, device: int) -> Emulated:
    return Emulated(name, macros, shared)


def bits(mask: torch.Tensor) -> torch.Tensor:
    """Where a mask is positive, a bit for each channel."""
    weights = 2 ** torch.arange(8, dtype=torch.int32)
    return ((mask > 0).unflatten(-1, (-1, 8)).to(torch.int32) * weights).sum(-1).to(torch.uint8)
