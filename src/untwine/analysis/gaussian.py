"""Codes mapped to the scale of a standard normal, for any prior of independent latents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from untwine.arguments import checked
from untwine.errors import UntwineError

if TYPE_CHECKING:
    from torch.distributions import Distribution


@checked()
def gaussianised(codes: Float[np.ndarray, "n d"], prior: Distribution) -> Float[np.ndarray, "n d"]:
    """Codes after the prior's distribution function and the inverse of a standard normal's.

    mathieu2019 scores models with a Student-t prior on such codes, because its heavy tails would distort variances.

    Args:
        codes: Codes of a model.
        prior: The prior of that model.

    >>> import torch
    >>> from torch import distributions as D
    >>> prior = D.Independent(D.Normal(torch.ones(2), 2 * torch.ones(2)), 1)
    >>> gaussianised(np.array([[1.0, 5.0]]), prior).round(6).tolist()
    [[0.0, 2.0]]
    """
    import torch
    from scipy import special
    from torch import distributions as D

    base: Any = prior.base_dist if isinstance(prior, D.Independent) else None
    if base is None:
        raise UntwineError(f"codes are mapped one by one, which needs a prior of independent latents, not {prior!r}")
    z = torch.from_numpy(np.asarray(codes, np.float64))
    if isinstance(base, D.Normal):
        return ((z - base.loc) / base.scale).numpy()
    if isinstance(base, D.StudentT | D.Laplace):  # they are symmetric, and the lower tail at -|z| keeps its digits
        standard = ((z - base.loc) / base.scale).numpy()
        if isinstance(base, D.Laplace):
            return -np.sign(standard) * special.ndtri_exp(np.log(0.5) - np.abs(standard))
        below = special.stdtr(np.broadcast_to(base.df.double().numpy(), standard.shape), -np.abs(standard))
        return -np.sign(standard) * special.ndtri(below)
    try:
        below = base.cdf(z).numpy()
    except NotImplementedError:
        raise UntwineError(f"the distribution function of {base!r} is not known") from None
    # Beyond about eight standard deviations the function rounds to 1.
    tiny = np.finfo(np.float64).eps / 2
    return special.ndtri(np.clip(below, tiny, 1 - tiny))


def is_standard_normal(prior: Distribution) -> bool:
    """Whether a prior is N(0, I)."""
    from torch import distributions as D

    base: Any = prior.base_dist if isinstance(prior, D.Independent) else prior
    return isinstance(base, D.Normal) and bool((base.loc == 0).all()) and bool((base.scale == 1).all())
