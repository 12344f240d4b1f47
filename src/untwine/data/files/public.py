"""What is known of a public dataset before any of its files is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from untwine.data.factors import FactorSpace


@dataclass(frozen=True)
class File:
    """A public file: its place beneath the data folder, where it can be had, and how it is known to be right.

    `checksum` is `"md5:..."` or `"sha256:..."`, or None where nobody published one; `size` is in bytes.
    `elsewhere` are other folders in which a system may have it, such as those of Debian's packages. `fits` raises an
    UntwineError for a file that does not hold what it should: without a checksum, that is all there is to go by.
    """

    path: str
    urls: tuple[str, ...]
    checksum: str | None = None
    size: int | None = None
    elsewhere: tuple[str, ...] = ()
    fits: Callable[[Path], object] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Public:
    """A public dataset: what it holds with its default arguments, and the files that it is made from.

    `files` takes the dataset's own arguments by name, and returns the files that are needed with these: none where
    the data is drawn. `choices` are arguments that decide which files these are, with all their values. `hint` says
    what else can be done where the files cannot be had.
    """

    files: Callable[..., tuple[File, ...]]
    licence: str
    examples: int
    shape: tuple[int, ...]
    factors: FactorSpace | None
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    hint: str = ""

    def every(self) -> tuple[File, ...]:
        """The files of all choices."""
        chosen = [dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values())]
        return tuple(dict.fromkeys(file for arguments in chosen for file in self.files(**arguments)))
