"""Runs on the Hugging Face hub: a run's folder with a model card, to publish and to load."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from untwine import files
from untwine.arguments import checked
from untwine.errors import UntwineError, brief, warn
from untwine.locations import run_folder
from untwine.scores import storage
from untwine.scores.scores import Scores
from untwine.sharing.cards import model_card
from untwine.train.ensemble import Ensemble
from untwine.train.folders.record import Record
from untwine.train.loading import load

CARD = "README.md"
PUBLISHED = ("run.json", "log.jsonl", storage.FILE)  # beside the weights
_INSTALL = "the Hugging Face hub needs a further package: pip install 'untwine[hub]'"


@checked("run")
def save_for_hub(run: str | Path | Ensemble, folder: str | Path, name: str | None = None) -> Path:
    """Write what `push_to_hub` publishes into a folder: the finished weights, JSON, and a model card to edit.

    Args:
        run: A run's folder, or its trained members.
        folder: A folder that is new or empty.
        name: The title of the card, such as the name on the hub; None takes that of the folder.
    """
    record, target = _record(run), Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UntwineError(f"{target} exists already and is not an empty folder; choose another")
    files.refuse_place(target, folder=True)
    done = [entry for entry in record.entries if entry["state"] == "done"]
    if not done:
        raise UntwineError(f"no member of {record.path} is finished: there is nothing to publish")
    for entry in done:
        try:
            record.weights(entry)
        except (OSError, ValueError) as error:
            raise UntwineError(f"the weights of {entry['name']} cannot be published: {error}") from None
    for path in _local_paths(record.content["run"]["dataset"]):
        warn(f"run.json names a path of this machine, which others will see: {path}")
    target.mkdir(parents=True, exist_ok=True)
    for file in (*PUBLISHED, *(entry["file"] for entry in done)):
        if (record.path / file).exists():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(record.path / file, target / file)
    scores = Scores(storage.of_members(storage.read(record.path), record.identities()))
    files.write(target / CARD, model_card(record, scores, name or target.name).encode())
    return target


@checked("run")
def push_to_hub(
    run: str | Path | Ensemble, name: str, private: bool = True, card: str | Path | None = None, **options: Any
) -> str:
    """Publish a run on the Hugging Face hub with a model card; return its address.

    Log in first (`hf auth login`). The repository is private unless said otherwise; the card chooses no licence.

    Args:
        run: A run's folder, or its trained members.
        name: The name on the hub: "user/model".
        private: Whether a new repository is private.
        card: A card of your own; None writes one.
        options: Further arguments of huggingface_hub's `upload_folder`, such as `commit_message` or `token`.
    """
    hub = _hub()
    refuse_name(name)
    with tempfile.TemporaryDirectory(prefix="untwine-hub-") as folder:
        target = save_for_hub(run, Path(folder) / "run", name)
        if card is not None:
            shutil.copyfile(card, target / CARD)
        try:
            api = hub.HfApi(token=options.pop("token", None))
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=str(target), **options)
        except Exception as error:  # of the network, of a name or of rights: the hub's own words are the best
            raise UntwineError(f"{name} could not be published: {brief(error)}") from error
    return f"https://huggingface.co/{name}"


@checked("device")
def from_hub(name: str | Path, revision: str | None = None, device: str = "auto", **options: Any) -> Ensemble:
    """The members of a run that was published on the hub, or saved in a folder. Nothing of it is executed.

    Args:
        name: The name on the hub, "user/model", or a folder.
        revision: A branch, tag or commit; None takes the newest.
        device: "auto", "cpu", "cuda" or "mps".
        options: Further arguments of huggingface_hub's `snapshot_download`, such as `token` or `cache_dir`.
    """
    if Path(name).is_dir():
        return load(name, device)
    hub = _hub()
    try:
        path = hub.snapshot_download(
            str(name), revision=revision, allow_patterns=[*PUBLISHED, "members/*.safetensors"], **options
        )
    except Exception as error:
        raise UntwineError(f"{name} is no folder here, and could not be had from the hub: {brief(error)}") from error
    return load(path, device)


def refuse_name(name: str) -> None:
    """Refuse what can be no name on the hub."""
    if not re.fullmatch(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", name):
        raise UntwineError(f"a name on the hub is user/model, such as my-name/jl1-dots, not {name!r}")


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UntwineError(_INSTALL) from None
    return huggingface_hub


def _record(run: str | Path | Ensemble) -> Record:
    path = run.path if isinstance(run, Ensemble) else run_folder(run)
    if path is None:
        raise UntwineError("these members live in memory alone: train them with a folder, uw.fit(run, out=...)")
    return Record.read(path)


def _local_paths(spec: Any) -> Iterator[str]:
    """The absolute paths in a dataset's spec."""
    if isinstance(spec, str) and os.path.isabs(spec):
        yield spec
    for value in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        yield from _local_paths(value)
