"""Benchmarks: how fast training and metrics are on this machine, and what cheaper training costs in quality.

Each benchmark is a module with a function `run`, whose arguments are the flags of `untwine bench NAME` and which
returns rows. A new one is a new module and a line in this table.
"""

# The module of each benchmark, and what it measures.
BENCHES = {
    "train": ("untwine.bench.training", "the speed of training steps; the default"),
    "metrics": ("untwine.bench.metrics", "the speed of each metric"),
    "peers": ("untwine.bench.peers", "metrics beside the loops over scikit-learn that the literature's code has"),
    "published": ("untwine.experiments.engine.speeds", "training in the settings of the papers, beside a plain loop"),
    "batching": ("untwine.bench.batching", "members mapped by vmap or one by one"),
    "floors": ("untwine.bench.floors", "what metrics give for noise, collapsed models and untrained networks"),
    "quality": ("untwine.bench.quality", "local scores of variants of a method"),
    "kinks": ("untwine.bench.kinks", "the gradient of a Jacobian's norm by finite differences and by exact columns"),
}
