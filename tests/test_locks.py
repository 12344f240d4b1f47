"""Locks of folders: what the second process is told."""

import threading
from pathlib import Path

import pytest

from untwine.errors import UntwineError
from untwine.locks import locked

fcntl = pytest.importorskip("fcntl", reason="locks of other systems")


def test_who_has_just_taken_the_lock_is_named(tmp_path: Path):
    """Between taking a lock and saying so passes a moment, in which another process may ask."""
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def say() -> None:
            file.write("123")
            file.flush()

        threading.Timer(0.1, say).start()
        with pytest.raises(UntwineError, match="in use by process 123; wait"), locked(tmp_path):
            pass


def test_a_lock_that_was_left_names_nobody(tmp_path: Path):
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text().isdecimal()
    assert (tmp_path / ".lock").read_text() == ""
