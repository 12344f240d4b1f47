"""Flags from signatures: types, choices and help."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

import untwine.datasets  # noqa: F401  registers the datasets
from untwine.cli import flags, readers
from untwine.cli.usage import UsageError
from untwine.data import datasets
from untwine.methods import methods
from untwine.model.networks import networks
from untwine.quantities import Count, EachPositive, Number, Share
from untwine.registry import Registry
from untwine.train.steps.optimisers import optimisers

REGISTRIES = [methods, datasets, networks, optimisers]
ENTRIES = [pytest.param(r, name, id=f"{r.kind} {name}") for r in REGISTRIES for name in r.names()]


@pytest.mark.parametrize(
    ("hint", "default", "text", "value"),
    [
        (int, 3, "4", 4),
        (Count, 3, "4", 4),
        (Share | None, None, "0.5", 0.5),
        (bool, False, "true", True),
        (str | None, None, "relu", "relu"),
        (Path, Path("runs"), "here", Path("here")),
        (Any, 0.1, "2", 2.0),
        (Literal["exact", "finite"], "exact", "finite", "finite"),
        (Literal["leaky_relu"] | None, None, "leaky-relu", "leaky_relu"),
        (EachPositive, 1.0, "1,2", [1.0, 2.0]),
        (Number, 1.0, "3", 3.0),
        (Annotated[int, "a note"] | None, None, "7", 7),
    ],
)
def test_values_are_read_as_their_annotations_say(hint: Any, default: Any, text: str, value: Any):
    reading = readers.reader(hint, default)
    assert reading is not None
    read, several = reading
    assert read(text) == value and not several


@pytest.mark.parametrize("hint", [tuple[int, ...], list[int], tuple[int, ...] | None, int | Sequence[int]])
def test_lists_take_several_values(hint: Any):
    assert readers.reader(hint, None) == (readers.whole, True)


@pytest.mark.parametrize("hint", [dict[str, int], Callable[[int], int], Sequence[dict[str, int]], None])
def test_what_text_cannot_be_is_no_flag(hint: Any):
    assert readers.reader(hint, None) is None


def test_a_wrong_choice_gets_a_suggestion():
    with pytest.raises(ValueError, match="unknown choice 'exat'; did you mean 'exact'"):
        readers.Choice("exact", "finite")("exat")


def test_an_unknown_name_gets_a_suggestion_or_the_import():
    with pytest.raises(UsageError, match=r"^unknown method 'beta-vea'; did you mean 'beta-vae'\?$"):
        flags.find(methods, "beta_vea")
    with pytest.raises(UsageError, match="import the module that defines it: --import MODULE_OR_FILE"):
        flags.find(methods, "sentence")


@pytest.mark.parametrize(("registry", "name"), ENTRIES)
def test_every_flag_has_help(registry: Registry, name: str):
    function = registry[name]
    fields = flags.dataclasses.fields(flags.arguments(function))
    lacking = [field.name for field in fields if not flags.argument_help(function, field.name)]
    assert not lacking, f"{registry.kind} {name}: its docstring lists no {lacking} under 'Args:'"
    assert {field.name for field in fields} <= set(inspect.signature(function).parameters)


def test_none_is_a_value_where_the_annotation_has_it():
    """Also where it is not the default; elsewhere it is no number."""

    def sampled(columns: Count | None = 1, images: float | None = None, steps: Count = 2) -> None:
        """Nothing."""

    def read(*words: str) -> dict[str, Any]:
        fields = [(field.name, field.type, field) for field in flags.dataclasses.fields(flags.arguments(sampled))]
        return flags.values(flags.parse("test", "", fields, list(words)))

    assert read("--columns", "none", "--images", "None", "--steps", "3") == {
        "columns": None,
        "images": None,
        "steps": 3,
        "imports": None,
    }
    assert (read()["columns"], read("--columns", "2")["columns"]) == (1, 2)
    with pytest.raises(UsageError, match="--steps: 'none' is not a whole number"):
        read("--steps", "none")
