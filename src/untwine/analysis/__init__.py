"""What was learned, and why: alignment, perceived distances, traversals, encodings."""
