"""One HTML page about runs: its pieces, its sections, and the function that writes it."""
