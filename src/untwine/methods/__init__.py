"""Every published method: a function that returns an `Objective` of shared parts.

This package imports no torch: the command line is built from the signatures below.
"""

from __future__ import annotations

from untwine.methods.baselines import (
    annealed_vae,
    beta_tcvae,
    dip_vae_i,
    dip_vae_ii,
    factor_vae,
    info_vae,
    wae_mmd,
)
from untwine.methods.locatello2020 import ada_gvae, ada_mlvae
from untwine.methods.mathieu2019 import decomposition_vae
from untwine.methods.registry import get, method, methods, names
from untwine.methods.rhodes2021 import jl1_vae, jl2_vae
from untwine.methods.rolinek2019 import beta_vae_full
from untwine.methods.vae import ae, beta_vae, vae
from untwine.namespace import directory

__all__ = [
    "ada_gvae",
    "ada_mlvae",
    "ae",
    "annealed_vae",
    "beta_tcvae",
    "beta_vae",
    "beta_vae_full",
    "decomposition_vae",
    "dip_vae_i",
    "dip_vae_ii",
    "factor_vae",
    "get",
    "info_vae",
    "jl1_vae",
    "jl2_vae",
    "method",
    "methods",
    "names",
    "vae",
    "wae_mmd",
]
__dir__ = directory(__all__)
