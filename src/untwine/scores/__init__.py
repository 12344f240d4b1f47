"""The scores of a run as data: their file, their labels, and tables of them."""
