"""Michlo et al. 2023, "Overlooked implications of the reconstruction loss for VAE disentanglement": figures and tables.

Appendix C: Table A3's network, Adam with 1e-3, batches of 256 examples (Ada-GVAE: pairs), standardised images, the
grids of Table A4. Its losses are means over elements: with N elements and D latents its beta is ours times D / N, and
Adam's eps is N times larger here. The paper leaves out how examples are drawn (here independently, with replacement).
"""

from untwine.experiments.michlo2023 import data_figures, model_figures, overlap_figures

__all__ = ["data_figures", "model_figures", "overlap_figures"]
