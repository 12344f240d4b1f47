"""Pictures and pages of results. `untwine.figures` is the module `figures` of this room."""
