"""Files behind datasets: the cache, downloads, verification, and the formats that are read."""
