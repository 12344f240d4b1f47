"""What a sweep's file says."""

import tomllib
from typing import Any

import pytest

from untwine.errors import UntwineError
from untwine.launch import grid


def settings(text: str) -> list[dict[str, Any]]:
    return grid.settings(tomllib.loads(text))


def test_every_way_to_write_an_argument_is_the_same():
    wanted = [{"method": "beta_vae", "method.beta": 4}]
    assert settings('[run]\nmethod = { name = "beta_vae", beta = 4 }') == wanted
    assert settings('[run]\nmethod = "beta_vae"\n"method.beta" = 4') == wanted
    assert settings('[run.method]\nname = "beta_vae"\nbeta = 4') == wanted
    assert grid.spec(wanted[0]) == {"method": {"name": "beta_vae", "beta": 4}}


def test_grids_multiply_and_lists_add():
    found = settings(
        """
        [run]
        steps = 9
        [grid]
        latents = [2, 3]
        [[runs]]
        method = "vae"
        [[runs]]
        method = "beta_vae"
        steps = 5
        grid = { "method.beta" = [1, 4, 16] }
        """
    )
    assert len(found) == 2 + 2 * 3
    assert found[:2] == [{"steps": 9, "method": "vae", "latents": latents} for latents in (2, 3)]
    assert {(one["latents"], one["method.beta"]) for one in found[2:]} == {(n, b) for n in (2, 3) for b in (1, 4, 16)}
    assert {one["steps"] for one in found[2:]} == {5}


def test_an_argument_may_come_before_its_part():
    assert grid.spec({"method.beta": 4, "method": "beta_vae"}) == {"method": {"name": "beta_vae", "beta": 4}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = 9", "unknown section of a sweep: 'steps'"),
        ("[grids]", "did you mean 'grid'"),
        ("[grid]\nlatents = 3", "latents has a list of values, not 3"),
        ("[grid]\nlatents = []", "latents has a list of values"),
        ('[grid]\nseeds = ["0-4"]', "seeds stand under .run."),
        ("runs = 3", "write .*runs"),
        ("runs = [3]", "runs.0. of a sweep is a table"),
        ("run = 3", "run of a sweep is a table"),
    ],
)
def test_what_a_file_cannot_say(text: str, message: str):
    with pytest.raises(UntwineError, match=message):
        settings(text)


def test_arguments_need_their_part():
    with pytest.raises(UntwineError, match="needs a method"):
        grid.spec({"method.beta": 4})
    with pytest.raises(UntwineError, match=r"'latents\.size' is no setting"):
        grid.spec({"latents": 3, "latents.size": 4})
