"""CUDA source, compiled by NVRTC (which comes with torch) and launched through the driver: no compiler is needed."""

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
    """NVRTC and the driver."""
    major = (torch.version.cuda or "0").partition(".")[0]
    for name in (f"libnvrtc.so.{major}", "libnvrtc.so"):
        try:
            return ctypes.CDLL(name), ctypes.CDLL("libcuda.so.1")
        except OSError:
            continue
    raise UntwineError("NVRTC, the compiler of CUDA that comes with torch, was not found")


def _checked(result: int, what: str) -> None:
    if result:
        raise UntwineError(f"{what} failed with CUDA's error {result}")


def _compiled(source: bytes, options: Sequence[str]) -> bytes:
    nvrtc, _ = libraries()
    program = ctypes.c_void_p()
    _checked(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"untwine.cu", 0, None, None), "NVRTC")
    listed = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), listed)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise UntwineError(f"a CUDA kernel could not be compiled: {log.value.decode()}")
    _checked(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "NVRTC")
    binary = ctypes.create_string_buffer(size.value)
    _checked(nvrtc.nvrtcGetCUBIN(program, binary), "NVRTC")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


class Kernel:
    """The kernel of a CUDA file, with its sizes as macros."""

    def __init__(self, name: str, macros: Mapping[str, int], shared: int, device: int):
        source = b"".join(files("untwine.kernels").joinpath(file).read_bytes() for file in ("common.cuh", f"{name}.cu"))
        major, minor = torch.cuda.get_device_capability(device)
        options = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17", "--use_fast_math"]
        binary = _compiled(source, [*options, *(f"-D{key}={value}" for key, value in macros.items())])
        self.driver, self.shared, self.binary = libraries()[1], shared, binary
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        _checked(self.driver.cuModuleLoadData(ctypes.byref(module), binary), "loading a kernel")
        _checked(
            self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, name.encode()), "finding a kernel"
        )
        most = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _checked(self.driver.cuFuncSetAttribute(self.function, most, shared), "asking for shared memory")

    def __call__(self, grid: tuple[int, int], threads: int, *arguments: Any) -> None:
        """Launch on the current stream. Tensors go as pointers, none as null, `wide` numbers as 64 bits."""
        held = [_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in held))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launched = self.driver.cuLaunchKernel(
            self.function, grid[0], grid[1], 1, threads, 1, 1, self.shared, stream, pointers, None
        )
        _checked(launched, "a launch")


class Wide(int):
    """A number that a kernel takes as 64 bits."""


def _argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_longlong(value) if isinstance(value, Wide) else ctypes.c_int(value)


@functools.cache
def kernel(name: str, macros: tuple[tuple[str, int], ...], shared: int, device: int) -> Kernel:
    return Kernel(name, dict(macros), shared, device)
