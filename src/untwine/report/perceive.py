"""How a loss perceives a dataset: factor importance and distance matrices, as numbers, files and pictures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from untwine.data import Dataset
from untwine.data.specs import called, slug
from untwine.errors import UntwineError

FILES = ("importance.json", "cumulative.png", "perceived.npz", "matrices.png")


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
    Distances are L(x, y) - L(x, x), so that an image is 0 from itself, per element.

    Args:
        dataset: With factors; without, only random pairs are compared.
        likelihood: The loss that perceives: squared-error, bernoulli, gaussian, learned-gaussian, laplace or overlap,
            which needs another one. Arguments are in brackets, as in "overlap(gaussian(scale=0.1), radius=31)".
        pairs: How many pairs of states are compared for each factor, and at random.
        traversals: Over how many walks along a factor its matrix is averaged. Of no effect without factors.
        seed: Of the pairs and the traversals.
        out: The folder of the results.
    """
    from untwine import report as pictures
    from untwine.analysis import perception
    from untwine.analysis.distances import distance_matrices, ground_truth, kept_values, perceived
    from untwine.progress import track

    folder = Path(out) if out is not None else default_folder(called(dataset), likelihood)
    with _writable(folder):
        found = perception.importance(dataset, likelihood, pairs, seed, progress=track)
        matrices, arrays = {}, {}
        if (space := dataset.factors) is not None:
            # Of a categorical factor, two values are the same or not.
            distances = {"ground truth": ground_truth(space.kinds), "perceived": perceived(likelihood, True)}
            matrices = distance_matrices(dataset, distances, traversals, seed, progress=track)
            arrays = {f"{d.replace(' ', '_')}/{f}": matrix for f, by in matrices.items() for d, matrix in by.items()}
            arrays |= {f"values/{f}": kept_values(space.sizes[space.position(f)]) for f in matrices}
        about = f"{called(dataset)}: {found.likelihood}"
        files = FILES if matrices else FILES[:2]
        try:
            # Written beside the results of another run, which are replaced once all is there.
            with tempfile.TemporaryDirectory(prefix=".perceive-", dir=folder) as beside:
                made = Path(beside)
                (made / FILES[0]).write_text(json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n")
                pictures.save(pictures.cumulative(found, about), made / FILES[1])
                if matrices:
                    np.savez_compressed(made / FILES[2], **arrays)  # pyright: ignore[reportArgumentType]
                    pictures.save(pictures.matrices(matrices, about), made / FILES[3])
                for name in FILES:
                    if name in files:
                        (made / name).replace(folder / name)
                    else:
                        (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise UntwineError(f"cannot write into {folder}: {error.strerror or error}") from None
    return {"importance": found, "matrices": matrices, "out": folder, "files": list(files)}


def check(dataset: Dataset, likelihood: str, pairs: int, traversals: int, seed: int, out: str | None) -> None:
    """Refuse at once what would fail later: a loss that does not suit the data, or no folder to write into."""
    from untwine.analysis.distances import perceived
    from untwine.analysis.perception import FEWEST
    from untwine.checks import whole

    for name, value, least in (("pairs", pairs, FEWEST), ("traversals", traversals, 1), ("seed", seed, 0)):
        whole(name, value, least)
    few = dataset.batch(range(min(len(dataset), 16)))
    perceived(likelihood).pairs(few, few)
    with _writable(Path(out) if out is not None else default_folder(called(dataset), likelihood)):
        pass


def default_folder(dataset: str, likelihood: str) -> Path:
    """Where results go: a folder for each dataset and likelihood.

    >>> [default_folder("pinwheel", text).as_posix() for text in ("squared-error", "laplace(scale=0.1)")]
    ['perceived/pinwheel', 'perceived/pinwheel-laplace-scale-0.1']
    """
    loss = slug(likelihood)
    return Path("perceived", slug(dataset) if loss == "squared-error" else f"{slug(dataset)}-{loss}")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """A folder that can be written into. If it had to be made and stays empty, it goes again."""
    missing = []
    try:
        try:
            missing = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UntwineError(f"cannot make the folder {folder}: a file is in its way") from None
        except OSError as error:
            raise UntwineError(f"cannot make the folder {folder}: {error.strerror}") from None
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise UntwineError(f"cannot write into {folder}: {error.strerror}") from None
        yield
    finally:
        with suppress(OSError):  # not empty, or never made
            for one in missing:
                one.rmdir()
