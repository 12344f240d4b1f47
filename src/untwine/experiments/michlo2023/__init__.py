"""Michlo et al. 2023, "Overlooked implications of the reconstruction loss for VAE disentanglement": figures and tables.

Appendix C: Table A3's network, Adam with 1e-3, batches of 256 examples (Ada-GVAE: pairs), standardised images, the
grids of Table A4. Its losses are means over elements: with N elements and D latents its beta is ours times D / N, and
Adam's eps is N times larger here. The paper leaves out how examples are drawn (here independently, with replacement).
"""

# In the order of the paper's figures, in which they are listed.
# isort: off
from untwine.experiments.michlo2023 import existing_data
from untwine.experiments.michlo2023 import adversarial_data
from untwine.experiments.michlo2023 import overlap_loss
from untwine.experiments.michlo2023 import appendix

__all__ = ["adversarial_data", "appendix", "existing_data", "overlap_loss"]
