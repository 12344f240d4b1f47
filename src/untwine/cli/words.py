"""The words of a command line, checked before tyro reads them: each slip is one line that says what would be right."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from untwine.arguments import coerce
from untwine.cli.usage import UsageError
from untwine.errors import UntwineError

HELP = {"-h", "--help"}
Explain = Callable[[str], str | None]  # why a command does not have an option, where more is known of it


@dataclasses.dataclass(frozen=True)
class Flag:
    """What is known of a flag beside what tyro needs.

    Args:
        read: Reads its values from texts; its ValueError is the message.
        shown: What its values are: "INT".
        several: Whether it takes several values.
        hint: The annotation that its value agrees with, where that is checked here.
        help: The text in the help.
    """

    read: Callable[[list[str]], Any] | None
    shown: str = ""
    several: bool = False
    hint: Any = Any
    help: str | None = None


def check(prog: str, fields: Sequence[Any], words: Sequence[str], explain: Explain | None = None) -> None:
    """Refuse words that are no flags of a command, or not with such values.

    Args:
        prog: The command as the user types it.
        fields: Its flags and groups of flags, as `flags.parse` takes them.
        words: The words after the command.
        explain: Says why the command does not have an option, where more is known of it.
    """
    if HELP & set(words):
        return
    known = dict(_flags(fields))
    more = f"; see: {prog.split(' [')[0].split(' RUN')[0]} --help"
    pending, given = list(words), set()
    while pending:
        word = pending.pop(0)
        name, equals, value = word.partition("=")
        flag = known.get(name.replace("_", "-"), (None, None))[0]
        if not word.startswith("--") or word == "--":
            raise UsageError(f"{word!r} belongs to no option{more}")
        if flag is None:
            raise UsageError((explain or _nothing)(name) or _unknown(name, known, more))
        given.add(name.replace("_", "-"))
        if flag.read is None:
            if equals:
                raise UsageError(f"{name} takes no value{more}")
            continue
        values = [value] if equals else list(_values(pending, flag.several))
        del pending[: 0 if equals else len(values)]
        _refuse_values(name, flag, values, more)
    for name, (flag, default) in known.items():
        if default is dataclasses.MISSING and name not in given:
            about = f": {flag.help}" if flag.help else ""
            raise UsageError(f"{name} {flag.shown} is missing{about}{more}")


def gathered(fields: Sequence[Any], words: Sequence[str]) -> list[str]:
    """Words that `check` accepts, in which a flag with several values stands once: tyro keeps only the last use.

    Args:
        fields: Flags and groups of flags, as `flags.parse` takes them.
        words: The words after the command.

    >>> def texts(words): return words
    >>> fields = [("set", typing.Annotated[tuple, Flag(texts, several=True)], ())]
    >>> gathered(fields, ["--set", "a=1", "--json", "--set=b=2", "--set", "c=3", "d=4"])
    ['--set', 'a=1', 'b=2', 'c=3', 'd=4', '--json']
    """
    known = dict(_flags(fields))
    uses: list[list[str]] = []  # a flag with its values each
    several: dict[str, list[str]] = {}
    pending = list(words)
    while pending:
        word = pending.pop(0)
        name, equals, value = word.partition("=")
        flag = known.get(name.replace("_", "-"), (None, None))[0]
        if flag is None or not flag.several:
            uses.append([word])
            continue
        values = [value] if equals else list(_values(pending, True))
        del pending[: 0 if equals else len(values)]
        if name.replace("_", "-") in several:
            several[name.replace("_", "-")] += values
        else:
            several[name.replace("_", "-")] = use = [name, *values]
            uses.append(use)
    return [word for use in uses for word in use]


def value_of(words: Sequence[str], flag: str) -> str | None:
    """The value of a flag, before all flags are known; the last use counts.

    >>> value_of(["vae", "--steps", "-5", "--lr=1", "--lr", "2"], "--lr"), value_of(["--steps", "-5"], "--steps")
    ('2', '-5')
    """
    value = None
    for i, word in enumerate(words):
        if word == flag:
            value = next(_values(words[i + 1 :], False), value)
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def _values(words: Sequence[str], several: bool) -> Iterator[str]:
    """The words that are values of a flag; what begins with two hyphens is the next flag."""
    for word in words[: None if several else 1]:
        if word.startswith("--") or (several and word.startswith("-") and not _is_number(word)):
            return
        yield word


def _refuse_values(name: str, flag: Flag, values: list[str], more: str) -> None:
    """Refuse the values of a flag, if one is missing or cannot be read."""
    if not values and not flag.several:
        raise UsageError(f"{name} needs a value: {name} {flag.shown}{more}")
    assert flag.read is not None
    try:
        read = flag.read(values)
        if flag.hint is not Any and read is not None and values:
            coerce(read, flag.hint, name)
    except (ValueError, UntwineError) as error:
        text = str(error)
        raise UsageError(text if text.startswith((name, "item ")) else f"{name}: {text}") from None


def _flags(fields: Sequence[Any]) -> Iterator[tuple[str, tuple[Flag, Any]]]:
    """All flags by their names, with their defaults."""
    for field in fields:
        group, kind = field[:2]
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            own = [(f.name, f.type, f.default, f"{group.replace('_', '-')}.") for f in dataclasses.fields(kind)]
        else:
            default = field[2] if len(field) > 2 else dataclasses.MISSING
            default = default.default if isinstance(default, dataclasses.Field) else default
            own = [(group, kind, default, "")]
        for name, annotation, default, prefix in own:
            yield from _named(name, annotation, default, prefix)


def _named(name: str, annotation: Any, default: Any, prefix: str) -> Iterator[tuple[str, tuple[Flag, Any]]]:
    """A flag under its name, as tyro has it."""
    _, *about = typing.get_args(annotation)
    flag = next(item for item in about if isinstance(item, Flag))
    said = next((item for item in about if hasattr(item, "prefix_name")), None)
    called = (getattr(said, "name", None) or name).replace("_", "-")
    before = prefix if getattr(said, "prefix_name", True) in (None, True) else ""
    if flag.read is None and default is True:
        called = f"no-{called}"
    yield f"--{before}{called}", (flag, default)


def _unknown(name: str, known: Mapping[str, Any], more: str) -> str:
    close = get_close_matches(name.removeprefix("--"), [other.removeprefix("--") for other in known], n=1, cutoff=0.6)
    hint = f"; did you mean {'--' + close[0]!r}?{more.replace('; s', ' S', 1)}" if close else more
    return f"unknown option {name!r}{hint}"


def _nothing(name: str) -> None:
    return None


def _is_number(word: str) -> bool:
    try:
        float(word.split(",")[0])
    except ValueError:
        return False
    return True
