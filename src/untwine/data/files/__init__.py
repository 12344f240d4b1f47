"""Files behind datasets: the data folder, downloads, verification, derived files, and the formats."""
