"""The loop: `fit` trains every pack of a run, and resumes where it was interrupted."""

from __future__ import annotations

import contextlib
import platform
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from untwine._version import __version__
from untwine.arguments import Count, NonNegative, checked
from untwine.errors import Diverged, Interrupted, UntwineError, warn
from untwine.locations import expanded, run_folder
from untwine.locks import locked
from untwine.model.vae import VAE
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.ensemble import Ensemble
from untwine.train.folders import checkpoint
from untwine.train.folders.folder import Folder, refuse_strangers, split
from untwine.train.folders.history import Lines
from untwine.train.folders.record import how_to_resume, stored
from untwine.train.loading import gather
from untwine.train.member import Member
from untwine.train.memory import kept_memory
from untwine.train.paths import check_path
from untwine.train.remarks import sizes
from untwine.train.remarks.doubts import Doubts
from untwine.train.remarks.dry_run import check_run
from untwine.train.remarks.progress import Reporter, report
from untwine.train.run import Run
from untwine.train.steps.diagnosis import causes
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer


class Refused(UntwineError):
    """A run that cannot train as it is, refused before anything was written."""


@checked("run", "device")
def fit(
    run: Run,
    out: str | Path | None = None,
    device: str = "auto",
    *,
    progress: bool | Reporter | None = None,
    checkpoint_seconds: NonNegative = 60.0,
    pack_size: Count | None = None,
    batching: Literal["auto", "vmap", "loop"] = "auto",
    resident: bool | None = None,
    tensorboard: bool = False,
    path: str = "auto",
) -> Ensemble:
    """Train every member of a run and return them.

    With a folder the run is written there, survives any interruption (call `fit` again to resume it), and can be
    given further seeds later: only those are trained. Members that diverged are left out of what is returned.

    Args:
        run: What to train.
        out: The folder of the run; without one it lives in memory alone.
        device: "auto", "cpu", "cuda" or "mps".
        progress: Whether to show a bar, or a reporter of your own; None shows a bar where there is a terminal.
        checkpoint_seconds: The time between two checkpoints.
        pack_size: The most members that train at once; None trains all of them at once.
        batching: How members are mapped: "vmap" (as one), "loop" (one by one), or "auto": what is faster.
        resident: Whether examples stay on the device; False streams them, None decides by the room there is.
        tensorboard: Whether terms are written for TensorBoard too.
        path: "fast" (a GPU replays the complete step as compiled code, after half a minute of compiling), "plain"
            (operation by operation, as on a CPU), or "auto": the fast one where it works and the run is long enough.
            Both give the same results up to rounding. A pack that was interrupted resumes on the path on which it
            began.
    """
    if not isinstance(run, Run):
        raise UntwineError(f"fit trains a Run, such as uw.Run('beta_vae', 'three_dots'), not {run!r:.100}")
    if out is not None:
        out = expanded(out)
    target = pick_device(device)
    check_precision(run.precision, target)
    check_path(path, target, "loop" if batching == "loop" else "vmap")
    if tensorboard and out is None:
        raise UntwineError("TensorBoard's files need a folder: give out=")
    begun = out is not None and (Path(out) / "run.json").exists()
    first = run.members()[: 1 if begun else pack_size]  # a folder knows best which of its members train
    try:
        sizes.refuse_larger(run, first, target)
        tried = Pack(first, run.info(), target, batching)
        check_run(run, tried)
    except UntwineError as error:
        raise Refused(str(error)) from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(exact(target))
        stack.enter_context(kept_memory())
        folder = None
        if out is not None:
            refuse_strangers(Path(out))
            stack.enter_context(locked(Path(out)))
            folder = Folder(Path(out), run, run.info())
            packs = folder.packs(pack_size)
        else:
            packs = split([member.name for member in run.members()], pack_size)
        reporter = stack.enter_context(report(progress, folder.path if tensorboard and folder else None))
        uses = run.steps * run.batch_size * len(run.seeds)
        standard, training = run.info().standard, run.training()
        table = Table(run.make_dataset(), target, resident, uses, standard, training) if packs else None
        trained: dict[str, tuple[Member, VAE]] = {}
        history = None if folder else Lines()  # a folder has the log, however long it gets
        by_name, why = {member.name: member for member in run.members()}, ""
        for entry in packs:
            assert table is not None
            members = [folder.member(name, run) if folder else by_name[name] for name in entry["members"]]
            same = _names(members) == _names(tried.members)
            pack = tried if same else Pack(members, run.info(), target, batching)
            trainer = Trainer(pack, run, table)
            _train(trainer, entry, folder, reporter, checkpoint_seconds, history, path)
            weights, died = trainer.state.weights, trainer.state.died.tolist()
            reasons = causes(trainer)
            if folder is not None:
                states = [pack.state(weights, i) for i in range(len(members))]
                folder.finish(entry, states, died, run.steps, reasons)
            for i, (member, step) in enumerate(zip(members, died, strict=True)):
                if step < 0:
                    trained[member.id] = member, pack.model(weights, i)
                else:
                    warn(f"{member.name} diverged at step {step} and was stopped: {reasons[member.name]}")
            why = next(iter(reasons.values()), why)
    if folder is not None:
        ensemble = gather(folder.record(), target, [member.id for member in run.members()], trained)
    elif not trained:
        raise Diverged(f"every member diverged: {why}")
    else:
        ensemble = Ensemble([m for m, _ in trained.values()], [model for _, model in trained.values()], target)
        ensemble.history = history or []
    ensemble.run = run
    return ensemble


def _names(members: Sequence[Member]) -> list[tuple[str, str]]:
    return [(member.id, member.name) for member in members]


@checked("path", "device")
def resume(path: str | Path, device: str = "auto", **options: Any) -> Ensemble:
    """Resume the run of a folder.

    Args:
        path: The folder.
        device: "auto", "cpu", "cuda" or "mps".
        options: Further arguments of `fit`.
    """
    folder = run_folder(path)
    return fit(stored(folder), folder, device, **options)


def _train(
    trainer: Trainer,
    pack: dict[str, Any],
    folder: Folder | None,
    reporter: Reporter,
    seconds: float,
    history: Lines | None,
    path: str,
) -> None:
    """Train one pack, with its checkpoints, log and progress."""
    checkpoints = folder.path / "checkpoint" if folder else None
    about = {"pack": pack["number"], "members": pack["members"]}
    if folder is not None and checkpoints is not None:
        newest, logged = checkpoint.newest(checkpoints, about), 0
        if newest is not None:
            _refuse_other(checkpoints, trainer, newest.step, newest.tensors)
            trainer.state.put(newest.step, newest.tensors)
            logged = newest.about.get("logged")
        folder.rewind_log(pack["number"], trainer.state.step, logged)
    began = pack.get("path", "plain" if "torch" in pack else None)  # there were packs before there were two paths
    trainer.take_path(path, began, reporter.note)
    if folder is not None:
        _note_provenance(folder, pack, trainer)
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if folder is not None and checkpoints is not None:
            folder.log.settle()
            logged = {"logged": folder.log.counts[pack["number"]]}
            checkpoint.save(checkpoints, trainer.state.step, trainer.state.tensors(), about | logged)
        saved = time.monotonic()

    doubts = Doubts(trainer.run.steps)
    with _signals() as stop:
        reporter.begin(pack, trainer.state.step, trainer.run.steps)
        for entry in trainer.steps():
            if entry is not None:
                entry = {"pack": pack["number"], **entry}
                if history is not None:
                    history.append(entry)
                reporter.log(entry)
                doubts.read(entry)
                if folder is not None:
                    folder.log.append(entry)
            reporter.step(trainer.state.step)
            if stop.is_set():
                save()
                raise Interrupted(_interrupted(folder, trainer.state.step))
            if checkpoints is not None and time.monotonic() - saved >= seconds:
                save()


def _refuse_other(checkpoints: Path, trainer: Trainer, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Refuse a checkpoint that is whole, and yet not of this training."""
    shapes = {name: tensor.shape for name, tensor in trainer.state.tensors().items()}
    if step > trainer.run.steps or {name: tensor.shape for name, tensor in tensors.items()} != shapes:
        raise UntwineError(
            f"the checkpoint of step {step:,} in {checkpoints} is not of this run: remove that folder, and training "
            "begins again"
        )


def _interrupted(folder: Folder | None, step: int) -> str:
    if folder is None:
        return "interrupted; nothing was saved: no folder was given"
    return f"interrupted; saved at step {step:,}; go on with: {how_to_resume(folder.path)}"


def _note_provenance(folder: Folder, pack: dict[str, Any], trainer: Trainer) -> None:
    """Write down with what a pack trains, and warn where that has changed since it began."""
    facts = {
        "untwine": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": str(trainer.pack.device),
        "hardware": torch.cuda.get_device_name() if trainer.pack.device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "batching": trainer.pack.batching,
        "path": trainer.path,
    }
    changed = [key for key, value in facts.items() if pack.get(key, value) != value]
    for key in changed:
        warn(
            f"this run began with {key} {pack[key]} and goes on with {facts[key]}: "
            "its weights will not be bitwise those of a run without interruption"
        )
    if changed:
        pack.setdefault("earlier", []).append({key: pack[key] for key in facts if key in pack})
    pack.update(facts, state="training")
    for name in pack["members"]:
        folder.entry(name)["state"] = "training"
    folder.write()


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, to stop at the next step; only in the main thread."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    old = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
