"""Models that metrics fit to codes, and how a sample is split for them."""
