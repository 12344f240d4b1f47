"""Work for many processors: `map` calls a function for many specs, `sweep` trains and scores many runs.

A name is imported when it is first used: a worker needs torch only where its function does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from untwine.namespace import directory, lookup

if TYPE_CHECKING:
    from untwine.launch.mapping import PartlyDone as PartlyDone
    from untwine.launch.mapping import map as map
    from untwine.launch.sweeping import Sweep as Sweep
    from untwine.launch.sweeping import sweep as sweep
    from untwine.launch.table import SweepTable as SweepTable
else:
    _HOMES = {
        "PartlyDone": "untwine.launch.mapping:PartlyDone",
        "Sweep": "untwine.launch.sweeping:Sweep",
        "SweepTable": "untwine.launch.table:SweepTable",
        "map": "untwine.launch.mapping:map",
        "sweep": "untwine.launch.sweeping:sweep",
    }
    __all__ = sorted(_HOMES)
    __dir__ = directory(__all__)
    __getattr__ = lookup(_HOMES, globals())
