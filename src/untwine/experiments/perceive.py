"""How a loss perceives a dataset: factor importance and distance matrices, as numbers, files and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from untwine.data import Dataset
from untwine.errors import UntwineError


def run(
    dataset: Dataset,
    likelihood: str = "squared-error",
    pairs: int = 50_000,
    traversals: int = 100,
    seed: int = 0,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Measure how far apart a loss perceives the values of each factor (michlo2023, sections 4, 5 and A).

    Returns the importance of factors and the mean distance matrices along them, and writes all of it into a folder:
    importance.json, perceived.npz (an array `distance/factor` for each matrix), matrices.png and cumulative.png.

    Args:
        dataset: With factors; without, only random pairs are compared.
        likelihood: The loss that perceives: squared-error, bernoulli, laplace, "overlap(squared-error, radius=31)", ...
        pairs: How many pairs of states are compared for each factor, and at random.
        traversals: Over how many walks along a factor its matrix is averaged.
        seed: Of the pairs and the traversals.
        out: The folder of the results.
    """
    from untwine import report as pictures
    from untwine.analysis import perception
    from untwine.analysis.distances import ground_truth, perceived
    from untwine.train.progress import track

    folder = _folder(out, dataset)
    _make(folder)
    found = perception.importance(dataset, likelihood, pairs, seed, progress=track)
    matrices = {}
    if dataset.factors is not None:
        distances = {"ground truth": ground_truth(), "perceived": perceived(likelihood, per_element=True)}
        matrices = perception.distance_matrices(dataset, distances, traversals, seed, progress=track)
    arrays = {f"{d.replace(' ', '_')}/{f}": matrix for f, by in matrices.items() for d, matrix in by.items()}
    if dataset.factors is not None:
        sizes = dict(zip(dataset.factors.names, dataset.factors.sizes, strict=True))
        arrays |= {f"values/{factor}": perception.kept_values(sizes[factor]) for factor in matrices}
    about = f"{str(dataset.spec.get('name', 'dataset')).replace('_', '-')}: {found.likelihood}"
    try:
        (folder / "importance.json").write_text(json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n")
        files = ["importance.json", "cumulative.png"]
        pictures.save(pictures.cumulative(found, about), folder / "cumulative.png")
        if matrices:
            np.savez_compressed(folder / "perceived.npz", **arrays)  # pyright: ignore[reportArgumentType]
            pictures.save(pictures.matrices(matrices, about), folder / "matrices.png")
            files += ["perceived.npz", "matrices.png"]
    except OSError as error:
        raise UntwineError(f"cannot write into {folder}: {error.strerror or error}") from None
    return {"importance": found, "matrices": matrices, "out": folder, "files": files}


def check(dataset: Dataset, likelihood: str, pairs: int, traversals: int, seed: int, out: str | None) -> None:
    """Refuse at once what would fail later: a loss that does not suit the data, or no folder to write into."""
    from untwine.analysis.distances import perceived
    from untwine.analysis.perception import FEWEST

    for name, value, least in (("pairs", pairs, FEWEST), ("traversals", traversals, 1), ("seed", seed, 0)):
        if not least <= value < 2**63:
            raise UntwineError(f"{name} must be a whole number, {least} or more, not {value}")
    few = dataset.batch(range(min(len(dataset), 16)))
    perceived(likelihood).pairs(few, few)
    _make(_folder(out, dataset))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UntwineError(f"cannot make the folder {folder}: a file is in its way") from None
    except OSError as error:
        raise UntwineError(f"cannot make the folder {folder}: {error.strerror}") from None


def _folder(out: str | Path | None, dataset: Dataset) -> Path:
    return (
        Path(out) if out is not None else Path("perceived", str(dataset.spec.get("name", "dataset")).replace("_", "-"))
    )
