"""What a user sees of the package: its names, where they live, and what `dir` and type checkers know of them."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import untwine as uw

ROOT = Path(__file__).parents[1]
MODULES = [name for name in dir(uw) if isinstance(getattr(uw, name), ModuleType)]
# Public modules inside public modules.
INNER = {"analysis.distances", "metrics.designs", "metrics.statistics"}


def module(path: str) -> ModuleType:
    found: object = uw
    for name in path.split("."):
        found = getattr(found, name)
    assert isinstance(found, ModuleType)
    return found


def test_the_package_shows_its_public_names_alone():
    assert dir(uw) == sorted(uw.__all__) == uw.__all__
    for name in uw.__all__:
        assert getattr(uw, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        uw.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names():
    """The table of lazy names and the imports for type checkers agree, name by name and home by home."""
    tree = ast.parse((ROOT / "src/untwine/__init__.py").read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    homes, aliases = {}, {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                homes[name.asname] = f"{node.module}.{name.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            aliases[node.targets[0].id] = ast.unparse(node.value)
    seen = {name: home for name, home in homes.items() if name not in aliases.values()}
    seen |= {name: homes[private] for name, private in aliases.items()}
    assert seen == {name: home.replace(":", ".") for name, home in uw._HOMES.items()}


@pytest.mark.parametrize("path", sorted({*MODULES, *INNER}))
def test_a_public_module_shows_its_public_names_alone(path: str):
    shown = dir(module(path))
    assert shown == sorted(getattr(module(path), "__all__", shown))
    assert not [name for name in shown if name.startswith("_")]
    for name in shown:
        value = getattr(module(path), name)
        inner = f"{path}.{name}" in INNER
        assert inner or not inspect.ismodule(value), f"{path}.{name} is the module {value}"


def test_figures_are_functions():
    assert all(inspect.isfunction(getattr(uw.figures, name)) for name in dir(uw.figures))
    assert not hasattr(uw.figures, "figures")


def test_the_decorators_are_at_one_level():
    homes = {
        "method": "methods.registry",
        "metric": "metrics.score",
        "dataset": "data",
        "network": "model.networks",
        "part": "parts",
    }
    for name, home in homes.items():
        assert getattr(uw, name) is getattr(importlib.import_module(f"untwine.{home}"), name)


def test_a_user_can_define_every_kind_of_part():
    code = """
import untwine as uw
@uw.method
def mine() -> uw.Objective: return uw.methods.vae()
@uw.metric
def my_metric(codes, factors): return 0.5
@uw.part
class MyPrior(uw.Prior): scale: float = 1.0
@uw.dataset
def my_data(size: int = 4): return uw.datasets.xy_squares()
@uw.network
def my_network(width: int = 8): return uw.networks.mlp()
assert "mine" in uw.methods.names() and "my_metric" in uw.metrics.names() and "my_data" in uw.datasets.names()
from untwine.model.networks import networks
assert "my_network" in networks
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src/untwine/py.typed").exists()
