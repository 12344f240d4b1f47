"""The cores of this process, and how the threads of torch wait for each other."""

from __future__ import annotations

import os
import sys

VARIABLE = "OMP_WAIT_POLICY"


def wait_passively() -> bool:
    """Let threads sleep while they wait, where the user has not chosen otherwise; whether that was set now.

    OpenMP's threads spin by default. Where other programs have the cores, a thread that spins keeps the one that it
    waits for from running, and small models train several times slower (`untwine bench threads`). The results are the
    same bits. The variable is read once, when torch is loaded: afterwards setting it would change nothing, so it is
    left. A user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT stays.
    """
    if "torch" in sys.modules or VARIABLE in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return False
    os.environ[VARIABLE] = "PASSIVE"
    return True


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
