"""`untwine doctor`: what is installed, what this machine has, and whether training works on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untwine.cli import flags, output
from untwine.errors import UntwineError
from untwine.progress import amount, waiting

ABOUT = """Show versions, devices, threads, the data folder, extras and how to add them, free disk and memory, \
and train, save, load and score a tiny model as a self-test, which takes a few seconds.

It exits with 1 if the self-test fails. Put its --json into a report of a bug.

Examples:
- untwine doctor
- untwine doctor --json
"""


def doctor(args: list[str]) -> int:
    """Print what is known of this machine; 1 if the self-test fails."""
    as_json = flags.parse("untwine doctor", ABOUT, [flags.switch("json", flags.JSON)], args).json
    with waiting("examining this machine"):
        from untwine.bench import health

        known: dict[str, Any] = {
            "versions": health.versions(),
            "devices": health.devices(),
            "data": _data(health),
            "extras": health.extras(),
            "free": health.room(),
            "self_test": health.self_test(),
        }
    if as_json:
        output.as_json(known)
    else:
        _show(known)
    return 0 if known["self_test"]["passed"] else 1


def _data(health: Any) -> dict[str, Any]:
    """What is known of the data folder; a folder that cannot be one is no reason to say nothing else."""
    try:
        return health.data()
    except (UntwineError, OSError) as error:
        return {"error": str(error)}


def _show(known: Mapping[str, Any]) -> None:
    versions, devices, data, free = (known[key] for key in ("versions", "devices", "data", "free"))
    rows = [["versions", ", ".join(f"{name} {version or '(missing)'}" for name, version in versions.items())]]
    rows.append(["processor", f"{_count(devices['cores'], 'core')}, {devices['capability']}"])
    policy = devices["waiting"] or "as the system has it"
    rows.append(["threads", f"{devices['threads']}; waiting: {policy} (OMP_NUM_THREADS and OMP_WAIT_POLICY change it)"])
    gpus = [f"{gpu['name']} ({_bytes(gpu['memory'])}, {gpu['capability']})" for gpu in devices["gpus"]]
    rows.append(["GPUs", ", ".join([*gpus, *(["Apple (mps)"] if devices["mps"] else [])]) or "none"])
    rows.append(["trains on", f"{devices['auto']} (another: --device)"])
    rows.append(["free", f"{_bytes(free['memory'])} of memory, {_bytes(free['disk'])} on the disk of this folder"])
    if "error" in data:
        rows.append(["data folder", data["error"]])
    else:
        where = "" if data["written_to"] == data["folder"] else f"; written to {data['written_to'] or 'nowhere'}"
        rows.append(["data folder", f"{data['folder']} ({_bytes(data['free'])} free{where})"])
        rows.append(["datasets here", ", ".join(map(flags.hyphens, data["present"])) or "none of the public ones"])
        rows.append(["to fetch", ", ".join(map(flags.hyphens, data["to_fetch"])) + " (untwine data get NAME)"])
    for extra in known["extras"]:
        state = "installed" if extra["installed"] else f"missing: {extra['install']}"
        rows.append([f"extra {extra['name']}", f"{state} (for {extra['for']})"])
    output.table(["what", "on this machine"], rows)
    test = known["self_test"]
    rows = [[check["check"], "passed" if check["passed"] else f"FAILED: {check['why']}"] for check in test["checks"]]
    output.table(["self-test", "verdict"], rows)
    print(f"The self-test {'passed' if test['passed'] else 'FAILED'} in {test['seconds']} s.")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _bytes(number: int | None) -> str:
    return "an unknown amount" if number is None else amount(number)
