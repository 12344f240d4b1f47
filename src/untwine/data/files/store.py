"""The store of public files: `fetch` returns a verified file, and downloads it if it is missing.

`UNTWINE_DATA` names the data folder. `UNTWINE_OFFLINE=1` forbids downloads. `UNTWINE_MIRROR=https://host/base` is tried
before the public addresses, as in `https://host/base/mnist/train-images-idx3-ubyte.gz`.
"""

from __future__ import annotations

import os
import urllib.parse
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from untwine.data.files.download import DiskFailed, DownloadFailed, discard, discard_note, download
from untwine.data.files.places import can_write, copies, exclusive, writable, write_failure
from untwine.data.files.public import File
from untwine.data.files.stamps import Stamp, algorithm, read_stamp, stamp_location, stamp_now, write_stamp
from untwine.data.files.verify import difference
from untwine.errors import Unavailable
from untwine.files import settle


def fetch(file: File, hint: str = "") -> Path:
    """The path of a verified file, which is downloaded if it is missing.

    The checksum of a file is computed once, and again if its size or time has changed. A wrong file is not used; if
    the user put it there, it is not removed either. `file.validate` is called each time, and on a download before it
    is put in its place.

    Args:
        file: The file.
        hint: Ends the error message where the file is unavailable.
    """
    target = writable() / file.path
    wrong: dict[Path, str] = {}
    for path in copies(file):
        why = _problem(path, file)
        if why is None:
            _warn(wrong)
            return path
        wrong[path] = why
    if os.path.lexists(target) and target not in wrong:
        wrong[target] = "is not a file"
    if target in wrong:
        raise _in_the_way(file, target, wrong[target], hint)
    urls = _urls(file)

    def refused(why: str) -> Unavailable:
        return _missing(file, f"is not here, and {why}", urls, hint, wrong)

    if not urls:
        raise refused("no address is known to fetch it from.")
    if _offline():
        raise refused("UNTWINE_OFFLINE forbids a download from")
    if not can_write(target.parent):
        raise refused(f"{target.parent} cannot be written to, so it was not fetched from")
    _warn(wrong)
    with exclusive(target, f"fetching {file.name}", lambda why: refused(f"{why}. It was not fetched from")):
        if not os.path.isfile(target):
            _download(file, urls, target, hint)
        elif (why := _problem(target, file)) is not None:  # another process has just fetched it
            raise _in_the_way(file, target, why, hint)
    return target


def _problem(path: Path, file: File) -> str | None:
    """What is wrong with a copy of a file; None if nothing is."""
    stamp = read_stamp(path)
    current = stamp if stamp and stamp.matches(path) and file.checksum in (None, stamp.checksum) else None
    try:
        now = current or stamp_now(path, algorithm(file.checksum or (stamp and stamp.checksum)))
        why = difference(path, now, file)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if why is not None or current is not None:
        return why
    if file.checksum is None and stamp is not None and stamp.checksum != now.checksum:
        # Nobody published which one is right, so the file is used, but the stamp keeps the checksum on arrival.
        changed = f"{path} changed since it arrived: it was {stamp.checksum}, and is {now.checksum}"
        warnings.warn(f"{changed}; delete {stamp_location(path)} if that is as it should be", stacklevel=4)
    else:
        write_stamp(path, now)
    return None


def _download(file: File, urls: tuple[str, ...], target: Path, hint: str) -> None:
    """Download a file from the first address that gives a right one."""
    part = target.with_name(f"{target.name}.part")
    failures: dict[str, DownloadFailed | None] = dict.fromkeys(urls)
    for url in failures:
        try:
            stamp = _verified(url, file, part)
            discard_note(part)
            settle(part, target)
            write_stamp(target, stamp)
            return
        except DownloadFailed as error:
            failures[url] = error
        except OSError as error:
            why, advice = write_failure(error, target.parent)
            failures[url] = DiskFailed(f"it could not be written: {why}", advice)
        if isinstance(failures[url], DiskFailed):
            break
    addresses = [url if why is None else f"{url}: {why}" for url, why in failures.items()]
    advice = dict.fromkeys(why.advice for why in failures.values() if why is not None and why.advice)
    raise _missing(file, "is not here, and could not be fetched:", addresses, " ".join([*advice, hint]))


def _verified(url: str, file: File, part: Path) -> Stamp:
    """Download a file and return its stamp. If it is wrong, it is discarded."""
    while True:
        resumed = download(url, part, file.size, has_checksum=file.checksum is not None)
        stamp = stamp_now(part, algorithm(file.checksum))
        why = difference(part, stamp, file)
        if why is None:
            return stamp
        discard(part)
        if not resumed:  # else the earlier part may have been wrong: try again from the first byte
            raise DownloadFailed(f"the downloaded file {why} and was discarded")


def _urls(file: File) -> tuple[str, ...]:
    mirror = os.environ.get("UNTWINE_MIRROR", "").strip().rstrip("/")
    return (f"{mirror}/{urllib.parse.quote(file.path)}", *file.urls) if mirror else file.urls


def _offline() -> bool:
    value = os.environ.get("UNTWINE_OFFLINE", "").strip().lower()
    if value not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        raise Unavailable(f"UNTWINE_OFFLINE must be 1 or 0, not {value!r}")
    return value in ("1", "true", "yes", "on")


def _warn(wrong: Mapping[Path, str]) -> None:
    for path, why in wrong.items():
        warnings.warn(f"{path} {why}; it is not used", stacklevel=3)


def _missing(
    file: File, why: str, addresses: Iterable[str], hint: str, wrong: Mapping[Path, str] | None = None
) -> Unavailable:
    """The error for a file that is unavailable: the reason, the addresses, and how to get it by hand."""
    lines = [f"{file.name} {why}", *(f"  {address}" for address in addresses)]
    lines += [f"{path} {reason}; it is not used." for path, reason in (wrong or {}).items()]
    checksum = f"its checksum is {file.checksum}" if file.checksum else "it has no published checksum"
    parent = (writable() / file.path).parent
    if can_write(parent):
        lines += [f"To get it by hand, put it into {parent} as {file.name}; {checksum}."]
    else:
        lines += [f"Set UNTWINE_DATA to a folder that can be written to, which {parent} is not."]
        lines += [f"To get it by hand, put it into that folder as {file.path}; {checksum}."]
    return Unavailable("\n".join([*lines, hint.strip()]).strip())


def _in_the_way(file: File, target: Path, why: str, hint: str) -> Unavailable:
    todo = "It is neither used nor removed.\nDelete it or move it away; then it is fetched from"
    return _missing(file, f"in {target.parent} {why}. {todo}", _urls(file), hint)
