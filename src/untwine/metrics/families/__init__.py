"""The metrics, one file for each family: pure functions of arrays."""
