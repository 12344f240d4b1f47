"""The folder of a run: its record, log, checkpoints and the names of its members."""
