"""What a `run.json` must look like: its keys, types, names and states, and the identities of its members."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from untwine import files
from untwine.parts import is_each, resolve
from untwine.train.folders.names import file_stem, is_plain
from untwine.train.member import MOST, SILENT, each_paths, identity

FINISHED = ("done", "diverged")

_STATES = ("waiting", "training", *FINISHED)
_PACK_STATES = ("waiting", "training", "done")
_OUTLINE = {"run": dict, "shape": list, "data_size": int, "members": list, "packs": list}
_KEYS = {*_OUTLINE, "format", "untwine", "content", "standard", files.SEAL}
_ENTRY = {"name": str, "id": str, "seed": int, "data_seed": int, "state": str, "spec": dict}
_FACTS = {  # what a pack may say beside
    **dict.fromkeys(("untwine", "torch", "python", "device", "hardware", "batching", "path"), str),
    **dict.fromkeys(("threads", "logged"), int),
    "earlier": list,
}
_LARGEST = 2**28  # numbers in an example
_HASH, _ID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{16}")


def damage(content: dict[str, Any]) -> str:
    """What is wrong with the content of a `run.json`, if anything is."""
    for key, kind in _OUTLINE.items():
        if not _is(content.get(key), kind):
            return f"its {key!r} is missing or not what it should be"
    if strange := sorted(content.keys() - _KEYS):
        return f"it has an unknown {strange[0]!r}"
    if not content["members"]:
        return "it has no members"
    return (
        _of_data(content)
        or next(filter(None, map(_of_member, content["members"])), "")
        or _of_names(content)
        or _of_packs(content)
        or _of_run(content)
        or _of_checksum(content)
    )


def leads_out(folder: Path, file: str) -> bool:
    """Whether a file or folder below a run's folder is, or lies behind, a link to elsewhere.

    Links of the hub's cache are no others: its snapshots are folders of links to `blobs` beside them.

    Args:
        folder: The run's folder, which may itself be a link.
        file: A path below it.
    """
    root, target = folder.resolve(), (folder / file).resolve()
    homes = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
    return not any(target.is_relative_to(home) for home in homes)


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _of_data(content: dict[str, Any]) -> str:
    """What is wrong with what is known of the data."""
    shape = content["shape"]
    if not shape or not all(_is(size, int) and size > 0 for size in shape) or math.prod(shape) > _LARGEST:
        return "its 'shape' is not what it should be"
    if content["data_size"] < 1:
        return "its 'data_size' is not what it should be"
    return "" if _is_standard(content.get("standard"), shape) else "its 'standard' is not what it should be"


def _is_standard(value: Any, shape: list[int]) -> bool:
    """Whether this is nothing, or a mean and a positive standard deviation for each channel."""
    if value is None:
        return True
    rows = value if isinstance(value, list) and len(value) == 2 else []
    numbers = [number for row in rows if isinstance(row, list) and len(row) == shape[0] for number in row]
    return len(numbers) == 2 * shape[0] and all(isinstance(number, float) for number in numbers) and min(rows[1]) > 0


def _of_member(entry: Any) -> str:
    """What is wrong with the entry of a member, whatever the others are."""
    for key, kind in _ENTRY.items():
        if not isinstance(entry, dict) or not _is(entry.get(key), kind):
            return f"the {key!r} of a member is missing or not what it should be"
    name = entry["name"]
    if not is_plain(name):
        return f"the name {name!r} of a member is no plain name"
    if entry["state"] not in _STATES:
        return f"the state of {name} is {entry['state']!r}, not one of {', '.join(_STATES)}"
    if not all(0 <= entry[key] < 2**62 for key in ("seed", "data_seed")):
        return f"a seed of {name} is not what it should be"
    finished = entry["state"] in FINISHED
    if "file" in entry or finished:
        if not isinstance(entry.get("file"), str):
            return f"{name} has no file"
        folder, _, file = entry["file"].partition("/")
        if folder != "members" or not is_plain(file) or not file.endswith(".safetensors"):
            return f"the file of {name} lies outside of the run's folder, or is no plain name in members/"
        if not _HASH.fullmatch(str(entry.get("sha256"))):
            return f"the sha256 of {name} is not what it should be"
        if not _is(entry.get("steps"), int) or entry["steps"] < 0:
            return f"the steps of {name} are not what they should be"
    if "cause" in entry and not (isinstance(entry["cause"], str) and entry["cause"].isprintable()):
        return f"the cause of {name} is not what it should be"
    return _of_spec(entry["spec"], f"the spec of {name}") or _of_identity(entry)


def _of_spec(spec: dict[str, Any], where: str) -> str:
    """What is wrong with a spec, as far as it is the same for all methods.

    Args:
        spec: The spec of a member or of the run.
        where: What it is, for the sentence.
    """
    for key, most in MOST.items():
        if not _is(spec.get(key), int) or not 1 <= spec[key] <= most:
            return f"{key} in {where} must be a whole number from 1 to {most:,}, not {spec.get(key)!r:.50}"
    for key, kinds in {"method": dict, "dataset": dict, "network": dict, "optimiser": dict, "watch": list}.items():
        if not isinstance(spec.get(key), kinds):
            return f"{key} in {where} is missing or not what it should be"
    return ""


def _of_identity(entry: dict[str, Any]) -> str:
    try:
        known = identity(entry["spec"], entry["seed"], entry["data_seed"])
    except ValueError as error:  # such as NaN
        return f"the spec of {entry['name']} is no JSON: {error}"
    if not _ID.fullmatch(entry["id"]) or known != entry["id"]:
        return f"the id of {entry['name']} is not that of its spec and seeds: one of these was changed"
    return ""


def _of_names(content: dict[str, Any]) -> str:
    """What members share that no two may share."""
    members = content["members"]
    for what, values in {
        "name": [file_stem(entry["name"]) for entry in members],
        "id": [entry["id"] for entry in members],
        "file": [entry["file"] for entry in members if "file" in entry],
    }.items():
        if len(set(values)) < len(values):
            return f"two members have the same {what}"
    return ""


def _of_packs(content: dict[str, Any]) -> str:
    """What is wrong with the packs."""
    names = {entry["name"] for entry in content["members"]}
    for number, pack in enumerate(content["packs"]):
        if not isinstance(pack, dict) or not isinstance(pack.get("members"), list) or not pack["members"]:
            return "a pack is not what it should be"
        if pack.get("state") not in _PACK_STATES:
            return f"the state of a pack is {pack.get('state')!r}, not one of {', '.join(_PACK_STATES)}"
        if not _is(pack.get("number"), int) or pack["number"] != number:
            return f"the number of a pack is {pack.get('number')!r}, not {number}"
        if not all(isinstance(name, str) for name in pack["members"]) or not set(pack["members"]) <= names:
            return "a pack has a member that is not in the list"
        if len(set(pack["members"])) < len(pack["members"]):
            return "a pack has a member twice"
        for key, kind in _FACTS.items():
            if key in pack and not _is(pack[key], kind):
                return f"the {key!r} of a pack is not what it should be"
    return ""


def _of_run(content: dict[str, Any]) -> str:
    """Whether the first members are not those that the run's spec begins with; others may have been added since."""
    spec = content["run"]
    if wrong := _of_spec(spec, "its run"):
        return wrong
    trained = {key: value for key, value in spec.items() if key not in SILENT}
    try:
        own = each_paths(trained)
        count = len(own[0][1]) if own else 1
        for i, entry in enumerate(content["members"][:count]):
            if resolve(trained, i) != {key: value for key, value in entry["spec"].items() if key not in SILENT}:
                return f"its run and its members do not agree: the spec of {entry['name']} is another"
    except (KeyError, IndexError, TypeError):
        return "its run and its members do not agree"
    if is_each(spec.get("latents")) or len(content["members"]) < count:
        return "its run and its members do not agree"
    return ""


def _of_checksum(content: dict[str, Any]) -> str:
    """Whether the content was changed since it was written; files of earlier versions have no checksum."""
    try:
        intact = files.is_intact(content)
    except ValueError as error:  # such as NaN
        return f"it is no JSON: {error}"
    if not intact:
        return "its content is not that of its checksum. If you edited it yourself, remove its last 'sha256'"
    return ""
