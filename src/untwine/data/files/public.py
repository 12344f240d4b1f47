"""Public datasets: which files they need, where these are published, and the error for a damaged one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from untwine.data.factors import FactorSpace
from untwine.errors import Unavailable


@dataclass(frozen=True)
class File:
    """A public file.

    Args:
        path: Its path beneath the data folder.
        urls: The addresses that offer it, in the order in which they are tried.
        checksum: `"md5:..."` or `"sha256:..."`; None where nobody published one.
        size: Its length in bytes, where known.
        elsewhere: Other folders that may hold it, such as those of Debian's packages.
        validate: Raises an UntwineError if a file's content is wrong. Without a checksum, nothing else can tell.
    """

    path: str
    urls: tuple[str, ...]
    checksum: str | None = None
    size: int | None = None
    elsewhere: tuple[str, ...] = ()
    validate: Callable[[Path], object] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Public:
    """What is known of a public dataset before any of its files is downloaded.

    Args:
        files: Takes the dataset's arguments by name and returns the files that it needs with them; none where the
            data is drawn.
        licence: The licence of the files.
        examples: The number of examples with default arguments.
        shape: The shape of an example with default arguments.
        factors: The factors with default arguments.
        choices: The arguments that decide which files are needed, with all their values.
        hint: Ends the error message where the files are unavailable: what the user can do instead.
    """

    files: Callable[..., tuple[File, ...]]
    licence: str
    examples: int
    shape: tuple[int, ...]
    factors: FactorSpace | None
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    hint: str = ""

    def every_file(self) -> tuple[File, ...]:
        """The files that the dataset needs with any of its arguments."""
        combinations = [dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values())]
        return tuple(dict.fromkeys(file for arguments in combinations for file in self.files(**arguments)))


class BrokenFile(Unavailable):
    """A file whose content is not what it should be; `why` is the reason alone."""

    why: object = None


def broken(path: Path, why: object) -> BrokenFile:
    """The error for a file whose content is not what it should be."""
    error = BrokenFile(f"{path} does not hold what it should: {why}; delete it, and it is fetched or made again")
    error.why = why
    return error
