"""Files that are either complete or absent, also after a crash, and JSON that shows whether it was changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from untwine.errors import UntwineError

SEAL = "sha256"  # the key of the checksum of everything else in a mapping
DEPTH = 100  # lists and mappings within each other: more than any of ours has
_DEEP = f"its JSON is nested more than {DEPTH} deep"


def write(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file under a temporary name, then rename it. If that fails, the old file stays.

    Args:
        path: The file.
        content: All of its bytes, or parts of them in their order.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(path)
    new = path.with_name(f".{path.name}.{os.getpid()}.part")
    with naming(path):
        try:
            new.unlink(missing_ok=True)  # what a process of the same number left behind, or a link to elsewhere
            with new.open("xb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            settle(new, path)
        finally:
            new.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A context whose system errors have the name of a file: those of writing to an open file have none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def is_left_behind(name: str, target: str) -> bool:
    """Whether a file of this name is what a killed process left of writing `target`, which lies beside it.

    >>> is_left_behind(".run.json.123.part", "run.json"), is_left_behind("run.json", "run.json")
    (True, False)
    """
    return _part_of(target).fullmatch(name) is not None


def _part_of(target: str) -> re.Pattern[str]:
    return re.compile(rf"\.{re.escape(target)}\.([0-9]{{1,9}})\.part")


def _remove_left_behind(path: Path) -> None:
    """Remove what processes that were killed have left of writing this file."""
    if os.name != "posix":  # elsewhere nobody can be asked whether it still runs
        return
    left = _part_of(path.name)
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if (
                (match := left.fullmatch(entry.name))
                and entry.is_file(follow_symlinks=False)
                and not _runs(int(match[1]))
            ):
                os.unlink(entry)


def _runs(pid: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        pass
    return True


def refuse_place(path: Path, folder: bool = False) -> None:
    """Refuse a place where no file can be written: below a file, where a folder is, or without the right to write.

    Args:
        path: The file, which need not exist, nor its folder.
        folder: Whether it is to be a folder.

    >>> refuse_place(Path(__file__) / "page.html")
    Traceback (most recent call last):
    untwine.errors.UntwineError: .../files.py is a file, not a folder: choose another place for .../files.py/page.html
    """
    if path.is_dir() and not folder:
        raise UntwineError(f"{path} is a folder: choose the name of a file")
    there = next((place for place in (path if folder else path.parent, *path.parents) if place.exists()), Path())
    if not there.is_dir():
        raise UntwineError(f"{there} is a file, not a folder: choose another place for {path}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UntwineError(f"{there} cannot be written to: choose another place for {path}")


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, as `write` does."""
    write(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_sealed(path: Path, value: Any) -> None:
    """Write a value as JSON with its checksum, as `write` does; `read_sealed` reads it."""
    write_json(path, sealed({"value": value}))


def read_sealed(path: Path) -> Any:
    """The value that `write_sealed` wrote; None where there is no file, or where it was changed since."""
    try:
        content = parse_json(path.read_bytes())
        return content["value"] if SEAL in content and is_intact(content) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sealed(content: Mapping[str, Any], key: str = SEAL) -> dict[str, Any]:
    """The content with its checksum.

    Args:
        content: What is to be written as JSON.
        key: The key of the checksum.
    """
    rest = {name: value for name, value in content.items() if name != key}
    return {**rest, key: checksum(rest)}


def is_intact(content: Mapping[str, Any], key: str = SEAL) -> bool:
    """Whether the content is what `sealed` returned; what has no checksum is. A ValueError where it is no JSON.

    >>> is_intact(sealed({"seed": 1})), is_intact({**sealed({"seed": 1}), "seed": 2}), is_intact({"seed": 3})
    (True, False, True)
    """
    return key not in content or sealed(content, key) == content


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError also where it is nested too deeply to be worked with.

    >>> parse_json("[" * 200 + "]" * 200)
    Traceback (most recent call last):
    ValueError: its JSON is nested more than 100 deep
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_DEEP) from None
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > DEPTH + 1:
            raise ValueError(_DEEP)
        inner = [one for one in layer if isinstance(one, dict | list)]
        layer = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
    return value


def checksum(value: Any) -> str:
    """The sha256 of JSON data, independent of the order of keys; a ValueError where it is no JSON.

    >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def settle(new: Path, target: Path) -> None:
    """Rename a finished file to its final name, such that even after a power failure it is complete or absent."""
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(target)
    with contextlib.suppress(OSError):  # the renaming itself must reach the disk too; some systems cannot open folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
