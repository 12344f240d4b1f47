"""A sweep: many runs from one file, trained and scored by any engine, and a table of all their members."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine import data
from untwine.errors import Interrupted, UntwineError, refuse_unknown
from untwine.launch import grid
from untwine.launch.mapping import Engine, check
from untwine.launch.members import PACK, Members, check_pack
from untwine.launch.results import Results
from untwine.launch.table import SweepTable
from untwine.launch.tasks import Means
from untwine.launch.units import Unit, work
from untwine.locks import locked
from untwine.scoring.evaluation import evaluate, refuse_impossible
from untwine.train.folders.record import FINISHED
from untwine.train.member import Member
from untwine.train.run import Run

FOLDER = "sweeps"  # where sweeps go by default
_NOT_SAID = ("run", "device", "again", "dataset", "progress")  # arguments of evaluate that no file has


@dataclass(frozen=True)
class Sweep:
    """What a sweep's file says.

    Args:
        settings: The settings of each run by their paths, as `untwine.launch.grid.settings` returns them.
        runs: The runs.
        scoring: Arguments of `evaluate`; None scores nothing.
    """

    settings: tuple[dict[str, Any], ...]
    runs: tuple[Run, ...]
    scoring: dict[str, Any] | None

    @classmethod
    def read(cls, path: str | Path) -> Sweep:
        """The sweep of a TOML file."""
        path = Path(path)
        try:
            content = tomllib.loads(path.read_bytes().decode())
        except OSError as error:
            raise UntwineError(f"{path} cannot be read: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise UntwineError(f"{path} is no TOML: {str(error).partition(chr(10))[0]}") from None
        try:
            return cls.from_json(content)
        except UntwineError as error:
            raise type(error)(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Sweep:
        """The sweep that a mapping describes: `run`, `grid`, `runs` and `score`, as in a file."""
        settings = grid.settings(content)
        made: dict[str, data.Dataset] = {}
        told = grid.differing(settings) if len(settings) > 1 else []
        runs = tuple(_run(i, setting, made, told) for i, setting in enumerate(settings))
        return cls(tuple(settings), runs, _scoring(content.get("score", {})))

    def members(self) -> list[Member]:
        """The members of all runs, each once."""
        return list({member.id: member for run in self.runs for member in run.members()}.values())

    def units(self, out: str | Path, device: str = "auto", pack: int = PACK) -> list[Unit]:
        """What is left to do: packs to train and score, and trained ones to score.

        Args:
            out: The folder of the sweep.
            device: auto, cpu, cuda or mps.
            pack: The most members that train at once.
        """
        check_pack(pack)
        store, results = Members(out), Results(out, self.scoring)
        wanted = self.members()
        missing = store.missing(wanted, pack)
        units = [Unit(store.path, folder, run, device, self.scoring) for run, folder in missing]
        settled, ids = results.settled(), {member.id for member in wanted}
        training = {folder for _, folder in missing}
        for record in store.records():
            finished = {entry["id"] for entry in record.entries if entry["state"] in FINISHED}
            if record.path not in training and (finished & ids) - settled:
                units.append(Unit(store.path, record.path, None, device, self.scoring))
        return units

    def table(self, out: str | Path, failed: Sequence[tuple[Unit, Mapping[str, Any]]] = ()) -> SweepTable:
        """A row for each member of each run, with what is known of it so far.

        Args:
            out: The folder of the sweep.
            failed: Units that came to nothing, and what was said of them.
        """
        results = Results(out, self.scoring)
        known = results.read()
        places = {
            entry["id"]: (entry["state"], record) for record in Members(out).records() for entry in record.entries
        }
        lost = {member.id for unit, _ in failed if unit.run for member in unit.run.members()}
        columns = grid.differing(self.settings)
        rows = []
        for setting, run in zip(self.settings, self.runs, strict=True):
            for member in run.members():
                row = {column: setting.get(column) for column in columns} | {"seed": member.seed}
                if member.data_seed != member.seed:
                    row["data_seed"] = member.data_seed
                state, record = places.get(member.id, ("waiting", None))
                row |= {"id": member.id, "state": "failed" if member.id in lost else state}
                result = known.get(member.id)
                if result is not None and record is not None and row["state"] in FINISHED:
                    row |= {"folder": f"runs/{record.path.name}", "loss": result["terms"].get("loss")}
                    row |= result["scores"]
                rows.append(row)
        ids = {row["id"] for row in rows}
        problems, notes = (
            [*results.remarks(kind, ids), *(text for _, said in failed for text in said[kind])]
            for kind in ("problems", "notes")
        )
        return SweepTable(columns, rows, list(dict.fromkeys(problems)), list(dict.fromkeys(notes)))


def sweep(
    spec: str | Path | Mapping[str, Any] | Sweep,
    out: str | Path | None = None,
    engine: Engine = "inline",
    device: str = "auto",
    *,
    workers: int | None = None,
    gpus: float | None = None,
    retries: int = 3,
    address: str | None = None,
    pack: int = PACK,
    prepare: Callable[[], None] | None = None,
    progress: bool | None = None,
) -> SweepTable:
    """Train and score many runs, and return a table with a row for each member.

    Runs that differ in seeds, in numbers of their method or in their learning rate train together, in packs. What is
    finished is never computed again: interrupted, the same call goes on. A unit that fails stops no other; the table
    has what went wrong.

    Args:
        spec: A TOML file, its content as a mapping, or a `Sweep`.
        out: The folder of the sweep; by default sweeps/, and in it the name of the file.
        engine: inline (here, one pack after the other), processes (on this machine, one for each GPU or core) or ray.
        device: auto, cpu, cuda or mps.
        workers: The most packs that train at once; by default as many as there are GPUs, or cores.
        gpus: GPUs for each pack; by default one where there are any. Ray also takes parts, such as 0.5.
        retries: How often a pack whose worker died is tried again; it goes on from its last checkpoint.
        address: The address of a Ray cluster, or "auto"; by default Ray is started on this machine.
        pack: The most members that train at once in a pack.
        prepare: Is called in each worker first, to import a user's own parts.
        progress: Whether to show a bar; by default on a terminal.
    """
    means = Means(workers, gpus, retries, address, prepare)
    check(engine, means)
    path = place(spec, out)
    made = spec if isinstance(spec, Sweep) else Sweep.from_json(spec) if isinstance(spec, Mapping) else Sweep.read(spec)
    with locked(path):
        results, failed = Results(path, made.scoring), list[tuple[Unit, Mapping[str, Any]]]()
        try:
            for unit, done in work(made.units(path, device, pack), engine, means, "training", progress):
                results.keep(unit.folder.name, done)
                failed += [] if done["members"] else [(unit, done)]
        except (Interrupted, KeyboardInterrupt):
            raise Interrupted("interrupted; what was done is kept: the same command goes on from there") from None
        table = made.table(path, failed)
        table.write(path)
    return table


def place(spec: str | Path | Mapping[str, Any] | Sweep, out: str | Path | None) -> Path:
    """The folder of a sweep.

    Args:
        spec: Its file, or what it says.
        out: The folder that was asked for.
    """
    if out is not None:
        return Path(out).expanduser()
    if not isinstance(spec, str | Path):
        raise UntwineError("a sweep without a file needs a folder: give out=")
    return Path(FOLDER) / Path(spec).stem


def _run(number: int, setting: Mapping[str, Any], made: dict[str, data.Dataset], told: Sequence[str]) -> Run:
    """The run of a setting; datasets are made once for all runs. Errors say which run it is, by the paths `told`."""
    try:
        spec = grid.spec(setting)
        if "dataset" in spec:
            named = spec["dataset"] if isinstance(spec["dataset"], Mapping) else {"name": spec["dataset"]}
            key = json.dumps(named, sort_keys=True, default=str)
            if key not in made:
                made[key] = data.build(data.full_spec(dict(named)))
            spec["dataset"] = made[key]
        return Run.from_json(spec)
    except UntwineError as error:
        words = ", ".join(f"{path}={setting[path]}" for path in told if path in setting)
        raise type(error)(f"run {number + 1} ({words}): {error}" if words else str(error)) from None


def _scoring(asked: Any) -> dict[str, Any] | None:
    """Arguments of `evaluate` from the section `score`; None where it is false."""
    if asked is False:
        return None
    if not isinstance(asked, Mapping):
        raise UntwineError(f"score is a table of evaluate's arguments, or false, not {asked!r}")
    defaults = {name: parameter.default for name, parameter in inspect.signature(evaluate).parameters.items()}
    known = {name: value for name, value in defaults.items() if name not in _NOT_SAID}
    refuse_unknown("argument of score:", asked, known)
    full = {**known, **asked}
    metrics, rho = (
        [full[key]] if isinstance(full[key], str | int | float) else full[key] for key in ("metrics", "rho")
    )
    refuse_impossible(metrics, rho, full["windows"], full["points"])
    return {**asked, **({"metrics": metrics} if "metrics" in asked else {})}
