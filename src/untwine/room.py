"""How much memory is free, and a refusal of what cannot fit, before any of it is taken.

A system that is asked for too much memory often grants it, and kills the process when it is used: so what numbers of a
user lead to is estimated first. Estimates are low: what is refused could never have worked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from untwine.errors import UntwineError
from untwine.progress import amount

_SMALL = 1 << 28  # bytes that are never refused, so that the system is not asked each time
_GROUPS = Path("/sys/fs/cgroup")
_PROCESS = Path("/proc/self")


def free_memory() -> int | None:
    """The bytes of memory that this process can still have; None where the system does not say."""
    known = [room for room in (_of_system(), _of_group(), _of_process()) if room is not None]
    return max(0, min(known)) if known else None


def refuse_larger(needed: int, what: str, cure: str, free: int | None = None) -> None:
    """Refuse what needs more memory than there is.

    Args:
        needed: The bytes that it needs at least.
        what: What needs them.
        cure: What to do instead.
        free: The bytes that are free; None looks how many.

    >>> refuse_larger(10**15, "a batch of 10 examples", "take fewer", free=10**9)
    Traceback (most recent call last):
    untwine.errors.UntwineError: a batch of 10 examples would need 1.0 PB of memory, and 1.0 GB are free: take fewer
    """
    if needed < _SMALL and free is None:
        return
    free = free_memory() if free is None else free
    if free is not None and needed > free:
        raise UntwineError(f"{what} would need {amount(needed)} of memory, and {amount(free)} are free: {cure}")


def _of_system() -> int | None:
    """What all programs together can still have, by giving up caches and by swapping."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return sum(int(lines[key].split()[0]) * 1024 for key in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # no system says less: all that there is
    except (ValueError, OSError, AttributeError):
        return None


def _of_group() -> int | None:
    """What the container, or the job on a cluster, may still have: the least of what its groups have left."""
    left = []
    for place, limit, used in _groups():
        try:
            most = (place / limit).read_text().strip()
            if most != "max":
                left.append(int(most) - int((place / used).read_text()) + _reclaimable(place))
        except (OSError, ValueError):
            continue
    return min(left, default=None)


def _groups() -> Iterator[tuple[Path, str, str]]:
    """The control groups of this process, from its own to the outermost, and their files of the limit and the use."""
    try:
        lines = [line.split(":", 2) for line in (_PROCESS / "cgroup").read_text().splitlines()]
    except OSError:
        return
    for number, kinds, path in lines:
        if number == "0":
            root, limit, used = _GROUPS, "memory.max", "memory.current"
        elif "memory" in kinds.split(","):  # of the first version
            root, limit, used = _GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        place = root / path.lstrip("/")
        yield from ((group, limit, used) for group in (place, *place.parents) if group.is_relative_to(root))


def _reclaimable(group: Path) -> int:
    """The bytes of files that the group's memory keeps, which it gives up when asked for more."""
    try:
        lines = dict(line.split(" ", 1) for line in (group / "memory.stat").read_text().splitlines())
        return int(lines.get("inactive_file", 0)) + int(lines.get("active_file", 0))
    except (OSError, ValueError):
        return 0


def _of_process() -> int | None:
    """What the process may still have by its own limit (ulimit -v)."""
    if sys.platform == "win32":
        return None
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        used = int((_PROCESS / "statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return most - used
    except (ImportError, OSError, ValueError, IndexError):
        return None
