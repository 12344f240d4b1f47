"""Train, measure, judge and draw: the demo from its start to its end."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import untwine as uw
from untwine import files
from untwine._version import __version__
from untwine.bench.devices import describe
from untwine.errors import Interrupted, UntwineError
from untwine.experiments.demo import page, plan
from untwine.experiments.demo.sentences import told
from untwine.experiments.engine.contract import Case, Trained
from untwine.experiments.engine.findings import judge
from untwine.experiments.engine.rows import Rows
from untwine.experiments.engine.running import Outcome
from untwine.experiments.engine.store import of_member
from untwine.report.saving import save
from untwine.scoring import results
from untwine.scoring.evaluation import refuse_impossible
from untwine.train.devices import pick_device
from untwine.train.remarks.progress import Reporter


def run_demo(
    out: str | Path = "runs/demo",
    seeds: str = "0-4",
    steps: int = 4_000,
    windows: int = 20,
    points: int = 2_000,
    device: str = "auto",
    pages: str | Path | None = None,
    progress: Callable[[int], Reporter] | None = None,
) -> dict[str, Any]:
    """Train models of both methods, measure, judge and draw them, and return what came of it as JSON.

    Args:
        out: The folder of both runs. Models that are trained there already are not trained again.
        seeds: A model of each method for each seed.
        steps: Training steps of each model.
        windows: How many windows local scores are averaged over.
        points: Pictures in each window.
        device: auto, cpu, cuda or mps.
        pages: The folder of the pictures, of demo.md and of demo.json; None takes that of the runs.
        progress: Makes a reporter for a method's training from the number of its models; None shows a bar where there
            is a terminal.
    """
    check_demo(out, seeds, steps, windows, points, device)
    out = Path(out)
    target = out if pages is None else Path(pages)
    planned = plan.plan(seeds, steps, windows, points)
    trained = {case.columns["method"]: _trained(case, out, device, progress) for case in planned.cases}
    measured = [(known, row) for known in trained.values() for measure in planned.measures for row in measure(known)]
    rows = Rows({**known.columns, **row} for known, row in measured)
    findings = judge(planned.claims, rows, Rows([]))
    outcome = Outcome(rows, Rows([]), planned.cases, lambda case: trained[case.columns["method"]])
    for name, draw in planned.figures.items():
        save(draw(outcome), target / f"{name}.png")
    runs = {method: folder(out, method) for method in plan.METHODS}
    report = uw.write_report(list(runs.values()), out / "report.html", device)
    story = {
        "settings": {"seeds": seeds, "steps": steps, "windows": windows, "points": points},
        "numbers": [asdict(line) for line in told(rows, dict(zip(plan.CLAIMS, findings, strict=True)))],
        "small": plan.SMALL.format(models=len(planned.cases[0].run.seeds), steps=steps),
        "pictures": [f"{name}.png" for name in planned.figures],
        "findings": [asdict(finding) for finding in findings],
        "rows": list(rows),
        "specs": {case.columns["method"]: case.run.to_json() for case in planned.cases},
        "about": {"untwine": __version__, "python": platform.python_version(), **describe(pick_device(device))},
    }
    files.write(target / "demo.json", (json.dumps(story, indent=1, allow_nan=False) + "\n").encode())
    files.write(target / "demo.md", page.page(story).encode())
    places = {"pages": str(target), "report": str(report)}
    return {**story, **places, "runs": {method: str(path) for method, path in runs.items()}}


def check_demo(out: str | Path, seeds: str, steps: int, windows: int, points: int, device: str) -> None:
    """Refuse what no demo can be made with, before anything is written; arguments as in `run_demo`."""
    pick_device(device)
    refuse_impossible([], windows=windows, points=points)
    plan.plan(seeds, steps, windows, points)
    files.refuse_place(Path(out), folder=True)
    if (Path(out) / "run.json").exists():
        raise UntwineError(f"{out} holds a run of its own: choose another folder for the demo")


def _trained(case: Case, out: Path, device: str, progress: Callable[[int], Reporter] | None) -> Trained:
    """The models of a case, trained where they are not yet."""
    reporter = None if progress is None else progress(len(case.run.seeds))
    try:
        ensemble = uw.fit(case.run, folder(out, case.columns["method"]), device, progress=reporter)
    except Interrupted:
        raise Interrupted("interrupted; what was trained is kept: start the demo again to resume") from None
    histories = [list(of_member(ensemble.history, member.name)) for member in ensemble.members]
    return Trained(case.columns, ensemble, ensemble.dataset(), histories)


def folder(out: str | Path, method: str) -> Path:
    """The folder of a method's run; the method is named as in pictures: β-VAE."""
    return Path(out) / plan.METHODS[method].replace("_", "-")


def finished(out: str | Path) -> set[str]:
    """The ids of all models in a demo's folder that are trained."""
    from untwine.train.folders.record import FINISHED

    known = [member for method in plan.METHODS for member in results.members(folder(out, method)).values()]
    return {member["id"] for member in known if member["state"] in FINISHED}
