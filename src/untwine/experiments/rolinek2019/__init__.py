"""Rolinek, Zietlow and Martius 2019: Variational Autoencoders Pursue PCA Directions (by Accident).

The names of figures and tables are those of the paper; S4 and S5 are in its supplement.
"""

from untwine.experiments.rolinek2019 import linear, trained

__all__ = ["linear", "trained"]
