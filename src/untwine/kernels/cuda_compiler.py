"""Compiles CUDA source with NVRTC (which comes with torch) and launches it through the driver: nvcc is not needed."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from untwine.errors import UntwineError


@functools.cache
def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The libraries of NVRTC and of the CUDA driver."""
    major = (torch.version.cuda or "0").partition(".")[0]
    for name in (f"libnvrtc.so.{major}", "libnvrtc.so"):
        try:
            return ctypes.CDLL(name), ctypes.CDLL("libcuda.so.1")
        except OSError:
            continue
    raise UntwineError("NVRTC, the CUDA compiler that comes with torch, was not found")


def _check_result(result: int, action: str) -> None:
    if result:
        raise UntwineError(f"{action} failed with CUDA's error {result}")


def _compile(source: bytes, options: Sequence[str]) -> bytes:
    """The binary of a CUDA source."""
    nvrtc, _ = libraries()
    program = ctypes.c_void_p()
    _check_result(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"untwine.cu", 0, None, None), "NVRTC")
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise UntwineError(f"a CUDA kernel could not be compiled: {log.value.decode()}")
    _check_result(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "NVRTC")
    binary = ctypes.create_string_buffer(size.value)
    _check_result(nvrtc.nvrtcGetCUBIN(program, binary), "NVRTC")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


class Kernel:
    """The kernel of a CUDA file, compiled for a device.

    Args:
        name: The name of the kernel and of its file.
        macros: Sizes and flags that are compiled into it.
        shared: Bytes of shared memory of a block.
        device: The number of the GPU.
    """

    def __init__(self, name: str, macros: Mapping[str, int], shared: int, device: int):
        folder = files("untwine.kernels") / "cuda"
        source = b"".join((folder / file).read_bytes() for file in ("common.cuh", "epilogue.cuh", f"{name}.cu"))
        major, minor = torch.cuda.get_device_capability(device)
        options = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17", "--use_fast_math"]
        binary = _compile(source, [*options, *(f"-D{key}={value}" for key, value in macros.items())])
        self.driver = libraries()[1]
        self.shared, self.binary = shared, binary
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        _check_result(self.driver.cuModuleLoadData(ctypes.byref(module), binary), "loading a kernel")
        _check_result(
            self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, name.encode()), "finding a kernel"
        )
        max_shared = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _check_result(self.driver.cuFuncSetAttribute(self.function, max_shared, shared), "asking for shared memory")

    def __call__(self, grid: tuple[int, int], threads: int, *arguments: Any) -> None:
        """Launch the kernel on the current stream.

        Args:
            grid: Blocks in both directions.
            threads: Threads of a block.
            arguments: Tensors are passed as pointers, None as a null pointer, a `LongLong` as 64 bits.
        """
        values = [to_ctypes(argument) for argument in arguments]  # must live until the launch
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launched = self.driver.cuLaunchKernel(
            self.function, grid[0], grid[1], 1, threads, 1, 1, self.shared, stream, pointers, None
        )
        _check_result(launched, "launching a kernel")


class LongLong(int):
    """A number that a kernel takes as 64 bits."""


def to_ctypes(value: Any) -> Any:
    """An argument of a kernel as the C type that the kernel takes."""
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_longlong(value) if isinstance(value, LongLong) else ctypes.c_int(value)


@functools.cache
def kernel(name: str, macros: tuple[tuple[str, int], ...], shared: int, device: int) -> Kernel:
    """A compiled kernel, from a cache; arguments as for `Kernel`."""
    return Kernel(name, dict(macros), shared, device)
