"""What becomes of a try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.torture.children import Ended

WORDS = {
    "same": "ends bit for bit as without the fault",
    "named": "one line says what is wrong and with which file",
    "harmless": "nobody reads what was changed, or it is made anew",
    "lost": "a silent change, a traceback, a hang or a wrong result",
}


@dataclass(frozen=True)
class Verdict:
    """One of the words, the reason, and how often SIGKILL came."""

    word: str
    why: str = ""
    kills: int = 0

    def killing(self, kills: int) -> Verdict:
        """The same verdict of a try with so many kills."""
        return replace(self, kills=kills)


def lost(why: str) -> Verdict:
    """The verdict that there must not be."""
    return Verdict("lost", why)


def fault_of(ended: Ended, names: Sequence[str], advice: bool = False) -> str:
    """What is wrong with how a command failed; empty if it said in one line what the matter was.

    Args:
        ended: How it ended.
        names: Texts of which one must be in the line, such as the folder's path.
        advice: Whether lines of advice follow, such as how to get a file by hand.
    """
    if ended.hung:
        return "it hung"
    if ended.code != 1 or "Traceback" in ended.said:
        return f"exit code {ended.code}: {ended.said[-1500:]}"
    return fault_of_lines(ended.lines, names, advice)


def fault_of_lines(lines: Sequence[str], names: Sequence[str], advice: bool = False) -> str:
    """What is wrong with a message; empty if it is one line that has one of the names (see `fault_of`)."""
    if advice and 1 < len(lines) <= 6:
        lines = [" ".join(lines)]
    if len(lines) != 1:
        return f"{len(lines)} lines instead of one: {lines}"
    return "" if any(name in lines[0] for name in names) else f"it names no file: {lines[0]}"
