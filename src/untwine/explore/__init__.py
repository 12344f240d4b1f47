"""The page of `untwine explore`: models under one's fingers, in a browser on the same machine."""
