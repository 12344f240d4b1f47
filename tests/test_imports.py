"""Imports flow one way, and the quick ones stay quick."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "untwine"

# From top to bottom. A room imports from itself and from the levels below, never from its neighbours.
LEVELS = [
    {"cli"},
    {"experiments"},
    {"launch"},
    {"bench"},
    {"explore"},
    {"report"},
    {"sharing"},
    {"scoring"},
    {"train", "analysis"},
    {"scores"},
    {"metrics"},
    {"methods"},  # reaches what is below through untwine.vocabulary alone, and so stays free of torch
    {"objective"},
    {"model"},
    {"kernels", "data"},
    {"base"},
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

# Top-level files that gather names of the rooms for the user. All other top-level files are "base".
FACADES = {"", "datasets", "vocabulary"}
USES_FACADES = {"cli", "experiments", "bench", "methods"}


def room_of(module: str) -> str:
    """The room of a module, named by its path inside the package.

    >>> [room_of(m) for m in ("model.priors", "errors", "methods", "", "datasets", "__main__")]
    ['model', 'base', 'methods', 'facade', 'facade', 'cli']
    """
    top = module.partition(".")[0]
    if top in FACADES:
        return "facade"
    if top == "__main__":
        return "cli"
    return top if top in LEVEL or (PACKAGE / top).is_dir() else "base"


def may_import(importer: str, imported: str) -> bool:
    """Whether a module of one room may import a module of another."""
    if importer == "facade" or importer == imported:
        return True
    if imported == "facade":
        return importer in USES_FACADES
    if importer == "methods":
        return imported == "base"
    return LEVEL[importer] < LEVEL[imported]


# A string such as "untwine.train.loop" or "untwine.train.loop:fit": a module that is imported by its name.
NAMED_IN_TEXT = re.compile(r"(untwine(?:\.[a-z_][a-z0-9_]*)+)(?::\w+)?")


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of all that the tree imports: at the top, in a function, for typing alone, or by a string.

    `from a import b` yields `a.b`, for b may be a module; relative names are resolved.
    """
    package = ["untwine", *filter(None, module.split("."))]
    if not is_package:
        package.pop()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, alias.name
            case ast.ImportFrom(module=source, names=names, level=level):
                base = package[: len(package) + 1 - level] if level else []
                for alias in names:
                    yield node.lineno, ".".join([*base, *filter(None, [source]), alias.name])
            case ast.Constant(value=str(text)) if named := NAMED_IN_TEXT.fullmatch(text):
                yield node.lineno, named[1]


def imported_module(name: str) -> str | None:
    """The module of the package, by its path inside it, that a full name stands for; None for other packages.

    >>> [imported_module(n) for n in ("torch.nn", "untwine", "untwine.Run", "untwine.errors.UntwineError")]
    [None, '', '', 'errors']
    """
    top, *path = name.split(".")
    if top != "untwine":
        return None
    if len(path) == 1 and room_of(path[0]) == "base" and not (PACKAGE / f"{path[0]}.py").exists():
        return ""  # no module, but a name that the root package offers
    return ".".join(path[:1])


def on_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """The import statements that are run when the module is imported: those that are not in a function."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module's source does against the rules, as messages."""
    tree = ast.parse(source)
    importer = room_of(module)
    found = []
    for line, name in imports(tree, module, is_package):
        target = imported_module(name)
        if target is not None and not may_import(importer, room_of(target)):
            found.append(f"untwine.{module}:{line}: {importer} may not import {name} ({room_of(target)})")
    if importer == "methods":
        for statement in on_import(tree):
            for line, name in imports(statement, module, is_package):
                if name.partition(".")[0] == "torch":
                    found.append(f"untwine.{module}:{line}: methods may not import torch at module level")
    return found


def modules() -> list[tuple[str, Path]]:
    """All modules of the package, each by its path inside it."""
    named = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        named.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return named


@pytest.mark.parametrize(("module", "path"), [pytest.param(m, p, id=m or "untwine") for m, p in modules()])
def test_module_imports_from_below_only(module: str, path: Path):
    assert violations(path.read_text(encoding="utf-8"), module, path.name == "__init__.py") == []


def dependencies() -> dict[str, set[str]]:
    """For each module the modules that it imports, in whatever way."""
    named = {".".join(filter(None, ("untwine", module))): path for module, path in modules()}

    def module_of(name: str) -> str:
        while name not in named:
            name = name.rpartition(".")[0]
        return name

    graph = {}
    for name, path in named.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = imports(tree, name.partition(".")[2], path.name == "__init__.py")
        graph[name] = {module_of(target) for _, target in found if target.split(".")[0] == "untwine"} - {name}
    return graph


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that all import each other, directly or not.

    >>> cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    [['a', 'b', 'c']]
    """
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph}
    return sorted(list(group) for group in groups if group)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = [start]
    while pending:
        for name in graph[pending.pop()] - seen:
            seen.add(name)
            pending.append(name)
    return seen


def test_no_modules_import_each_other():
    """Neither at run time, nor for typing, nor by names in strings."""
    assert cycles(dependencies()) == []


def test_cycles_are_found_through_strings_and_typing():
    graph = dependencies()
    assert "untwine.train.loop" in graph["untwine"]  # by a string
    assert cycles({**graph, "untwine.errors": graph["untwine.errors"] | {"untwine.cli"}}) != []


def test_every_folder_is_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders <= LEVEL.keys(), "a new room needs a place in LEVELS and in the design"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.vae", "from untwine.train.loop import fit"),
        ("model.vae", "import untwine.objective"),
        ("model.vae", "from untwine import objective"),
        ("model.vae", "from ..objective import core"),
        ("model.vae", "from .. import Run"),
        ("model.vae", "import untwine as uw"),
        ("model.vae", "from untwine import datasets"),
        ("model.vae", "from untwine.methods import vae"),
        ("model.vae", "def f():\n    from untwine.metrics import mig"),
        ("model.vae", "if TYPE_CHECKING:\n    from untwine.train import Ensemble"),
        ("model.vae", "import importlib\nimportlib.import_module('untwine.train')"),
        ("model.vae", "TABLE = {'fit': 'untwine.train.loop'}"),
        ("report.page", "from untwine.launch import map"),
        ("metrics.mig", "from untwine.train import Ensemble"),
        ("train.loop", "from untwine.analysis import alignment"),
        ("errors", "from untwine.data import factors"),
        ("errors", "from untwine import Run"),
        ("train.loop", "from untwine import cli"),
        ("methods.vae", "from untwine.objective import Objective"),
        ("methods.vae", "import torch"),
        ("methods.vae", "try:\n    from torch import nn\nexcept ImportError:\n    pass"),
    ],
)
def test_checker_sees_a_wrong_import(module: str, source: str):
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cli", "def f():\n    import untwine as uw\n    from untwine import datasets, methods"),
        ("experiments.rhodes2021", "import untwine as uw\nfrom untwine.report import figures"),
        ("train.loop", "import torch\nfrom untwine.objective import core\nfrom untwine import errors"),
        ("train.run", "from untwine.methods import methods"),
        ("train.loop", "from . import member\nfrom ..streams import normal"),
        ("methods.vae", "from untwine.vocabulary import Objective\nfrom untwine.registry import method"),
        ("methods.vae", "def f():\n    import torch"),
        ("datasets", "from untwine.data import dsprites"),
        ("data.dsprites", "import numpy as np\nfrom untwine.errors import UntwineError"),
    ],
)
def test_checker_lets_a_right_import_pass(module: str, source: str):
    assert violations(source, module) == []


def test_checker_resolves_relative_imports_of_a_package():
    assert violations("from . import vae", "model", is_package=True) == []
    assert len(violations("from ..train import loop", "model", is_package=True)) == 1


def loaded_by(code: str, *names: str) -> list[str]:
    """Which of the packages a fresh interpreter has loaded after running the code."""
    report = f"import sys; print('loaded:', *sorted(set({names!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rsplit("loaded:", 1)[1].split()


@pytest.mark.parametrize("code", ["import untwine", "import untwine; untwine.methods.names()"])
def test_importing_untwine_is_light(code: str):
    assert loaded_by(code, "torch", "matplotlib", "ray", "tensorboard") == []


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_command_line_answers_without_torch(flag: str):
    code = f"""
import sys
from untwine.cli import main
sys.argv = ["untwine", {flag!r}]
try:
    code = main()
except SystemExit as stop:
    code = stop.code
assert not code, code
"""
    assert loaded_by(code, "torch") == []
