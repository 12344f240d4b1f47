"""A folder about how a loss perceives a dataset's factors. `untwine perceive` writes it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from untwine.data import Dataset
from untwine.data.specs import short_name, slug
from untwine.errors import UntwineError

FILES = ("importance.json", "cumulative.png", "perceived.npz", "matrices.png")


def write_perceived_factors(
    dataset: Dataset,
    likelihood: str = "squared-error",
    pairs: int = 50_000,
    traversals: int = 100,
    seed: int = 0,
    wrap: bool = True,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Measure how far apart a loss perceives the values of each factor (michlo2023, sections 4, 5 and A).

    Returns the importance of the factors and the mean distance matrices along them, and writes them into a folder:
    importance.json, perceived.npz (an array `distance/factor` for each matrix, and `values/factor`, what its rows are),
    matrices.png and cumulative.png.
    Distances are L(x, y) - L(x, x) per element, so that the distance of an image from itself is 0.

    Args:
        dataset: The dataset. Without factors, only random pairs are compared.
        likelihood: The loss: squared-error, bernoulli, gaussian, learned-gaussian, laplace, or overlap, which takes
            another loss. Arguments are in brackets, as in "overlap(gaussian(scale=0.1), radius=31)".
        pairs: The number of pairs of states for each factor, and of random pairs.
        traversals: The number of traversals over which a factor's matrix is averaged. It has no effect without factors.
        seed: The seed of the pairs and the traversals.
        wrap: Whether the last value of a cyclic factor is next to its first, so that differences of values go the
            shorter way round; without it cyclic factors are taken as ordered, as in the paper.
        out: The folder of the results.
    """
    from untwine.analysis import perception
    from untwine.analysis.distances import ground_truth, perceived
    from untwine.analysis.factors import distance_matrices, kept_values
    from untwine.progress import track
    from untwine.report import figures

    folder = (
        Path(out)
        if out is not None
        else default_folder(short_name(dataset), likelihood if wrap else f"{likelihood} no-wrap")
    )
    with _writable(folder):
        importance = perception.factor_importance(dataset, likelihood, pairs, seed, progress=track, wrap=wrap)
        matrices, arrays, values = {}, {}, {}
        if (space := dataset.factors) is not None:
            truth = ground_truth(space.kinds, space.sizes, wrap)
            distances = {"ground truth": truth, "perceived": perceived(likelihood, True)}
            matrices = distance_matrices(dataset, distances, traversals, seed, progress=track)
            arrays = {f"{d.replace(' ', '_')}/{f}": matrix for f, by in matrices.items() for d, matrix in by.items()}
            values = {f: space.named(f, kept_values(space.sizes[space.position(f)])) for f in matrices}
            arrays |= {f"values/{f}": np.array(of_factor) for f, of_factor in values.items()}
            values = values if space.values else {}
        title = f"{short_name(dataset)}: {importance.likelihood}"
        files = FILES if matrices else FILES[:2]
        try:
            # Earlier results in the folder are replaced only when all new files are complete.
            with tempfile.TemporaryDirectory(prefix=".perceive-", dir=folder) as beside:
                new = Path(beside)
                (new / FILES[0]).write_text(json.dumps(importance.to_json(), indent=1, allow_nan=False) + "\n")
                figures.save(figures.cumulative(importance, title), new / FILES[1])
                if matrices:
                    np.savez_compressed(new / FILES[2], **arrays)  # pyright: ignore[reportArgumentType]
                    figures.save(figures.matrices(matrices, title, values), new / FILES[3])
                for name in FILES:
                    if name in files:
                        (new / name).replace(folder / name)
                    else:
                        (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise UntwineError(f"cannot write into {folder}: {error.strerror or error}") from None
    return {"importance": importance, "matrices": matrices, "out": folder, "files": list(files)}


def check_perceived_factors(
    dataset: Dataset, likelihood: str, pairs: int, traversals: int, seed: int, wrap: bool, out: str | None
) -> None:
    """Refuse arguments of `write_perceived_factors` that would fail later, such as a loss that does not suit the data.

    The folder is tried, too: it must be possible to write into it.
    """
    from untwine.analysis.distances import perceived
    from untwine.analysis.perception import FEWEST
    from untwine.checks import whole

    for name, value, least in (("pairs", pairs, FEWEST), ("traversals", traversals, 1), ("seed", seed, 0)):
        whole(name, value, least)
    few = dataset.batch(range(min(len(dataset), 16)))
    perceived(likelihood).pairs(few, few)
    with _writable(Path(out) if out is not None else default_folder(short_name(dataset), likelihood)):
        pass


def default_folder(dataset: str, likelihood: str) -> Path:
    """The default folder of the results: one for each dataset and likelihood.

    >>> [default_folder("pinwheel", text).as_posix() for text in ("squared-error", "laplace(scale=0.1)")]
    ['perceived/pinwheel', 'perceived/pinwheel-laplace-scale-0.1']
    """
    loss = slug(likelihood)
    return Path("perceived", slug(dataset) if loss == "squared-error" else f"{slug(dataset)}-{loss}")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Make the folder, and check that files can be written into it. A new folder that stays empty is removed."""
    missing = []
    try:
        try:
            missing = [path for path in (folder, *folder.parents) if not path.exists()]
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
        with suppress(OSError):  # it is not empty, or was never made
            for path in missing:
                path.rmdir()
