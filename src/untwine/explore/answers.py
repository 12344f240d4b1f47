"""What the page may ask, and the answers: JSON in, JSON out. Every value that comes in is checked here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from untwine.data import Dataset
from untwine.data.factors import FactorSpace, text_of
from untwine.errors import UntwineError, unknown
from untwine.explore.models import Model
from untwine.explore.pictures import column_urls, picture_url, prepared
from untwine.explore.runs import ExploredRun

LARGEST = 1e6  # magnitude of a code: an autoencoder's may be large, and infinity has no picture
_NAMED_VALUES = 1_000  # of a factor, above which a page counts them instead of naming them

Question = Mapping[str, Any]


class Answers:
    """Answers about runs, which are given by name."""

    def __init__(self, runs: Mapping[str, ExploredRun]):
        self.runs = runs

    def overview(self) -> dict[str, Any]:
        """The runs and their members."""
        return {"runs": [{"name": name, **run.about()} for name, run in self.runs.items()]}

    def model(self, question: Question) -> dict[str, Any]:
        """The latents of a model in the order of their sliders, and what its data offer."""
        run, model = self._asked(question)
        latents = model.latents
        rows = [
            {
                "latent": latent,
                "low": float(latents.ranges[latent, 0]),
                "high": float(latents.ranges[latent, 1]),
                "use": None if latents.use is None else latents.use[latent],
                "active": None if latents.active is None else latents.active[latent],
            }
            for latent in latents.order
        ]
        data = run.dataset
        return {
            "latents": rows,
            "measure": latents.measure,
            "shape": list(model.shape),
            "examples": len(data) if isinstance(data, Dataset) else 0,
            "factors": _factors(data.factors) if isinstance(data, Dataset) and data.factors else [],
            "missing": "" if isinstance(data, Dataset) else data,
        }

    def decode(self, question: Question) -> dict[str, Any]:
        """The picture of a code."""
        _, model = self._asked(question)
        return {"picture": picture_url(model.decode(_code(question, model)), model.scale)}

    def columns(self, question: Question) -> dict[str, Any]:
        """The Jacobian's columns at a code, by latent."""
        _, model = self._asked(question)
        columns = model.columns(_code(question, model))
        norms = np.linalg.norm(columns.reshape(len(columns), -1).astype(np.float64), axis=1)
        return {"columns": column_urls(columns), "norms": norms.tolist()}

    def start(self, question: Question) -> dict[str, Any]:
        """An example of the data, by its number or by its factors, and its code."""
        run, model = self._asked(question)
        if "zero" in question:
            return {"picture": None, "code": [0.0] * model.ensemble.info.latents}
        if not isinstance(run.dataset, Dataset):
            raise UntwineError(f"the data of this run cannot be had here: {run.dataset}")
        data = run.dataset
        if "factors" in question:
            example, factors = data.observe([_whole_numbers(question["factors"], "factors")])[0], question["factors"]
        else:
            number = _whole_numbers([question.get("example")], "an example's number")
            example = data.batch(number)[0]
            factors = data.factors_of(number)[0].tolist() if data.factors else None
        return {"picture": picture_url(example, model.scale), "code": model.encode(example), "factors": factors}

    def upload(self, question: Question, content: bytes) -> dict[str, Any]:
        """A picture of the user's own as the model sees it, and its code."""
        _, model = self._asked(question)
        if len(model.shape) != 3:
            raise UntwineError("this model takes vectors, not pictures")
        example = prepared(content, model.shape)
        return {"picture": picture_url(example), "code": model.encode(example), "doubt": model.doubt(example)}

    def _asked(self, question: Question) -> tuple[ExploredRun, Model]:
        """The run and the model that a question names."""
        name, member = (str(question.get(key))[:200] for key in ("run", "member"))
        if name not in self.runs:
            raise unknown("run", name, self.runs)
        return self.runs[name], self.runs[name].model(member)


def _code(question: Question, model: Model) -> list[float]:
    """The code in a question, refused unless it has a bounded number for each latent."""
    code, count = question.get("code"), model.ensemble.info.latents
    if not isinstance(code, list) or len(code) != count:
        raise UntwineError(f"a code of this model is a list of {count} numbers")
    for number in code:
        # An integer of many digits is no float, and so cannot be asked whether it is finite.
        finite = isinstance(number, int) or (isinstance(number, float) and math.isfinite(number))
        if isinstance(number, bool) or not finite:
            raise UntwineError(f"a code is made of numbers, not {str(number)[:50]!r}")
        if abs(number) > LARGEST:
            shown = str(number)[:20]
            raise UntwineError(f"a number of a code lies between -{LARGEST:,.0f} and {LARGEST:,.0f}, not at {shown}")
    return [float(number) for number in code]


def _whole_numbers(values: Any, what: str) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int and abs(value) < 2**31 for value in values):
        raise UntwineError(f"{what} must be whole numbers from 0, not {str(values)[:100]}")
    return values


def _factors(factors: FactorSpace) -> list[dict[str, Any]]:
    """The factors for a page: name, number of values, and what the data call these."""
    entries = []
    for column, (name, size) in enumerate(zip(factors.names, factors.sizes, strict=True)):
        named = None if factors.values is None or size > _NAMED_VALUES else factors.values[column]
        entries.append({"name": name, "size": size, "values": named and [text_of(value) for value in named]})
    return entries
