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
from untwine.arguments import checked, coerce, hints
from untwine.errors import Interrupted, UntwineError, refuse_unknown
from untwine.launch import grid
from untwine.launch.mapping import Engine, check
from untwine.launch.members import PACK, Members, check_pack
from untwine.launch.results import Results
from untwine.launch.table import SweepTable
from untwine.launch.tasks import Means
from untwine.launch.units import Unit, work
from untwine.locations import expanded
from untwine.locks import locked
from untwine.scoring.evaluation import evaluate, refuse_impossible
from untwine.scoring.requests import requests
from untwine.train.devices import pick_device
from untwine.train.folders.record import FINISHED
from untwine.train.member import Member, each_paths
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
            content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
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
        settled, known = results.settled(), store.finished()
        training = {folder for _, folder in missing}
        left = [
            record.path
            for member in wanted
            if member.id in known and ((record := known[member.id][0]).path.name, member.id) not in settled
        ]
        only_scored = [folder for folder in dict.fromkeys(left) if folder not in training]
        return units + [Unit(store.path, folder, None, device, self.scoring) for folder in only_scored]

    def table(self, out: str | Path, failed: Sequence[tuple[Unit, Mapping[str, Any]]] = ()) -> SweepTable:
        """A row for each member of each run, with what is known of it so far. Equal runs are one.

        Args:
            out: The folder of the sweep.
            failed: Units that came to nothing, and what was said of them.
        """
        results = Results(out, self.scoring)
        known, places = results.read(), Members(out).places()
        lost = {member.id for unit, _ in failed if unit.run for member in unit.run.members()}
        columns = grid.differing(self.settings)
        rows: dict[str, dict[str, Any]] = {}
        units = set[str]()
        for setting, run in zip(self.settings, self.runs, strict=True):
            for member in run.members():
                row = {column: setting.get(column) for column in columns} | {"seed": member.seed}
                if member.data_seed != member.seed:
                    row["data_seed"] = member.data_seed
                record, entry = places.get(member.id, (None, {"state": "waiting"}))
                finished = entry["state"] in FINISHED
                state = "failed" if member.id in lost and not finished else entry["state"]
                row |= {"id": member.id, "state": state}
                if record is not None and finished:
                    row |= {"folder": f"runs/{record.path.name}", "member": entry["name"]}
                    units.add(record.path.name)
                    result = known.get((record.path.name, member.id), {"terms": {}, "scores": {}})
                    row |= {"loss": result["terms"].get("loss"), **result["scores"]}
                rows.setdefault(json.dumps(row, sort_keys=True, default=str), row)
        problems, notes = (
            [*results.remarks(kind, units), *(text for _, said in failed for text in said[kind])]
            for kind in ("problems", "notes")
        )
        found = list(rows.values())
        return SweepTable(columns, found, list(dict.fromkeys(problems)), list(dict.fromkeys(notes)))


@checked("device", "prepare")
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
    if engine != "ray":  # other machines may have other devices
        pick_device(device)
    path = place(spec, out)
    made = spec if isinstance(spec, Sweep) else Sweep.from_json(spec) if isinstance(spec, Mapping) else Sweep.read(spec)
    _refuse_strangers(path)
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
        return expanded(out)
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
        run = Run.from_json(spec)
        for where, _ in each_paths(run.spec()):
            raise UntwineError(f"{where} has a number for each seed; in a sweep such a list stands under grid")
        return run
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
    asked = {str(name).replace("-", "_"): value for name, value in asked.items()}
    refuse_unknown("argument of score:", asked, known)
    right = hints(evaluate)
    given = {name: coerce(value, right[name], f"{name} of score") for name, value in asked.items()}
    full = {**known, **given}
    metrics, rho = (
        [full[key]] if isinstance(full[key], str | float | int) else full[key] for key in ("metrics", "rho")
    )
    refuse_impossible(metrics, rho, *(full[key] for key in ("windows", "points", "examples", "jacobians")))
    for request in requests(metrics):
        if request.metric.together:
            raise UntwineError(
                f"{request.label} compares the models of a run with each other, and a sweep scores each pack by "
                "itself: score the folders in runs/ when it is done, with untwine evaluate"
            )
    return {**asked, **({"metrics": metrics} if "metrics" in asked else {})}


def _refuse_strangers(path: Path) -> None:
    """Refuse a folder that holds a run of its own, or tables that no sweep wrote, which one would overwrite."""
    if (path / "run.json").exists():
        raise UntwineError(f"{path} holds a run of its own: choose another folder for the sweep")
    if not any((path / name).exists() for name in (".lock", "runs")):  # a sweep has both; a copy of it may lack one
        for table in (path / f"table.{kind}" for kind in ("csv", "json", "parquet")):
            if table.exists():
                raise UntwineError(f"{table} is of no sweep and would be overwritten: choose another folder")
