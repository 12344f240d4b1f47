"""What a page is about: its cases, and the arrays of the models that it shows, within bounds on its size."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from untwine.report.page.pictures import LARGEST
from untwine.report.runs.looks import Looks
from untwine.report.runs.opened import Case, OpenedRun, cases, name_apart
from untwine.scores.scores import Scores

MOST_CASES = 8  # of which pictures are shown
MOST_MODELS = 3  # of a case
MOST_LATENTS = 12
STEPS = 11  # images along a latent
PIXELS = 12_000_000  # of all traversals together: 3 MB of most images, 10 MB of noise


@dataclass(frozen=True)
class Pictured:
    """A case whose models are shown."""

    case: Case
    looks: Looks


class Contents:
    """Opened runs, and what their models look like.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: Sequence[OpenedRun]):
        self.runs = list(runs)
        name_apart(self.runs)
        self.cases = cases(self.runs)

    @functools.cached_property
    def looked_at(self) -> list[Pictured]:
        """The cases that have models and data, as many as a page can hold."""
        able = [case for case in self.cases if case.finished() and case.run.dataset is not None][:MOST_CASES]
        models = MOST_MODELS if len(able) <= 2 else 2 if len(able) <= 4 else 1
        pictured = []
        for case in able:
            ensemble, dataset = case.run.ensemble, case.run.dataset
            assert ensemble is not None and dataset is not None
            pictured.append(Pictured(case, Looks(ensemble, dataset, case.finished()[:models])))
        return pictured

    @property
    def pictured(self) -> list[Pictured]:
        """Those whose data are images."""
        return [one for one in self.looked_at if one.looks.has_images]

    def models(self) -> list[tuple[Pictured, int]]:
        """The models with charts of their own, each by its case and its place in it: one of each where cases differ."""
        each = 3 if len(self.looked_at) == 1 else 1
        return [(one, i) for one in self.looked_at for i in range(min(each, len(one.looks.seeds)))]

    @property
    def left_out(self) -> int:
        """How many cases with models are not shown."""
        able = [case for case in self.cases if case.finished() and case.run.dataset is not None]
        return len(able) - len(self.looked_at)

    @property
    def starts(self) -> int:
        """The number of examples through which traversals go: three, or fewer where images are large or many."""
        pixels = 0
        for one in self.pictured:
            y, x = one.looks.dataset.shape[1:]
            latents = min(MOST_LATENTS, one.looks.means.shape[-1])
            pixels += len(one.looks.seeds) * latents * STEPS * round(y * x * min(1, LARGEST / max(y, x)) ** 2)
        return int(np.clip(PIXELS // max(1, pixels), 1, 3))

    def label(self, case: Case, model: str) -> str:
        """The name of a model on the page: that of its case, where there are several, and its seed."""
        return f"{case.label}, {model}" if len(self.cases) > 1 else model

    def scores(self, case: Case) -> Scores:
        """The stored scores of a case's members."""
        names = set(case.names)
        entries = []
        for entry in case.run.scores.entries:
            members = {name: member for name, member in entry["members"].items() if name in names}
            if members:
                entries.append({**entry, "members": members})
        return Scores(entries)
