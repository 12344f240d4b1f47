"""Each wrong command line is refused with its message and its exit code, and writes nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from command_lines import ROWS, Row
from wrong_world import contents

from untwine.cli import COMMANDS, main


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row.words)[1:-1])
def test_a_wrong_command_line(row: Row, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(world)
    code = main(shlex.split(row.words))
    said = capsys.readouterr()
    errors = [line for line in said.err.splitlines() if not line.startswith("untwine: warning: ")]
    assert row.message in said.err
    assert code == row.code
    assert "Traceback" not in said.err and "\x1b" not in said.err + said.out
    assert not row.lines or (len(errors) == row.lines and errors[0].startswith("untwine: "))
    assert said.out == row.printed
    assert contents(world) == before


def test_every_command_has_rows() -> None:
    first = {row.words.split()[0] for row in ROWS if row.words}
    assert set(COMMANDS) <= first
    assert len({row.words for row in ROWS}) == len(ROWS)
