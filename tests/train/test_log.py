"""The log shows every change of its lines, and never keeps anyone from the weights."""

from __future__ import annotations

import json
import random
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import StopAt, same, tiny

import untwine as uw
from untwine.scoring.results import members
from untwine.train.folders.log import of_line, read_log, to_line


def entry(step: int) -> dict[str, object]:
    return {"pack": 0, "step": step, "members": {"seed-0": {"loss": step / 3, "kl": None, "diverged": 2}}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.jsonl").write_bytes(b"".join(to_line(entry(step)) for step in range(1, 9)))
    return tmp_path / "log.jsonl"


def test_a_line_has_the_checksum_of_its_json(log: Path) -> None:
    for line in log.read_text().splitlines():
        content = json.loads(line)
        stated = content.pop("crc32")
        assert int(stated, 16) == zlib.crc32(json.dumps(content).encode())


def test_every_flipped_bit_of_a_line_is_seen() -> None:
    line = to_line(entry(5))
    for bit in range(8 * (len(line) - 1)):  # without the one that ends it
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match=r".+"):
            of_line(bytes(flipped))
    assert of_line(line) == entry(5)


def test_damaged_lines_are_left_out_and_reported_with_their_numbers(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"0.66", b"0.67")
    lines[4] = bytes(random.Random(0).randrange(256) for _ in range(50)).replace(b"\n", b"") + b"\n"
    log.write_bytes(b"".join(lines))
    with pytest.warns(UserWarning, match=rf"{log} is damaged at line 2, 5, which is left out"):
        found = read_log(log)
    assert found == [entry(step) for step in (1, 3, 4, 6, 7, 8)]


@pytest.mark.parametrize("length", [0, 100, -3, -1])
def test_lines_that_are_missing_are_reported(log: Path, length: int) -> None:
    pack = {"number": 0, "state": "done", "logged": 8}
    assert read_log(log, [pack]) == [entry(step) for step in range(1, 9)]
    log.write_bytes(log.read_bytes()[:length])
    if length == -1:  # only the end of the last line
        assert len(read_log(log, [pack])) == 8
        return
    with pytest.warns(UserWarning, match=rf"{log} has {0 if length >= 0 else 7} of 8 lines that were logged"):
        read_log(log, [pack])
    with warnings.catch_warnings():  # a run that still trains may have been interrupted
        warnings.simplefilter("error")
        read_log(log, [{**pack, "state": "training"}])


def test_lines_of_earlier_versions_have_no_checksum(log: Path) -> None:
    log.write_text("".join(json.dumps(entry(step)) + "\n" for step in (1, 2)))
    assert read_log(log) == [entry(1), entry(2)]
    for line in (
        "[]",
        '{"step": 2}',
        '{"pack": 0, "step": true, "members": {}}',
        '{"pack": 0, "step": 1, "members": []}',
        '{"pack": 0, "step": 1, "members": {"a": []}}',
        '{"pack": 0, "step": 1, "members": {"a": {"kl": "x"}}}',
        json.dumps({**entry(1), "more": 1}),
        json.dumps({**entry(1), "members": {"a": {"kl": 10**400}}}),
        "[" * 100_000,
    ):
        log.write_text(line + "\n" + json.dumps(entry(2)) + "\n")
        with pytest.warns(UserWarning, match="is damaged at line 1, which"):
            assert read_log(log) == [entry(2)]
    assert list(read_log(log.parent / "none")) == []


def garbage(log: Path) -> None:
    log.write_bytes(b"\x80\xff\n" + log.read_bytes()[9:])


def removed(log: Path) -> None:
    log.unlink()


def cut(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:1]))


@pytest.mark.parametrize("damage", [garbage, removed, cut])
def test_a_damaged_log_stops_nothing_and_is_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    whole = uw.fit(tiny(steps=40), tmp_path / "whole")
    with pytest.raises(RuntimeError):
        uw.fit(tiny(steps=40), tmp_path / "cut", progress=StopAt(33), checkpoint_seconds=0)
    damage(tmp_path / "cut" / "log.jsonl")
    with pytest.warns(UserWarning, match=r"cut/log\.jsonl (is damaged at line 1|has [01] of 6 lines)"):
        again = uw.resume(tmp_path / "cut")
    assert same(again, whole)
    with pytest.warns(UserWarning, match=r"cut/log\.jsonl has . of 8 lines that were logged"):
        assert same(uw.load(tmp_path / "cut"), whole)
    damage(tmp_path / "whole" / "log.jsonl")
    for use in (uw.load, members, lambda path: uw.evaluate(path, metrics=["mig"], points=100)):
        with pytest.warns(UserWarning, match=r"whole/log\.jsonl (is damaged at line 1|has [01] of 8 lines)"):
            use(tmp_path / "whole")


def test_what_was_logged_after_the_checkpoint_is_logged_again(tmp_path: Path) -> None:
    """Damage there is made good without a word."""
    uw.fit(tiny(steps=40), tmp_path / "whole")
    with pytest.raises(RuntimeError):
        uw.fit(tiny(steps=40), tmp_path / "cut", progress=StopAt(33))
    (tmp_path / "cut" / "log.jsonl").write_bytes(b"\x80\xff")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uw.resume(tmp_path / "cut")
    assert (tmp_path / "cut" / "log.jsonl").read_bytes() == (tmp_path / "whole" / "log.jsonl").read_bytes()
