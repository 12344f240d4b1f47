"""How pictures of drawn datasets are computed."""
