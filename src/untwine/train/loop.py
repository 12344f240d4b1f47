"""The loop: `fit` trains every pack of a run, and goes on where an earlier try was stopped."""

from __future__ import annotations

import contextlib
import platform
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from untwine._version import __version__
from untwine.errors import UntwineError
from untwine.locks import locked
from untwine.objective.core import is_leaf
from untwine.objective.schedules import schedule
from untwine.parts import leaves
from untwine.train import checkpoint
from untwine.train.batches import Table
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.ensemble import Ensemble, gather
from untwine.train.folder import Folder, how_to_resume, split, stored
from untwine.train.pack import Pack, batches
from untwine.train.paths import check_path, take_path
from untwine.train.progress import Reporter, report
from untwine.train.run import Member, Run
from untwine.train.trainer import Trainer


class Interrupted(UntwineError):
    """Training was stopped by a signal; nothing is lost."""


class Refused(UntwineError):
    """A run that cannot train as it is: found before anything was written."""


def fit(
    run: Run,
    out: str | Path | None = None,
    device: str = "auto",
    *,
    progress: bool | Reporter | None = None,
    checkpoint_seconds: float = 60.0,
    pack_size: int | None = None,
    batching: str = "auto",
    resident: bool | None = None,
    tensorboard: bool = False,
    path: str = "auto",
) -> Ensemble:
    """Train every member of a run and return them.

    With a folder `out` the run is written there, survives any interruption (call `fit` again to go on),
    and can be given further seeds later: only those are trained. Without, it lives in memory. Members that
    diverged are left out of what is returned.
    `progress` is a bar on the terminal, by default only where there is one. `pack_size` limits how many
    members train at once; `resident=False` streams data instead of keeping it on the device.
    `path` is "fast" (a GPU replays the whole step as compiled code, after half a minute of compiling), "plain"
    (operation by operation, as on a CPU), or "auto": the fast one where it works and the run is long enough. Both
    give the same results up to rounding. A pack that was stopped goes on with the path that it began with.
    """
    made = pick_device(device)
    check_precision(run.precision, made)
    check_path(path, made, "loop" if batching == "loop" else "vmap")
    if pack_size is not None and pack_size < 1:
        raise UntwineError(f"pack_size must be 1 or more, not {pack_size}")
    if not checkpoint_seconds >= 0:
        raise UntwineError(f"checkpoint_seconds must be 0 or more, not {checkpoint_seconds}")
    if tensorboard and out is None:
        raise UntwineError("TensorBoard's files need a folder: give out=")
    try:
        check(run)
    except UntwineError as error:
        raise Refused(str(error)) from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(exact(made))
        folder = None
        if out is not None:
            stack.enter_context(locked(Path(out)))
            folder = Folder(Path(out), run, run.info())
            packs = folder.packs(pack_size)
        else:
            packs = split([member.name for member in run.members()], pack_size)
        reporter = stack.enter_context(report(progress, folder.path if tensorboard and folder else None))
        uses = run.steps * run.batch_size * len(run.seeds)
        table = Table(run.make_dataset(), made, resident, uses, run.info().standard) if packs else None
        trained: list[tuple[Member, dict[str, Tensor]]] = []
        history: list[dict[str, Any]] = []
        own = {member.name: member for member in run.members()}
        for pack in packs:
            assert table is not None
            members = [folder.member(name, run) if folder else own[name] for name in pack["members"]]
            trainer = Trainer(members, run, table, made, batching)
            _train(trainer, pack, folder, reporter, checkpoint_seconds, history, path)
            states = [trainer.pack.state(i) for i in range(len(members))]
            died = trainer.state.died.tolist()
            if folder is not None:
                folder.finish(pack, states, died, run.steps)
            trained += [(m, s) for m, s, d in zip(members, states, died, strict=True) if d < 0]
            for member, step in zip(members, died, strict=True):
                if step >= 0:
                    warnings.warn(f"{member.name} diverged at step {step} and was stopped", stacklevel=2)
    if folder is not None:
        ensemble = gather(folder.path, made, [member.id for member in run.members()])
    elif not trained:
        raise UntwineError("every member diverged: try a smaller learning rate, or clip=1.0")
    else:
        ensemble = Ensemble([m for m, _ in trained], run.info(), [s for _, s in trained], made)
        ensemble.history = history
    ensemble.dataset = run.make_dataset()
    return ensemble


def resume(path: str | Path, device: str = "auto", **options: Any) -> Ensemble:
    """Go on with the run of a folder; see `fit` for the options."""
    return fit(stored(path), path, device, **options)


def _train(
    trainer: Trainer,
    pack: dict[str, Any],
    folder: Folder | None,
    reporter: Reporter,
    seconds: float,
    history: list[dict[str, Any]],
    path: str,
) -> None:
    """Train one pack, with its checkpoints, log and progress."""
    where = folder.path / "checkpoint" if folder else None
    about = {"pack": pack["number"], "members": pack["members"]}
    if folder is not None and where is not None:
        found = checkpoint.newest(where, about)
        if found is not None:
            trainer.state.put(*found)
        folder.rewind_log(pack["number"], trainer.state.step)
    began = pack.get("path", "plain" if "torch" in pack else None)  # there were packs before there were two paths
    take_path(trainer, path, began, reporter.note)
    if folder is not None:
        _note_provenance(folder, pack, trainer)
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if where is not None:
            checkpoint.save(where, trainer.state.step, trainer.state.tensors(), about)
        saved = time.monotonic()

    with _signals() as stop:
        reporter.begin(pack, trainer.state.step, trainer.run.steps)
        for entry in trainer.steps():
            if entry is not None:
                entry = {"pack": pack["number"], **entry}
                history.append(entry)
                reporter.log(entry)
                if folder is not None:
                    folder.log(entry)
            reporter.step(trainer.state.step)
            if stop.is_set():
                save()
                raise Interrupted(_interrupted(folder, trainer.state.step))
            if where is not None and time.monotonic() - saved >= seconds:
                save()


def _interrupted(folder: Folder | None, step: int) -> str:
    if folder is None:
        return "interrupted; nothing was saved: no folder was given"
    return f"interrupted; saved at step {step:,}; go on with: {how_to_resume(folder.path)}"


def _note_provenance(folder: Folder, pack: dict[str, Any], trainer: Trainer) -> None:
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
        warnings.warn(
            f"this run began with {key} {pack[key]} and goes on with {facts[key]}: "
            "its weights will not be bitwise those of a run without interruption",
            stacklevel=4,
        )
    if changed:
        pack.setdefault("earlier", []).append({key: pack[key] for key in facts})
    pack.update(facts, state="training")
    for name in pack["members"]:
        folder.entry(name)["state"] = "training"
    folder.write()


def check(run: Run) -> None:
    """Refuse what cannot train before anything is written, and point out what is nearly always a slip."""
    dataset, cpu = run.make_dataset(), torch.device("cpu")
    pack = Pack(run.members()[:1], run.info(), cpu)
    table = Table(dataset, cpu, resident=False, standard=pack.info.standard)
    few = table(torch.arange(min(len(dataset), 256)))
    before = torch.get_rng_state()
    with torch.no_grad():
        pack.template(few[:2])
    _undrawn(before, "the network")
    inputs = next(iter(batches(pack, table, min(run.batch_size, 4), "iid")(0, 1)))
    pack.step(inputs.x, tuple(w[0] for w in pack.weights(np.arange(1))), inputs.noise, True, None, inputs.second)
    _undrawn(before, "a penalty or its adversary")
    likelihood, low, high = pack.objective.likelihood, few.min().item(), few.max().item()
    least, most = likelihood.domain
    if not least <= low <= high <= most:
        warnings.warn(
            f"a {type(likelihood).__name__} likelihood is for data in [{least}, {most}], and these have values "
            f"from {low:.3g} to {high:.3g}: squared_error or gaussian would suit them",
            stacklevel=3,
        )
    for name, penalty in pack.objective.penalties.items():
        end = max(schedule(leaf).ends() for leaf in leaves(penalty, is_leaf))
        if end > run.steps:
            warnings.warn(
                f"the schedule of {name!r} goes on until step {end:,}, but the run has only {run.steps:,} steps "
                "(see the method's 'anneal')",
                stacklevel=3,
            )


def _undrawn(before: torch.Tensor, what: str) -> None:
    if not torch.equal(before, torch.get_rng_state()):
        torch.set_rng_state(before)
        raise UntwineError(f"{what} draws from torch's global generator: a member would depend on its company")


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """SIGINT and SIGTERM ask for a stop at the next step; outside the main thread they are left alone."""
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
