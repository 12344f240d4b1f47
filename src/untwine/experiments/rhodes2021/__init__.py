"""Rhodes & Lee 2021: every figure of the paper, its prediction about single objects, and two questions of our own.

Settings are those of its appendices B to D, and of the authors' code where these are silent. The models of Figures 2,
4, 5, 6 and 7 are the same members, trained once. What the paper shows as pictures alone is measured too: the share of
a Jacobian column's energy at one dot or tile, and its spread over a patch.
"""

from untwine.experiments.rhodes2021 import dots, estimators, objects, patches

__all__ = ["dots", "estimators", "objects", "patches"]
