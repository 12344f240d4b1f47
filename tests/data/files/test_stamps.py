"""Progress bars of files that are read."""

from __future__ import annotations

import re
from typing import Any

from file_helpers import put

from untwine.data.files import stamps
from untwine.progress import counter


def test_bytes_are_counted_on_a_terminal(capsys, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    with counter("fetching [a].bin", 2_000_000, progress=True, in_bytes=True, done=500_000) as count:
        count(1_000_000)
    said = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "fetching [a].bin" in said and "1.5/2.0 MB" in said


def test_only_large_files_have_a_bar_when_they_are_read(data, monkeypatch):
    shown: list[bool | None] = []

    def spy(what: str, total: int, progress: bool | None, in_bytes: bool) -> Any:
        shown.append(progress)
        return counter(what, total, False, in_bytes)

    monkeypatch.setattr(stamps, "counter", spy)
    stamps.digest(put(data / "small"))
    monkeypatch.setattr(stamps, "LARGE", 1000)
    stamps.digest(put(data / "large"))
    assert shown == [False, None]
