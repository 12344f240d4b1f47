"""A run's `log.jsonl`: a line for each logged step, with a checksum that shows whether it was changed."""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine import files
from untwine.errors import warn
from untwine.train.folders.history import Lines

_KEYS = {"pack", "step", "members"}
_CHECKSUM = re.compile(rb'(.*), "crc32": "([0-9a-f]{8})"\}\s*', re.DOTALL)
_SHOWN = 3  # numbers of damaged lines in a message


def to_line(entry: Mapping[str, Any]) -> bytes:
    """An entry as a line, with the CRC-32 of its JSON.

    >>> to_line({"pack": 0, "step": 5, "members": {}})
    b'{"pack": 0, "step": 5, "members": {}, "crc32": "ce7d43fa"}\\n'
    """
    text = json.dumps(entry, allow_nan=False).encode()
    return text[:-1] + f', "crc32": "{zlib.crc32(text):08x}"}}\n'.encode()


def of_line(line: bytes) -> dict[str, Any]:
    """The entry of a line; a ValueError if the line was changed. Lines of earlier versions have no checksum."""
    text, match = line, _CHECKSUM.fullmatch(line)
    if match:
        text = match[1] + b"}"
        if zlib.crc32(text) != int(match[2], 16):
            raise ValueError("its checksum is another")
    try:
        entry = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(entry, dict) or entry.keys() != _KEYS or not isinstance(entry["members"], dict):
        raise ValueError("it is no line of a log")
    if not all(type(entry[key]) is int and 0 <= entry[key] < 2**62 for key in ("pack", "step")):
        raise ValueError("its pack or its step is no number")
    for name, terms in entry["members"].items():
        if not isinstance(terms, dict) or not all(map(_is_number, terms.values())):
            raise ValueError("a term is no number")
        if not all(text.isprintable() for text in (name, *terms)):
            raise ValueError("a name has control characters")
    return entry


def _is_number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and math.isfinite(value))


def read_log(path: Path, packs: Sequence[Mapping[str, Any]] = ()) -> Lines:
    """The lines of a log. Damaged ones are left out and reported; without a file there are none.

    Args:
        path: The file.
        packs: What `run.json` says of the packs, which tells how many lines there should be.
    """
    lines, damaged = Lines(), []
    counts: Counter[int] = Counter()
    try:
        for number, line in _numbered(path):
            try:
                entry = of_line(line)
                lines.append(entry)
            except (ValueError, OverflowError):
                if line.endswith(b"\n"):  # else it is cut off: by an interruption, or it is being written
                    damaged.append(number)
                continue
            counts[entry["pack"]] += 1
    except OSError as error:
        warn(f"{path} cannot be read: {error.strerror or error}; there is no history")
        return lines
    expected = {pack["number"]: pack.get("logged", 0) for pack in packs if pack["state"] == "done"}
    _report(path, damaged, counts, expected)
    return lines


class Log:
    """The log of a run that trains.

    Args:
        path: The file.
    """

    def __init__(self, path: Path):
        self.path = path
        self.counts: Counter[int] = Counter()  # the lines that each pack has logged, as far as `rewind` knows

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write a line."""
        with files.naming(self.path), self.path.open("ab") as file:
            file.write(to_line(entry))
        self.counts[entry["pack"]] += 1

    def settle(self) -> None:
        """Let all lines reach the disk, so that a checkpoint never has more of the run than its log."""
        if self.path.exists():
            with files.naming(self.path), self.path.open("ab") as file:
                os.fsync(file.fileno())

    def rewind(self, pack: int, step: int, logged: Mapping[int, int]) -> None:
        """Drop what a pack logged after its checkpoint, so that the log is that of a run without interruption.

        Damaged lines go too. They are reported, unless they are logged again.

        Args:
            pack: The number of the pack.
            step: The step of the checkpoint.
            logged: How many lines each pack should have, as far as that is known; of this one up to the checkpoint.
        """
        dropped, damaged = set[int](), []
        counts: Counter[int] = Counter()
        for number, line in _numbered(self.path):
            try:
                entry = of_line(line)
                if line.endswith(b"\n") and not (entry["pack"] == pack and entry["step"] > step):
                    counts[entry["pack"]] += 1
                    continue
            except ValueError:
                damaged.append(number)
            dropped.add(number)
        if dropped:
            files.write(self.path, (line for number, line in _numbered(self.path) if number not in dropped))
        if any(counts[number] < count for number, count in logged.items()):
            _report(self.path, damaged, counts, logged)
        self.counts = counts + Counter({pack: max(0, logged.get(pack, 0) - counts[pack])})


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers; none where there is no file."""
    try:
        with path.open("rb") as file:
            yield from enumerate(file, 1)
    except FileNotFoundError:
        return


def _report(path: Path, damaged: Sequence[int], counts: Mapping[int, int], expected: Mapping[int, int]) -> None:
    """Warn of damaged lines, or of missing ones."""
    if damaged:
        more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
        shown = ", ".join(map(str, damaged[:_SHOWN]))
        warn(f"{path} is damaged at line {shown}{more}, which is left out")
        return
    here, logged = sum(min(counts.get(pack, 0), count) for pack, count in expected.items()), sum(expected.values())
    if here < logged:
        warn(f"{path} has {here:,} of {logged:,} lines that were logged: the others are lost")
