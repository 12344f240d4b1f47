"""Help without PyTorch, which takes longer to import than help may take to come.

A help text is made of signatures and docstrings. The modules that have them import torch, and use little of it before
they are called: to derive classes, to decorate and to annotate. So while help is written, `import torch` gives modules
whose names are all `Hollow`. It is for a process that then ends: what was imported so cannot compute.
"""

from __future__ import annotations

import abc
import functools
import importlib.abc
import importlib.machinery
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

from untwine.errors import UntwineError

REAL = "torch"


class _Hollow(abc.ABCMeta):
    """The type of `Hollow`: every attribute of such a class is the class, and a call decorates or returns it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Hollow

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _Decorated(args[0]) if len(args) == 1 and isinstance(args[0], FunctionType) else Hollow

    def __getitem__(cls, item: Any) -> Any:
        return Hollow


class Hollow(metaclass=_Hollow):
    """Stands for whatever torch has."""


class _Decorated:
    """A function that something hollow decorates: it keeps its signature, and has every attribute."""

    def __init__(self, function: FunctionType):
        functools.update_wrapper(self, function)

    def __getattr__(self, name: str) -> Any:
        return getattr(Hollow, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Hollow


class HollowModule(ModuleType):
    """A module with every name."""

    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Hollow


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch and its submodules."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] == REAL:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return HollowModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def without_torch(call: Callable[[], int], words: Sequence[str]) -> int:
    """What a command that prints its help returns, called while torch is hollow, if it was not imported before.

    Args:
        call: Calls the command.
        words: The words after `untwine`, which another process is given if this does not work.
    """
    if REAL in sys.modules:
        return call()
    sys.meta_path.insert(0, Finder())
    try:
        return call()
    except (UntwineError, OSError):
        raise
    except Exception:  # a package that does not bear it: the help comes late, but it comes
        again = "import sys, torch; from untwine.cli import main; sys.exit(main(sys.argv[1:]))"
        return subprocess.call([sys.executable, "-c", again, *words])
