"""Train one β-VAE and one JL1-VAE on three dots, in the setting of rhodes2021, and draw the picture of README.

    python docs/picture.py --device cuda --out columns.png    # five minutes on a GPU; keeps runs in runs/picture

The picture shows one image, and the columns of each decoder's Jacobian there: how the image changes along each latent.
The one in README is of seed 3 (β-VAE after 200,000 steps, JL1-VAE after 300,000, both with bfloat16).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import untwine as uw

IMAGE = [14, 18, 46, 26, 30, 50]  # x and y of each dot
SHOWN = 6  # columns, the largest first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=300_000, help="steps of the JL1-VAE; the β-VAE takes two thirds")
    parser.add_argument("--runs", type=Path, default=Path("runs/picture"))
    parser.add_argument("--out", type=Path, default=Path("columns.png"))
    arguments = parser.parse_args()
    ramp = arguments.steps // 3
    jacobian = {"estimator": "finite", "eps": 0.1, "columns": 1}
    methods = {
        "β-VAE": (uw.methods.beta_vae(beta=4.0, anneal=ramp), 2 * ramp),
        "JL1-VAE": (uw.methods.jl1_vae(beta=4.0, gamma=0.1, anneal=ramp, **jacobian), arguments.steps),
    }
    dots = uw.datasets.three_dots()
    image = dots.observe(np.array([IMAGE]))
    rows = []
    for name, (method, steps) in methods.items():
        precision = "bfloat16" if arguments.device == "cuda" else "float32"
        run = uw.Run(method=method, dataset=dots, seeds=[3], steps=steps, precision=precision)
        model = uw.fit(run, out=arguments.runs / run.id, device=arguments.device)
        columns, latents, norms = uw.analysis.jacobian_columns(model.jacobian(model.encode(image))[0, 0])
        rows.append((columns[:SHOWN], latents[:SHOWN], norms[:SHOWN]))
        print(f"{name}: norms of the columns {np.round(norms, 1).tolist()}")
    originals = np.repeat(np.asarray(image, np.float32) / 255, len(methods), 0)
    columns, latents, norms = (np.stack(values) for values in zip(*rows, strict=True))
    figure = uw.figures.columns(originals, columns, latents, norms, row_labels=list(methods))
    uw.figures.save(figure, arguments.out)


if __name__ == "__main__":
    main()
