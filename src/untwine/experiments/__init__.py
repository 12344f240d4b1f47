"""The demo, and a file for each paper: its figures and tables as data."""
