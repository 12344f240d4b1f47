"""Draw what columns of a Jacobian look like where latents are factors, and where they are a rotation of them.

    python docs/pictures/columns.py    # seconds; writes columns-read.png for docs/jacobian-columns.md

There is no model in it: the columns are central differences of three dots along their own factors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import untwine as uw

IMAGE = np.array([14, 18, 46, 26, 30, 50])  # x and y of each dot


def main() -> None:
    data = uw.datasets.three_dots()
    steps = np.eye(6, dtype=int)
    image, ahead, behind = (data.observe(states) / 255.0 for states in (IMAGE[None], IMAGE + steps, IMAGE - steps))
    aligned = (ahead - behind) / 2
    random = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(random.normal(size=(6, 6)))
    rotated = np.einsum("ij,j...->i...", rotation, aligned)
    passive = np.concatenate([aligned[:4], 0.02 * rotated[:2]])
    rows = {"a factor each": aligned, "a rotation of them": rotated, "two are passive": passive}
    columns = np.stack(list(rows.values()))
    norms = np.linalg.norm(columns.reshape(3, 6, -1), axis=2)
    latents = np.tile(np.arange(6), (3, 1))
    figure = uw.figures.columns(np.repeat(image, 3, 0), columns, latents, norms, row_labels=list(rows))
    uw.figures.save(figure, Path(__file__).with_name("columns-read.png"), dpi=100)


if __name__ == "__main__":
    main()
