"""What finished units of a sweep returned, on disk: a file for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from untwine import files
from untwine._version import __version__
from untwine.train.member import digest

FOLDER = "results"


class Results:
    """The results of members in the folder of a sweep; those of another scoring, or of another version, are others.

    Args:
        path: The folder of the sweep.
        scoring: Arguments of `evaluate`; None where nothing is scored.
    """

    def __init__(self, path: str | Path, scoring: Mapping[str, Any] | None):
        self.path = Path(path) / FOLDER / digest([scoring, __version__])
        self._known: dict[str, dict[str, Any]] | None = None  # the content of all files, read once and after `keep`

    def keep(self, unit: str, done: Mapping[str, Any]) -> None:
        """Write down what a unit returned.

        Args:
            unit: The name of its folder.
            done: What `untwine.launch.units.compute` returned; what went wrong is tried again.
        """
        if done["members"]:
            self._known = None
            content = {key: done[key] for key in ("members", "problems", "notes")}
            files.write_json(self.path / f"{unit}.json", files.sealed(content))

    def read(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What is known of each member, by the name of the folder in which it was trained and its id."""
        contents = self._contents().items()
        return {(unit, name): member for unit, content in contents for name, member in content["members"].items()}

    def remarks(self, kind: str, units: Set[str]) -> list[str]:
        """What was said of units, each once.

        Args:
            kind: "problems" (what went wrong) or "notes" (what was warned of).
            units: The names of their folders.
        """
        mine = [content for unit, content in self._contents().items() if unit in units]
        return list(dict.fromkeys(text for content in mine for text in content[kind]))

    def settled(self) -> set[tuple[str, str]]:
        """The folders and ids of members of which all that was asked for is known."""
        contents = self._contents().items()
        return {(unit, name) for unit, content in contents if not content["problems"] for name in content["members"]}

    def _contents(self) -> dict[str, dict[str, Any]]:
        """The content of each file, by the name of the unit's folder."""
        if self._known is None:
            self._known = dict(self._read())
        return self._known

    def _read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The content of each file as it is now. Damaged ones are reported, and their units computed again."""
        for file in sorted(self.path.glob("*.json")):
            try:
                content = files.parse_json(file.read_bytes())
                if not files.is_intact(content):
                    raise ValueError("it was changed")
                del content[files.SEAL]  # a KeyError where there is none
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                warnings.warn(f"{file} is damaged ({error}); what it says is read from the run again", stacklevel=2)
                continue
            yield file.stem, content
