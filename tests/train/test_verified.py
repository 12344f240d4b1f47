"""A run's folder shows every change of its files, and leads nowhere else."""

import copy
import json
import random
import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import StopAt, same, tiny

import untwine as uw
from untwine.errors import UntwineError
from untwine.files import sealed
from untwine.scoring import results
from untwine.train.folders import checkpoint, record
from untwine.train.folders.history import courses
from untwine.train.folders.log import read_log
from untwine.train.member import identity


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    uw.fit(tiny(seeds=[0, 1], steps=2), folder)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "runs" / "run")


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None], ids: bool = True) -> None:
    """Change run.json as one would who knows all of its checksums."""
    content = json.loads((folder / "run.json").read_text())
    change(content)
    for entry in content["members"] if ids else []:
        entry["id"] = identity(entry["spec"], entry["seed"], entry["data_seed"])
    (folder / "run.json").write_text(json.dumps(sealed(content)))


def identities(content: dict[str, Any]) -> list[tuple[str, str]]:
    """What is written of each member's identity, and what its spec and seeds say."""
    return [(e["id"], identity(e["spec"], e["seed"], e["data_seed"])) for e in content["members"]]


def everything(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# --- confined ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../seed-0", "../../other", "a/b", "/tmp/x", "C:x", "..", "red\x1b[31m", "a\\b", ""])
@pytest.mark.parametrize("state", ["waiting", "done"])
def test_a_name_leads_nowhere_else(folder: Path, name: str, state: str) -> None:
    def change(content: dict[str, Any]) -> None:
        content["members"][0] |= {"name": name, "state": state}
        content["packs"] = []

    rewrite(folder, change)
    before = everything(folder.parent)
    for use in (uw.load, uw.resume, uw.evaluate):
        with pytest.raises(UntwineError, match=r"run\.json is damaged: the name .* is no plain name") as error:
            use(folder)
        assert "\n" not in str(error.value) and "\x1b" not in str(error.value)
    assert everything(folder.parent) == before


@pytest.mark.parametrize(
    "file",
    ["../outside.safetensors", "/etc/hostname", "members/../../outside.safetensors", "members//x", "run.json", 3],
)
def test_a_file_lies_in_the_folder(folder: Path, file: Any) -> None:
    shutil.copy(folder / "members" / "seed-0.safetensors", folder.parent / "outside.safetensors")
    rewrite(folder, lambda content: content["members"][0].update(file=file))
    before = everything(folder.parent)
    for use in (uw.load, uw.resume):
        with pytest.raises(UntwineError, match=r"run\.json is damaged: .*file"):
            use(folder)
    assert everything(folder.parent) == before


@pytest.mark.parametrize("part", ["members", "checkpoint", "log.jsonl", ".lock"])
def test_nothing_is_written_through_a_link(folder: Path, part: str) -> None:
    outside = folder.parent / "outside"
    if part in ("members", "checkpoint"):
        outside.mkdir()
        (outside / "step-000000001.json").write_text("mine")
    else:
        outside.write_text("mine")
    if (folder / part).is_dir():
        shutil.rmtree(folder / part)
    (folder / part).unlink(missing_ok=True)
    (folder / part).symlink_to(outside)
    before = everything(outside) or outside.read_bytes()
    with pytest.raises(UntwineError, match=r"link that leads out|cannot be written to"):
        uw.fit(tiny(seeds=[0, 1, 2], steps=2), folder)
    assert (everything(outside) or outside.read_bytes()) == before


def test_weights_are_not_read_through_a_link_but_in_the_cache_of_the_hub(folder: Path) -> None:
    snapshot = folder.parent / "snapshots" / "1a2b"
    shutil.copytree(folder, snapshot)
    for home, loads in ((folder.parent / "elsewhere", False), (folder.parent / "blobs", True)):
        home.mkdir()
        for file in (snapshot / "members").iterdir():
            shutil.copy(folder / "members" / file.name, home / file.name)
            file.unlink()
            file.symlink_to(home / file.name)
        if loads:
            assert len(uw.load(snapshot)) == 2
        else:
            with pytest.raises(UntwineError, match="link that leads out of the run's folder"):
                uw.load(snapshot)


# --- checkpoints -------------------------------------------------------------------------------------------


def test_only_our_own_checkpoints_are_removed(tmp_path: Path) -> None:
    import torch

    home, outside = tmp_path / "checkpoint", tmp_path / "outside"
    mine = [
        "my-step-notes.txt",
        "step-000000001.txt",
        "old-step-000000001.json",
        "step-000000001.json.bak",
        "step-1.json",
    ]
    for where in (home, outside):
        where.mkdir()
        for name in mine:
            (where / name).write_text("mine")
    (outside / "step-000000001.json").write_text("mine")
    (home / "step-000000002.json").symlink_to(outside / "step-000000001.json")
    (home / ".step-000000001.json.123.part").write_text("left behind")
    for step in (3, 4, 5):
        checkpoint.save(home, step, {"a": torch.zeros(1)}, {})
    assert {file.name for file in home.iterdir()} == {
        *mine,
        "step-000000002.json",
        *(f"step-00000000{step}.{kind}" for step in (4, 5) for kind in ("json", "safetensors")),
    }
    checkpoint.clear(home)
    assert {file.name for file in home.iterdir()} == {*mine, "step-000000002.json"}
    (tmp_path / "link").symlink_to(outside)
    checkpoint.clear(tmp_path / "link")
    assert {file.name for file in outside.iterdir()} == {*mine, "step-000000001.json"}
    assert checkpoint.newest(tmp_path / "link", {}) is None


# --- run.json ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_checksum", [True, False])
def test_a_flipped_bit_is_refused_or_harmless(folder: Path, with_checksum: bool) -> None:
    """Without a checksum, as of earlier versions, what is trained is guarded all the same."""
    file = folder / "run.json"
    content = json.loads(file.read_text())
    if not with_checksum:
        del content["sha256"]
        file.write_text(json.dumps(content, indent=1))
    before, refused, loaded = file.read_bytes(), 0, 0
    known = record.read(folder)
    for bit in random.Random(0).sample(range(8 * len(before)), 2_000):
        flipped = bytearray(before)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        try:
            read = record.read(folder)
        except UntwineError as error:
            refused += str(error).startswith(str(file)) and "\n" not in str(error)
        else:
            loaded += 1
            assert read == known if with_checksum else identities(read) == identities(known)
    assert refused + loaded == 2_000
    assert refused > (1_950 if with_checksum else 1_500)


def test_a_changed_learning_rate_trains_no_hybrid(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        uw.fit(tiny(), tmp_path, progress=StopAt(3))
    content = json.loads((tmp_path / "run.json").read_text())
    del content["sha256"]
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert record.read(tmp_path) == content  # one that was written before there were checksums
    for path in (["run"], ["members", 0, "spec"]):
        changed = copy.deepcopy(content)
        spec: Any = changed
        for key in path:
            spec = spec[key]
        spec["lr"] = 0.5
        (tmp_path / "run.json").write_text(json.dumps(changed))
        with pytest.raises(UntwineError, match=r"run\.json is damaged: (its run and its members|the id of seed-0)"):
            uw.resume(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("state", "dona"), ("seed", True), ("sha256", "0" * 63), ("steps", "2"), ("spec", []), ("id", "0" * 16)],
)
def test_a_wrong_entry_is_refused(folder: Path, key: str, value: Any) -> None:
    rewrite(folder, lambda content: content["members"][0].update({key: value}), ids=False)
    with pytest.raises(UntwineError, match=r"run\.json is damaged: the "):
        uw.load(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("number", 7), ("state", "dona"), ("members", ["seed-9"]), ("members", [[]]), ("logged", "3"), ("path", {})],
)
def test_a_wrong_pack_is_refused(folder: Path, key: str, value: Any) -> None:
    rewrite(folder, lambda content: content["packs"][0].update({key: value}))
    with pytest.raises(UntwineError, match=r"run\.json is damaged: .* pack "):
        uw.resume(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("latents", "3"), ("latents", -3), ("latents", 10**9), ("latents", 1e9), ("steps", -1), ("batch_size", "x"),
     ("lr", "x"), ("lr", -1.0), ("method", {"name": 3}), ("network", {"name": []}),
     ("optimiser", {"name": "adam", "betas": "x"})],
)  # fmt: skip
def test_hostile_values_are_refused_in_one_line(folder: Path, key: str, value: Any) -> None:
    def change(content: dict[str, Any]) -> None:
        for spec in (content["run"], *(entry["spec"] for entry in content["members"])):
            spec[key] = value

    rewrite(folder, change)
    with pytest.raises(UntwineError, match=r"run\.json") as error:
        uw.resume(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 1, "run": ' + "[" * 300 + "]" * 300 + "}", "\x00", ""])
def test_json_that_cannot_be_read_is_named(folder: Path, text: str) -> None:
    (folder / "run.json").write_text(text)
    for use in (uw.load, uw.resume):
        with pytest.raises(UntwineError, match=r"run\.json cannot be read"):
            use(folder)


def header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        header(b"{}", 2**60),
        header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 80]}}') + bytes(8),
        header(b'{"a": {"dtype": "F32", "shape": [1152921504606846976], "data_offsets": [0, 8]}}') + bytes(8),
        header(b'{"a": {"dtype": "X9", "shape": [2], "data_offsets": [0, 8]}}') + bytes(8),
        header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}') + bytes(8),
        header(b"[" * 10_000),
    ],
)
def test_absurd_weights_are_refused_in_one_line(folder: Path, content: bytes) -> None:
    sha256 = checkpoint.write(folder / "members" / "seed-0.safetensors", content)
    rewrite(folder, lambda changed: changed["members"][0].update(sha256=sha256))
    with pytest.raises(UntwineError, match=r"weights of seed-0 (cannot be used|in .* do not fit)") as error:
        uw.load(folder)
    assert "\n" not in str(error.value)


def test_a_run_that_was_killed_before_run_json_was_there_begins(tmp_path: Path) -> None:
    """What is left then is half of that file, which is no stranger's."""
    (tmp_path / ".run.json.999999999.part").write_text('{"format"')
    uw.fit(tiny(steps=2), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "log.jsonl", "members", "run.json"}


# --- log.jsonl ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [b"\x00\xff\xfe garbage", b"{}", b"[" * 100_000, b'{"pack": 0, "step": "5", "members": {}}', b"\r", b"",
     b'{"pack": 0, "step": 5, "members": {"seed-0": {"loss": NaN}}}',
     b'{"pack": 0, "step": 5, "members": {"seed-0": {"loss": 1' + b"0" * 400 + b'}}}',
     b'{"pack": 0, "step": 5, "members": {"red\\u001b[31m": {"loss": 1.0}}}'],
)  # fmt: skip
def test_a_damaged_line_of_the_log_is_named_and_left_out(folder: Path, damage: bytes) -> None:
    file = folder / "log.jsonl"
    whole = file.read_bytes()
    right = uw.load(folder).history
    file.write_bytes(damage + b"\n" + whole + b'{"pack": 0, "st')
    for use in (uw.load, uw.resume):
        with pytest.warns(UserWarning, match=r"log\.jsonl is damaged at line 1, which is left out"):
            assert use(folder).history == right
    assert results.members(folder)["seed-0"]["terms"] == dict(right[-1]["members"]["seed-0"])


def test_a_flipped_bit_in_the_log_is_in_nobodys_way(folder: Path) -> None:
    file = folder / "log.jsonl"
    whole = file.read_bytes()
    weights = {name: value.clone() for name, value in uw.load(folder).member(0).state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for bit in random.Random(1).sample(range(8 * len(whole)), 100):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            results.members(folder)
            courses(read_log(file))
        assert all(value.equal(weights[name]) for name, value in uw.load(folder).member(0).state_dict().items())


@pytest.mark.parametrize(("kind", "said"), [("folder", "cannot be read"), ("nothing", "0 of 1 lines that were logged")])
def test_without_a_log_weights_are_loaded(folder: Path, kind: str, said: str) -> None:
    (folder / "log.jsonl").unlink()
    if kind == "folder":
        (folder / "log.jsonl").mkdir()
    with pytest.warns(UserWarning, match=said):
        assert list(uw.load(folder).history) == []


def test_an_interrupted_run_goes_on_over_a_damaged_log(tmp_path: Path) -> None:
    run = tiny(log_every=1, steps=6)
    whole = uw.fit(run)
    with pytest.raises(RuntimeError):
        uw.fit(run, tmp_path, checkpoint_seconds=0, progress=StopAt(4))
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b"\xff\xfe\n")
    resumed = uw.fit(run, tmp_path)  # what was lost is logged again: nothing is to be said
    assert same(whole, resumed) and [line["step"] for line in resumed.history] == [1, 2, 3, 4, 5, 6]
