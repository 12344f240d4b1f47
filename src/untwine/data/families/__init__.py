"""Families of datasets, a file for each. A new dataset is also listed in `registered`."""
