"""Each damaged file is refused with a line that names it, and nothing is written."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from damaged_files import ROWS, Row
from wrong_world import contents

from untwine.cli import main


@pytest.fixture
def copy(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the world that a row may damage; the run of pictures finds them where they were."""
    copied = shutil.copytree(world, tmp_path / "world", symlinks=True)
    monkeypatch.chdir(copied)
    monkeypatch.setenv("UNTWINE_DATA", str(copied / "empty"))
    return copied


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_damaged_file(row: Row, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row.damage(copy)
    before = contents(copy)
    code = main(shlex.split(row.words))
    said = capsys.readouterr()
    errors = [line for line in said.err.splitlines() if not line.startswith("untwine: warning: ")]
    assert row.message in said.err
    assert code == row.code
    assert errors and errors[0].startswith("untwine: ") and len(errors) <= 5
    assert "Traceback" not in said.err and "\x1b" not in said.err + said.out
    assert contents(copy) == before


def test_no_row_is_there_twice() -> None:
    assert len({row.what for row in ROWS}) == len(ROWS)
