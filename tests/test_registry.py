"""The table of names, and the errors for people."""

from __future__ import annotations

import pytest

from untwine.errors import UntwineError, unknown
from untwine.registry import Registry


@pytest.fixture
def colours() -> Registry:
    made = Registry("colour")

    @made.add
    def dark_red(depth: float = 1.0, *, name: str = "x") -> tuple[float, str]:
        return depth, name

    @made.add
    def blue(depth: float) -> float:
        return depth

    return made


def test_names_are_sorted_and_hyphens_stand_for_underscores(colours):
    assert colours.names() == list(colours) == ["blue", "dark_red"]
    assert colours["dark-red"] is colours["dark_red"]
    assert "dark_red" in colours and "red" not in colours


def test_add_returns_the_function_itself(colours):
    def green() -> int:
        return 3

    assert colours.add(green) is green and colours["green"]() == 3


def test_a_name_is_taken_once(colours):
    def other() -> None: ...

    other.__name__ = "blue"
    with pytest.raises(UntwineError, match="the colour 'blue' exists already, in "):
        colours.add(other)
    assert colours["blue"](2.0) == 2.0
    colours.add(colours["blue"])  # a module that is imported again is no clash


def test_calls(colours):
    assert colours.call("dark-red", {"depth": 2.0, "name": "y"}) == (2.0, "y")
    assert colours.complete("dark-red", {"depth": 2.0}) == {"depth": 2.0, "name": "x"}
    assert list(colours.complete("dark_red", {"name": "y"})) == ["depth", "name"]  # in the order of the signature


def test_errors_say_what_would_be_right(colours):
    with pytest.raises(UntwineError, match="unknown colour 'dark_rad'; did you mean 'dark_red'"):
        colours["dark_rad"]
    for use in (colours.call, colours.complete):
        with pytest.raises(UntwineError, match="unknown argument of colour 'blue': 'dept'; did you mean 'depth'"):
            use("blue", {"dept": 1.0})
    with pytest.raises(UntwineError, match="colour 'blue' needs depth"):
        colours.complete("blue", {})


def test_without_a_close_name_all_are_listed():
    assert str(unknown("fruit", "qqq", {"pear", "apple"})) == "unknown fruit 'qqq'; known: apple, pear"
    assert str(unknown("fruit", "aple", ["pear", "apple"])) == "unknown fruit 'aple'; did you mean 'apple'?"
    assert isinstance(unknown("fruit", "x", []), UntwineError)


def test_what_is_registered_may_be_an_object(colours):
    colours.put("white", (1.0, 1.0, 1.0))
    assert colours["white"] == (1.0, 1.0, 1.0) and len(colours) == 3
    assert [name for name, _ in colours.items()] == ["dark_red", "blue", "white"]  # in the order of registration
    with pytest.raises(UntwineError, match=r"the colour 'blue' exists already, in .*: choose another name"):
        colours.put("blue", "#0000ff")


def test_a_bound_function_checks_its_arguments(colours):
    @colours.bound
    def green(depth: float = 1.0, *, coats: int = 2) -> tuple[float, int]:
        return depth, coats

    assert green(2) == (2.0, 2) and colours["green"] is green and green.__name__ == "green"
    with pytest.raises(UntwineError, match=r"^unknown argument of colour 'green': 'coat'; did you mean 'coats'\?$"):
        green(coat=1)
    with pytest.raises(UntwineError, match=r"^coats of colour 'green' must be a whole number, not 1.5$"):
        green(coats=1.5)


def test_an_unknown_name_may_be_the_user_s_own(colours):
    for name in ("dark_rad", "zzz"):
        with pytest.raises(UntwineError) as caught:
            colours[name]
        assert f"If {name!r} is your own, import the module that defines it first" in str(caught.value)
        assert str(caught.value).endswith("--import MODULE_OR_FILE")
