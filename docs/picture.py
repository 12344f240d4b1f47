"""Train one β-VAE and one JL1-VAE on three dots, as in rhodes2021, and draw the picture of README.

    python docs/picture.py --device cuda          # about five minutes on a GPU; runs are kept in runs/picture

The picture shows one image, and the columns of each decoder's Jacobian there: how the image changes along each latent.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import untwine as uw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--runs", type=Path, default=Path("runs/picture"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "columns.png")
    arguments = parser.parse_args()
    methods = {
        "β-VAE": uw.methods.beta_vae(beta=4.0, anneal=arguments.steps // 2),
        "JL1-VAE": uw.methods.jl1_vae(beta=4.0, gamma=0.1, anneal=arguments.steps // 2),
    }
    dots = uw.datasets.three_dots()
    image = dots.observe(np.array([[14, 18, 46, 26, 30, 50]]))
    ordered = []
    for name, method in methods.items():
        run = uw.Run(method=method, dataset=dots, steps=arguments.steps)
        model = uw.fit(run, out=arguments.runs / f"{run.id}", device=arguments.device)
        jacobian = model.jacobian(model.encode(image))[0, 0]
        columns = uw.analysis.jacobian_columns(jacobian)
        ordered.append([np.asarray(values)[:6] for values in columns])
        print(f"{name}: norms of the columns", np.round(columns[2], 1).tolist())
    shown, latents, norms = (np.stack(values) for values in zip(*ordered, strict=True))
    originals = np.repeat(np.asarray(image, np.float32) / 255, len(methods), 0)
    figure = uw.figures.columns(originals, shown, latents, norms, row_labels=list(methods))
    uw.figures.save(figure, arguments.out)


if __name__ == "__main__":
    main()
