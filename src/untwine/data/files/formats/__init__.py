"""Readers of file formats. Nothing that they read is unpickled or executed."""
