"""How fast the papers' own settings train: each method with its published network and batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from untwine.bench import pace
from untwine.bench.devices import describe
from untwine.bench.rows import Row, Rows
from untwine.errors import brief
from untwine.experiments.engine import catalogue
from untwine.train.devices import pick_device
from untwine.train.joining import joined, structure
from untwine.train.run import Run

# Figures whose models have every published network, likelihood, prior and penalty between them.
FIGURES = (
    "rhodes2021/fig4",
    "rhodes2021/fig5",
    "michlo2023/fig9",
    "michlo2023/fig11",
    "mathieu2019/fig2-left",
    "mathieu2019/fig2-right",
    "mathieu2019/fig4",
    "rolinek2019/table2",
)
KEYS = ("figure", "method", "dataset", "network", "batch_size", "latents", "pack", "precision", "number")


def run(
    figures: tuple[str, ...] = FIGURES,
    pack: int = 5,
    steps: int = 64,
    blocks: int = 5,
    device: str = "auto",
    loop: bool = True,
    out: str | None = None,
    limit_minutes: float | None = None,
) -> list[Row]:
    """Measure training in the settings of the papers: milliseconds for each seed and step, beside a plain loop.

    Models of a figure that differ in numbers alone are measured once. A row says which path was taken and how long
    compiling took; what cannot be trained here has a row that says why.

    Args:
        figures: Figures and tables whose settings are measured.
        pack: Seeds that train at once.
        steps: Steps in a timed block.
        blocks: Timed blocks, of which the median counts.
        device: auto, cpu, cuda or mps.
        loop: Also one seed alone, one operation after the other, as a plain loop over PyTorch has it.
        out: A JSON file; every row is written there as soon as it is known, and not measured again.
        limit_minutes: Begin no more rows after so long.
    """
    target, begun = pick_device(device), time.monotonic()
    rows = Rows(out, KEYS, describe(target))
    for row, single in settings(figures):
        row |= {"pack": pack}
        if rows.find(row) is not None:
            continue
        if limit_minutes is not None and time.monotonic() - begun > 60 * limit_minutes:
            break
        try:
            found = pace.measured(single.replace(seeds=range(pack), data_seeds=None), target, steps, blocks)
            row |= {"ms_per_seed_and_step": 1e3 * statistics.median(found.blocks), "path": found.path}
            row |= {"compile_seconds": found.compile_seconds}
            if loop:
                plain = statistics.median(pace.measured(single, target, steps, blocks, "plain").blocks)
                row |= {"ms_of_a_plain_loop": 1e3 * plain, "times_as_fast": 1e3 * plain / row["ms_per_seed_and_step"]}
        except Exception as error:  # no data, out of memory, or no kernels for it
            row |= {"error": brief(error)}
        rows.put(row)
    return rows.new


def settings(figures: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], Run]]:
    """What each kind of model of these figures is, and a run of its first seed. Settings of the data make no kind."""
    seen = set()
    for experiment in catalogue.chosen(list(figures)):
        for case in experiment.plan(experiment.settings("paper")).cases:
            member = case.run.members()[0]
            data = member.spec["dataset"]
            name = data.get("dataset", data)["name"]  # of a part of a dataset, that of the whole
            kind = structure({**member.spec, "dataset": name, "seed": 0, "data_seed": 0, "steps": 0})
            if kind in seen:
                continue
            seen.add(kind)
            (single,) = joined([member])
            about = {key: getattr(single, key) for key in ("batch_size", "latents", "precision")}
            about |= {"dataset": name, "network": single.network.spec["name"], "number": len(seen)}
            yield {"figure": experiment.name, "method": member.method, **about}, single
