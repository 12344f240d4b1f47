# ruff: noqa: E501, a row is a line
"""Damaged and hostile files: what is done to them, the command that reads them, its exit code and its message."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from untwine import files
from untwine.files import sealed
from untwine.train.member import identity

Damage = Callable[[Path], None]


class Row(NamedTuple):
    what: str
    damage: Damage
    words: str
    message: str
    code: int = 1


# --- what is done -------------------------------------------------------------------------------------------


def text(path: str, content: str | bytes) -> Damage:
    """Put this in the place of a file."""
    return lambda world: (world / path).write_bytes(content.encode() if isinstance(content, str) else content)  # type: ignore[return-value]


def removed(path: str) -> Damage:
    return lambda world: (world / path).unlink()


def cut(path: str) -> Damage:
    """Keep the first half of a file."""

    def damage(world: Path) -> None:
        content = (world / path).read_bytes()
        (world / path).write_bytes(content[: len(content) // 2])

    return damage


def flipped(path: str, bit: int) -> Damage:
    def damage(world: Path) -> None:
        content = bytearray((world / path).read_bytes())
        content[bit // 8] ^= 1 << bit % 8
        (world / path).write_bytes(content)

    return damage


def a_folder(path: str) -> Damage:
    """Put a folder in the place of a file."""

    def damage(world: Path) -> None:
        (world / path).unlink(missing_ok=True)
        (world / path).mkdir()

    return damage


def a_link(path: str, target: str) -> Damage:
    """Put a link to elsewhere in the place of a file or a folder."""

    def damage(world: Path) -> None:
        if (world / path).is_dir():
            shutil.rmtree(world / path)
        (world / path).unlink(missing_ok=True)
        (world / path).symlink_to((world / target).resolve())

    return damage


def record(change: Callable[[dict[str, Any]], Any], ids: bool = True, seal: bool = True) -> Damage:
    """Change the run.json of the vectors, as one would who knows its checksums; all of them, or some."""

    def damage(world: Path) -> None:
        file = world / "runs" / "vectors" / "run.json"
        content = json.loads(file.read_text())
        change(content)
        for entry in content["members"] if ids else ():
            entry["id"] = identity(entry["spec"], entry["seed"], entry["data_seed"])
        file.write_text(json.dumps(sealed(content) if seal else content))

    return damage


def first(**changes: Any) -> Damage:
    """Change the entry of the first member."""
    return record(lambda content: content["members"][0].update(changes), ids=False)


def specs(**changes: Any) -> Damage:
    """Change the specs of the run and of all members."""

    def change(content: dict[str, Any]) -> None:
        for spec in (content["run"], *(entry["spec"] for entry in content["members"])):
            spec.update(changes)

    return record(change)


def weights(content: bytes) -> Damage:
    """Put other weights in the place of the first member's, with the checksum that belongs to them."""

    def damage(world: Path) -> None:
        import hashlib

        (world / WEIGHTS).write_bytes(content)
        first(sha256=hashlib.sha256(content).hexdigest())(world)

    return damage


def header(content: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(content) if length is None else length) + content


def claiming(shape: str, held: int = 8) -> bytes:
    """A .npy file whose header claims this shape."""
    said = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said)) + said.encode() + bytes(held)


def an_archive(content: bytes, name: str = "images.npy") -> Damage:
    def damage(world: Path) -> None:
        with zipfile.ZipFile(world / "pictures.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)

    return damage


def objects(world: Path) -> None:
    np.save(world / "pictures.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)


def broken_pictures(world: Path) -> None:
    for file in (world / "pictures").iterdir():
        file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))


def locked(world: Path) -> None:
    """Hold the lock of a run, as another process would."""
    import fcntl

    file = (world / "runs" / "stopped" / ".lock").open("r+")
    fcntl.flock(file, fcntl.LOCK_EX)
    _OPEN.append(file)


_OPEN: list[Any] = []  # files that keep a lock as long as the tests run

# --- the rows -----------------------------------------------------------------------------------------------

RUN_JSON, WEIGHTS, LOG = (f"runs/vectors/{name}" for name in ("run.json", "members/seed-0.safetensors", "log.jsonl"))
SCORES = "runs/vectors/scores.json"
EVALUATE, RESUME = "evaluate runs/vectors --metrics mig --points 60", "train --resume runs/vectors"
REPORT, SHOW = "report runs/vectors", "show runs/vectors --what curves"
DAMAGED = "run.json is damaged: "
LIST_BOMB = "[" * 100_000
IMAGES = "train vae --steps 1 --dataset images --dataset.source"

RUN_FILES = [
    Row("no run.json", removed(RUN_JSON), EVALUATE, "runs/vectors holds no run: there is no run.json in it"),
    Row("an empty run.json", text(RUN_JSON, ""), EVALUATE, "run.json cannot be read: Expecting value"),
    Row("half of run.json", cut(RUN_JSON), RESUME, "run.json cannot be read"),
    Row("a run.json of bytes", text(RUN_JSON, bytes(range(256))), REPORT, "run.json cannot be read"),
    Row(
        "a deep run.json",
        text(RUN_JSON, LIST_BOMB),
        SHOW,
        "run.json cannot be read: its JSON is nested more than 100 de",
    ),
    Row("a list as run.json", text(RUN_JSON, "[]"), EVALUATE, "is not a run that untwine"),
    Row("a run.json of the future", record(lambda c: c.update(format=99)), EVALUATE, "is not a run that untwine"),
    Row("a folder as run.json", a_folder(RUN_JSON), EVALUATE, "holds no run: there is no run.json in it"),
    Row("a flipped bit of run.json", flipped(RUN_JSON, 8_003), RESUME, "run.json"),
    Row(
        "an edited run.json",
        record(lambda c: c.update(untwine="9"), seal=False),
        EVALUATE,
        "not that of its checksum. If yo",
    ),
    Row("no members", record(lambda c: c.update(members=[])), EVALUATE, f"{DAMAGED}it has no members"),
    Row(
        "no list of members",
        record(lambda c: c.pop("members"), ids=False),
        EVALUATE,
        f"{DAMAGED}its 'members' is missing",
    ),
    Row("an unknown key", record(lambda c: c.update(extra=1)), EVALUATE, f"{DAMAGED}it has an unknown 'extra'"),
    Row(
        "no size of the data",
        record(lambda c: c.update(data_size=0)),
        EVALUATE,
        "its 'data_size' is not what it should be",
    ),
    Row("a negative shape", record(lambda c: c.update(shape=[-3])), EVALUATE, "its 'shape' is not what it should be"),
    Row("a shape of a terabyte", record(lambda c: c.update(shape=[10**12])), EVALUATE, "its 'shape' is not what it sh"),
    Row(
        "a name that leads out",
        first(name="../pictures/seed-0"),
        RESUME,
        "the name '../pictures/seed-0' of a member is no pl",
    ),
    Row(
        "a name that paints",
        first(name="red\x1b[31m"),
        EVALUATE,
        r"the name 'red\x1b[31m' of a member is no plain name",
    ),
    Row(
        "a file that leads out",
        first(file="../../notes.txt"),
        EVALUATE,
        "the file of seed-0 lies outside of the run's folder",
    ),
    Row(
        "a file elsewhere in the folder",
        first(file="run.json"),
        RESUME,
        "lies outside of the run's folder, or is no plain",
    ),
    Row("an unknown state", first(state="dona"), RESUME, "the state of seed-0 is 'dona', not one of waiting, training"),
    Row(
        "a state that is a number", first(state=3), EVALUATE, "the 'state' of a member is missing or not what it should"
    ),
    Row("another id", first(id="0" * 16), EVALUATE, "the id of seed-0 is not that of its spec and seeds"),
    Row(
        "a seed that is a text", first(seed="0"), EVALUATE, "the 'seed' of a member is missing or not what it should be"
    ),
    Row("a cause that paints", first(cause="\x1b[31m"), EVALUATE, "the cause of seed-0 is not what it should be"),
    Row("two members of one name", first(name="seed-1"), EVALUATE, "two members have the same name"),
    Row(
        "latents as a text", specs(latents="3"), EVALUATE, "latents in the spec of seed-0 must be a whole number from 1"
    ),
    Row(
        "negative latents",
        specs(latents=-3),
        RESUME,
        "latents in the spec of seed-0 must be a whole number from 1 to 100,",
    ),
    Row(
        "a billion latents", specs(latents=10**9), REPORT, "latents in the spec of seed-0 must be a whole number from 1"
    ),
    Row("a batch of 1e30", specs(batch_size=10**30), RESUME, "batch_size in the spec of seed-0 must be a whole number"),
    Row(
        "a method that is no mapping",
        specs(method="vae"),
        EVALUATE,
        "method in the spec of seed-0 is missing or not what",
    ),
    Row("an unknown method", specs(method={"name": "sentence"}), EVALUATE, "run.json: unknown method 'sentence'"),
    Row(
        "a method that formats",
        specs(method={"name": "beta_vae", "beta": "{}"}),
        EVALUATE,
        "must be a number, not '{}'",
    ),
    Row(
        "a part that is no part",
        specs(method={"objective": {"part": "os.system"}}),
        EVALUATE,
        "unknown part 'os.system'",
    ),
    Row("data of nothing", specs(dataset={"name": "synthetic_linear", "samples": 0}), EVALUATE, "vectors/run.json: "),
    Row(
        "data of no size",
        specs(dataset={"name": "xy_squares", "size": -1}),
        RESUME,
        "vectors/run.json: xy_squares: size -1 and",
    ),
    Row("a network of nothing", specs(network={"name": []}), EVALUATE, "run.json"),
    Row(
        "a network of exabytes",
        specs(network={"name": "mlp", "hidden": [10**9, 10**9]}),
        EVALUATE,
        "run.json: network 'ml",
    ),
    Row("a learning rate of text", specs(lr="fast"), RESUME, "run.json: lr must be a number, not 'fast'"),
    Row("a pack of a stranger", record(lambda c: c["packs"][0].update(members=["x"])), RESUME, "not in the list"),
    Row(
        "a pack in no state",
        record(lambda c: c["packs"][0].update(state="x")),
        RESUME,
        "the state of a pack is 'x', not",
    ),
    Row(
        "no weights",
        removed(WEIGHTS),
        EVALUATE,
        "seed-0.safetensors: No such file or directory; to train them again: u",
    ),
    Row("half of the weights", cut(WEIGHTS), EVALUATE, "does not have the checksum that was written down for it"),
    Row(
        "a flipped bit of the weights",
        flipped(WEIGHTS, 4_001),
        "export runs/vectors --hub-folder hub",
        "cannot be published",
    ),
    Row("a folder as weights", a_folder(WEIGHTS), EVALUATE, "the weights of seed-0 cannot be used"),
    Row("weights elsewhere", a_link(WEIGHTS, "notes.txt"), EVALUATE, "is a link that leads out of the run's folder"),
    Row("empty weights", weights(b""), EVALUATE, "is no safetensors file"),
    Row("weights of an exabyte", weights(header(b"{}", 2**60)), EVALUATE, "is no safetensors file"),
    Row(
        "weights of no shape",
        weights(header(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,80]}}')),
        EVALUATE,
        "is no s",
    ),
    Row("deep weights", weights(header(b"[" * 10_000)), EVALUATE, "is no safetensors file"),
    Row(
        "members elsewhere",
        a_link("runs/vectors/members", "pictures"),
        RESUME,
        "a link that leads out of the run's folder",
    ),
    Row("a log elsewhere", a_link(LOG, "notes.txt"), RESUME, "a link that leads out of the run's folder: remove it"),
    Row(
        "damaged scores",
        text(SCORES, "{"),
        EVALUATE,
        "scores.json cannot be used: it is damaged, or of another version",
    ),
    Row("deep scores", text(SCORES, LIST_BOMB), EVALUATE, "scores.json cannot be used"),
    Row("scores that are a list", text(SCORES, "[]"), EVALUATE, "move it away to score anew"),
    Row("a run in use", locked, "train --resume runs/stopped", "runs/stopped is in use by "),
]

DATA_FILES = [
    Row("an array of 256 TB", text("pictures.npy", claiming("(1099511627776, 16, 16)")), f"{IMAGES} pictures.npy", "it claims to hold 281.5 TB, and has 8 bytes", 2),
    Row("an array of negative size", text("pictures.npy", claiming("(-1, 16, 16)")), f"{IMAGES} pictures.npy", "cannot read", 2),
    Row("half of an array", cut("pictures.npy"), f"{IMAGES} pictures.npy", "it claims to hold 768 bytes, and has", 2),
    Row("an array of objects", objects, f"{IMAGES} pictures.npy", "it holds Python objects", 2),
    Row("an empty file", text("pictures.npy", ""), f"{IMAGES} pictures.npy", "it does not begin as an array of NumPy does", 2),
    Row("an archive of 281 TB", an_archive(claiming("(1099511627776, 16, 16)")), f"{IMAGES} pictures.npz", "would need 281.5 TB of memory", 2),
    Row("an archive of nothing", an_archive(b"", "readme"), f"{IMAGES} pictures.npz", "cannot read", 2),
    Row("half of an archive", cut("pictures.npz"), f"{IMAGES} pictures.npz", "cannot read", 2),
    Row("broken pictures", broken_pictures, f"{IMAGES} pictures", "none of the 12 files in", 2),
    Row("a table of one line", text("factors.csv", "x,y\n"), f"{IMAGES} pictures --dataset.factors factors.csv", "and a line for each picture", 2),
    Row("a table with a hole", text("factors.csv", "x,y\n" + "1,\n" * 12), f"{IMAGES} pictures --dataset.factors factors.csv", "line 2 has nothing in column 'y'", 2),
    Row("a table of half the rows", text("factors.csv", "x,y\n1,2\n2,3\n"), f"{IMAGES} pictures --dataset.factors factors.csv", "2", 2),
    Row("a table of bytes", text("factors.csv", b"x,y\n\xff\xfe\n"), f"{IMAGES} pictures --dataset.factors factors.csv", "is no text in UTF-8", 2),
    Row("an array as a table of 281 TB", text("factors.npy", claiming("(1099511627776, 256)")), f"{IMAGES} pictures --dataset.factors factors.npy", "it claims to hold 281.5 TB", 2),
    Row("a wrong file in the data folder", lambda world: [(world / "empty/mnist").mkdir(), text("empty/mnist/train-images-idx3-ubyte.gz", "x")(world)], "train vae --dataset mnist --steps 1", "train-images-idx3-ubyte.gz"),  # type: ignore[arg-type, return-value]
    Row("another folder's pictures", removed("notes.txt"), "train beta-vae --dataset images --dataset.source pictures.npy --network mlp --network.hidden 8 --steps 1 --out runs/pictures", "runs/pictures holds another run: its dataset.source is"),
    Row("a sweep that is no TOML", text("sweep.toml", "[run"), "sweep sweep.toml", "sweep.toml is no TOML", 2),
    Row("an empty sweep", text("sweep.toml", ""), "sweep sweep.toml", "a run needs a method", 2),
    Row("a sweep of bytes", text("sweep.toml", b"\xff\xfe\x00"), "sweep sweep.toml", "sweep.toml is no TOML", 2),
    Row("a sweep without data", text("sweep.toml", '[run]\nmethod = "vae"\n'), "sweep sweep.toml", "dataset", 2),
    Row("a sweep of an unknown method", text("sweep.toml", '[run]\nmethod = "vea"\ndataset = "pinwheel"\n'), "sweep sweep.toml", "unknown method 'vea'", 2),
    Row("a sweep of an unknown table", text("sweep.toml", '[rnu]\nmethod = "vae"\n'), "sweep sweep.toml", "rnu", 2),
    Row("a sweep of an unknown field", text("sweep.toml", '[run]\nmethod = "vae"\ndataset = "synthetic-linear"\nstpes = 3\n'), "sweep sweep.toml", "stpes", 2),
]  # fmt: skip

ROWS = RUN_FILES + DATA_FILES

__all__ = ["ROWS", "Row", "files"]
