"""How members are best mapped: by vmap, or one by one (in threads on a CPU).

    python bench/batching.py

Prints milliseconds for each member and step, both ways taking turns, for a dense and a convolutional network. It is why
`untwine.train.pack` maps dense networks by vmap, and convolutional ones on a CPU one by one.
"""

from __future__ import annotations

import statistics
import time

import untwine as uw
from untwine.train.devices import pick_device
from untwine.train.pack import Pack
from untwine.train.table import Table
from untwine.train.trainer import Trainer

CASES = {
    "mlp 60-40": (
        uw.datasets.synthetic_nonlinear(samples=4096),
        uw.networks.mlp(hidden=(60, 40), activation="tanh"),
        uw.methods.jl1_vae(anneal=0, likelihood="squared_error"),
    ),
    "rhodes64": (uw.datasets.three_dots(examples=1024), uw.networks.rhodes64(), uw.methods.beta_vae()),
}


def main(steps: int = 5) -> None:
    device = pick_device()
    for name, (dataset, network, method) in CASES.items():
        table = Table(dataset, device)
        for size in (1, 4, 10):
            run = uw.Run(
                method=method, dataset=dataset, network=network, seeds=range(size), steps=10**9, log_every=10**9
            )
            ways = {
                way: Trainer(Pack(run.members(), run.info(), device, way), run, table).steps()
                for way in ("loop", "vmap")
            }
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(1 + steps):
                for way, trainer in ways.items():
                    start = time.perf_counter()
                    next(trainer)
                    seconds[way].append(time.perf_counter() - start)
            times = {way: 1e3 * statistics.median(found[1:]) / size for way, found in seconds.items()}
            print(f"{name:10} pack of {size:2}: one by one {times['loop']:8.2f} ms, vmap {times['vmap']:8.2f} ms")


if __name__ == "__main__":
    main()
