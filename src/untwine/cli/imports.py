"""`--import MODULE_OR_FILE`: a user's own parts on the command line, and those of installed packages.

Only the user names modules to import, with this flag or by installing a package with the entry point group
`untwine.parts`. A module named in a file that is loaded is never imported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from untwine.cli.usage import UsageError
from untwine.errors import brief

FLAG = "--import"
GROUP = "untwine.parts"
IMPORTED: list[str] = []  # what this command has imported, which workers of a sweep import too
HELP = "A module or a .py file with parts of your own, imported first. The flag may be repeated."


def split_imports(args: list[str]) -> tuple[list[str], list[str]]:
    """The arguments without every `--import`, and the modules and files that they name.

    >>> split_imports(["train", "mine", "--import", "parts.py", "--import=more.parts"])
    (['train', 'mine'], ['parts.py', 'more.parts'])
    """
    rest, names = [], []
    pending = iter(args)
    for arg in pending:
        if arg == FLAG:
            name = next(pending, "")
            if not name or name.startswith("-"):
                raise UsageError(f"{FLAG} needs a module or a file, as in: {FLAG} my_parts.py")
            names.append(name)
        elif arg.startswith(f"{FLAG}="):
            names.append(arg.removeprefix(f"{FLAG}="))
        else:
            rest.append(arg)
    return rest, names


def import_parts(names: Iterable[str]) -> None:
    """Import modules and files in this order; the parts that they define are then known by their names."""
    for name in names:
        try:
            _import(name)
            IMPORTED.append(str(Path(name).expanduser().resolve()) if _is_path(name) else name)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(f"cannot import {name!r}: {brief(error)}{_place(error)}") from error


def import_installed_parts() -> None:
    """Import the modules that installed packages name in the entry point group `untwine.parts`.

    A package that cannot be imported gives a warning: the command may not need it.
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            warnings.warn(f"the parts of the package {package!r} cannot be imported: {brief(error)}", stacklevel=2)


def _import(name: str) -> None:
    if _is_path(name):
        _import_file(Path(name).expanduser())
        return
    if os.getcwd() not in sys.path:  # at the end, so that no file in it hides an installed module
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(name)
        if hasattr(module, "__path__") and module.__file__ is None:
            del sys.modules[name]
            raise UsageError(f"{name!r} is a folder without a module of its own (__init__.py): name a file in it")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(
            f"there is no module {name!r}, neither installed nor in this folder; a file is named with its ending, "
            f"as in: {FLAG} my_parts.py"
        ) from None


def _is_path(name: str) -> bool:
    """Whether a name is that of a file, not of a module."""
    path = Path(name).expanduser()
    return path.suffix == ".py" or os.sep in name or path.is_file()


def _import_file(path: Path) -> None:
    if not path.is_file():
        why = "is a folder: name a file in it" if path.is_dir() else "does not exist"
        raise UsageError(f"cannot import {str(path)!r}: it {why}")
    path = path.resolve()
    name = path.stem
    if name in sys.modules and _is_file_of(sys.modules[name], path):
        return
    if not name.isidentifier() or name in sys.modules or not _is_free(name, path):
        name = f"{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        if name in sys.modules:
            return
    if str(path.parent) not in sys.path:  # the file may import its neighbours
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"cannot import {str(path)!r}: it is not a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _is_file_of(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def _is_free(name: str, path: Path) -> bool:
    """Whether no installed module but this file itself has the name, which a later import could ask for."""
    spec = importlib.util.find_spec(name)
    return spec is None or (spec.origin is not None and Path(spec.origin).resolve() == path)


def _place(error: BaseException) -> str:
    """The line of the user's code at which an import failed, outside this package and Python's importlib."""
    ours = {Path(__file__).parents[1], Path(importlib.__file__).parent}
    files = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    places = [(file, line) for file, line in files if file.is_file() and not ours & set(file.parents)]
    return f" ({places[-1][0].name}, line {places[-1][1]})" if places else ""
