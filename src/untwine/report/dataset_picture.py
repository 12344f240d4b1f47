"""A picture of a dataset: what each factor changes (michlo2023, Figure 2). `untwine data show` draws it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from untwine.checks import whole
from untwine.data import Dataset
from untwine.data.specs import short_name, slug
from untwine.errors import UntwineError
from untwine.files import refuse_place


def draw_dataset(dataset: Dataset, steps: int = 8, seed: int = 0, out: str | Path | None = None) -> dict[str, Any]:
    """Draw a column of images for each factor, along which that factor alone changes.

    All columns pass through one random state. A factor with more values than steps shows values at equal distances.
    A dataset without factors shows random examples.

    Args:
        dataset: A dataset of images.
        steps: The most images in a column.
        seed: The seed of the state through which the columns pass.
        out: The picture, a .png, .pdf or .svg file.
    """
    from untwine.analysis import factor_traversals
    from untwine.report import figures

    check_picture(dataset, steps, seed, out)
    name = short_name(dataset)
    target = Path(out) if out is not None else Path("shown") / f"{slug(name)}.png"
    if dataset.factors is None:
        figure = figures.images(_examples(dataset, steps, seed), title=name)
        columns = {}
    else:
        traversals = factor_traversals(dataset, steps, seed)
        figure = figures.factor_traversals(traversals, title=name)
        columns = {factor: values.tolist() for factor, (values, _) in traversals.items()}
    try:
        figures.save(figure, target)
    except OSError as error:
        raise UntwineError(f"cannot write {target}: {error.strerror or error}") from None
    return {"out": str(target), "columns": columns}


def check_picture(dataset: Dataset, steps: int, seed: int, out: str | Path | None) -> None:
    """Refuse arguments of `draw_dataset` that would fail, before anything is drawn."""
    from untwine.report.saving import picture_format

    whole("steps", steps, 2)
    whole("seed", seed, 0)
    if out is not None:
        picture_format(out)
        refuse_place(Path(out))
    if len(dataset.shape) != 3:
        raise UntwineError(
            f"examples of {dataset!r} are vectors of {dataset.shape[0]} numbers: there is no image to show"
        )


def _examples(dataset: Dataset, steps: int, seed: int) -> np.ndarray:
    """Random examples `[down, across, *shape]`, at most `steps` in each direction."""
    from untwine.metrics.designs import among

    chosen = among(len(dataset), steps * steps, seed, purpose="shown examples")
    across = min(steps, len(chosen))
    down = len(chosen) // across
    return dataset.batch(chosen[: down * across]).reshape(down, across, *dataset.shape)
