"""Every published method: a function each, that returns an `Objective` of shared parts.

This package imports no torch: the command line is built from the signatures below.
"""

from __future__ import annotations

from untwine.methods.registry import get, method, methods, names
from untwine.methods.rhodes2021 import jl1_vae, jl2_vae
from untwine.methods.vae import ae, beta_vae, vae

__all__ = ["ae", "beta_vae", "get", "jl1_vae", "jl2_vae", "method", "methods", "names", "vae"]
