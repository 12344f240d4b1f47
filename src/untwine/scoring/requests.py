"""What may be asked of a run: metrics by name, with their arguments, global or local."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from untwine import metrics, naming
from untwine.errors import UntwineError

PAIRED = ("codes", "factors")


@dataclass(frozen=True)
class Request:
    """A metric with its arguments, on all the data or on windows of a radius."""

    metric: metrics.Metric[...]
    arguments: dict[str, Any]
    local: bool = False
    radius: float | None = None

    @property
    def name(self) -> str:
        return ("local_" if self.local else "") + self.metric.__name__

    @property
    def label(self) -> str:
        """As it was asked for: `local-mig(bins=10)`."""
        arguments = ", ".join(f"{key}={value}" for key, value in self.arguments.items())
        return self.name.replace("_", "-") + (f"({arguments})" if arguments else "")

    def failure(self, error: UntwineError) -> str:
        """What went wrong, in the name of what was asked for rather than of the metric, and that only once."""
        name = self.metric.__name__
        said = str(error).replace(f" of metric {name!r}", "")
        rest = said.removeprefix(name)
        where = "" if self.radius is None or "interventions" in said else f", radius {self.radius:g}"
        return self.label + where + (rest if rest != said and rest[:1] in (":", " ") else f": {said}")


def requests(names: Sequence[str]) -> list[Request]:
    """What texts ask for: `mig`, `local-mig`, `dci(estimator=sklearn)`."""
    table = {}
    for name in metrics.names():
        metric = metrics.get(name)
        table[name] = _maker(metric, False)
        if metric.takes == PAIRED:
            table[f"local_{name}"] = _maker(metric, True)
    for text in names:
        bare = text.partition("(")[0].replace("-", "_").removeprefix("local_")
        if text.startswith("local") and bare in table and f"local_{bare}" not in table:
            of = ", ".join(metrics.get(bare).takes)
            raise UntwineError(f"{bare.replace('_', '-')} has no local form: it is a function of {of}, not of factors")
    return [naming.read("metric", text, table) for text in names]


def _maker(metric: metrics.Metric[...], local: bool) -> Any:
    """A function with the metric's options, all by name."""

    def make(**arguments: Any) -> Request:
        return Request(metric, arguments, local)

    parameters = inspect.signature(metric).parameters
    options = [parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in metric.options]
    make.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return make
