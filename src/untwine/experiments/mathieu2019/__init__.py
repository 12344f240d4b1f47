"""The figures of Mathieu et al. 2019, "Disentangling Disentanglement in Variational Autoencoders", as data.

Its Appendix B is not in our copy. The values of beta, alpha and nu along its curves are ours, and contain those of the
authors' published commands; everything else is the paper's, or theirs.
"""

from untwine.experiments.mathieu2019 import overlap, shapes, sparsity

__all__ = ["overlap", "shapes", "sparsity"]
