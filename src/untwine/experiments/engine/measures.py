"""What experiments measure of trained members: scores, logged terms, and functions of members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from untwine.data import build
from untwine.errors import UntwineError
from untwine.experiments.engine.contract import Trained
from untwine.experiments.engine.rows import Row
from untwine.metrics.forced import VALUE
from untwine.scores.columns import columns
from untwine.scoring.evaluation import evaluate


@dataclass(frozen=True)
class Scored:
    """Scores by any metrics, as `untwine.evaluate` computes them.

    A row's `measure` is the metric's name (`local_mig`), or, for a part of it, both (`dci completeness`); local ones
    have a column `rho`.

    Args:
        metrics: Their names, with arguments in brackets if need be.
        rho: Radii of the windows of local metrics.
        settings: Further arguments of `untwine.evaluate`: windows, points, examples, seed, gaussian.
        data: Arguments of the dataset that is scored where they differ from that of training: `{"part": "test"}`.
    """

    metrics: Sequence[str]
    rho: Sequence[float] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Mapping[str, Any]:
        return {"scored": {**asdict(self), "metrics": list(self.metrics), "rho": list(self.rho)}}

    def __call__(self, trained: Trained) -> list[Row]:
        dataset = build({**trained.dataset.spec, **self.data}) if self.data else trained.dataset
        scores = evaluate(
            trained.ensemble, self.metrics, rho=self.rho, dataset=dataset, progress=False, **self.settings
        )
        seeds = {member.name: member.seed for member in trained.ensemble.members}
        rows = []
        for entry in scores.entries:
            radius = entry["settings"].get("radius")
            local = {} if radius is None else {"rho": radius}
            for column in columns(entry):
                name = entry["metric"] + ("" if column.part == VALUE else f" {column.part}")
                for member, value, reason in column.members:
                    why = {} if reason is None else {"reason": reason}
                    rows.append({**local, "seed": seeds[member], "measure": name, "value": value, **why})
        return rows


@dataclass(frozen=True)
class Logged:
    """The mean of logged terms over the last lines of the log: reconstruction, kl, whatever the run watches.

    Args:
        terms: The names of terms.
        last: The share of the log that counts, from its end.
    """

    terms: Sequence[str]
    last: float = 0.05

    @property
    def key(self) -> Mapping[str, Any]:
        return {"logged": {"terms": list(self.terms), "last": self.last}}

    def __call__(self, trained: Trained) -> list[Row]:
        rows = []
        for term in self.terms:
            values = []
            for history in trained.histories:
                known = [line[term] for line in history if line.get(term) is not None]
                if not known:
                    raise UntwineError(f"the log has no {term!r}: let the run watch it")
                values.append(fmean(known[-max(1, round(self.last * len(known))) :]))
            rows += trained.rows(term, values)
        return rows


@dataclass(frozen=True)
class Computed:
    """Whatever a function computes of trained members.

    Args:
        name: Its name, under which its numbers are kept.
        function: From trained members and the arguments to rows (see `Trained.rows`).
        arguments: The arguments, as JSON.
    """

    name: str
    function: Callable[..., Sequence[Row]]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Mapping[str, Any]:
        return {"computed": {"name": self.name, "arguments": dict(self.arguments)}}

    def __call__(self, trained: Trained) -> list[Row]:
        return [dict(row) for row in self.function(trained, **self.arguments)]
