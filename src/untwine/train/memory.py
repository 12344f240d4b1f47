"""Memory that a training step frees and the next one needs again."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
from collections.abc import Iterator
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from malloc.h
_LARGEST = 32 << 20  # bytes: larger pieces are always the system's; glibc allows no more


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """A context in which freed memory stays with the process; afterwards it is returned to the system.

    glibc returns large pieces as soon as they are free. So every step of training on a CPU would get the same memory
    again page by page, each filled with zeros first: a quarter of its time. Other C libraries are left as they are. One
    setting of glibc stays: pieces of up to 32 MB come from its own memory from then on.
    """
    library = _glibc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGEST)
    library.mallopt(_TRIM_THRESHOLD, -1)  # never
    try:
        yield
    finally:
        library.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)  # to where glibc itself moves it when pieces are large
        library.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    """The C library if it is glibc, else None."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
