"""Doubts while a run trains: what its log says long before it ends."""

from __future__ import annotations

import math
from typing import Any

from untwine.differences import listed
from untwine.errors import warn

FEW_NATS = 0.05  # of the KL, summed over latents: with one that is active it is a multiple of that
_LEAST = 500  # steps, before which nothing is said
_RISE = 10.0  # times the first loss


def has_risen(first: float, now: float) -> bool:
    """Whether a loss is so far above the first one that its member hardly trains.

    >>> has_risen(30.0, 31.0), has_risen(30.0, 5_000.0), has_risen(-2.0, 1.0)
    (False, True, False)
    """
    return now - first > _RISE * max(abs(first), 1.0)


class Doubts:
    """Reads the lines of a pack's log, and warns once of each member that makes no progress.

    Args:
        steps: The steps of the run.
    """

    def __init__(self, steps: int):
        self.steps = steps
        self._first: dict[str, float] = {}
        self._said: set[tuple[str, str]] = set()

    def read(self, entry: dict[str, Any]) -> None:
        """Read a line of the log."""
        alive = {name: terms for name, terms in entry["members"].items() if "diverged" not in terms}
        losses = {name: terms["loss"] for name, terms in alive.items() if _is_number(terms.get("loss"))}
        for name, loss in losses.items():
            self._first.setdefault(name, loss)
        risen = self._new("risen", [name for name, loss in losses.items() if has_risen(self._first[name], loss)])
        if risen:
            was, now = (source[risen[0]] for source in (self._first, losses))
            warn(
                f"{listed(risen)} may diverge: at step {entry['step']:,} the loss is {now:.3g}, and was {was:.3g} at "
                "first. A smaller learning rate (lr) or clip=1.0 may help"
            )
        if entry["step"] < max(_LEAST, self.steps / 2):
            return
        silent = [n for n, terms in alive.items() if _is_number(terms.get("kl")) and abs(terms["kl"]) < FEW_NATS]
        if silent := self._new("silent", silent):
            warn(
                f"posterior collapse: at step {entry['step']:,} of {self.steps:,} the KL of {listed(silent)} is below "
                f"{FEW_NATS} nats, so that codes say nothing. A smaller weight on the KL, or one that rises slowly "
                "(anneal), may help"
            )

    def _new(self, what: str, names: list[str]) -> list[str]:
        """Those of these members of which this has not been said."""
        new = [name for name in names if (what, name) not in self._said]
        self._said |= {(what, name) for name in new}
        return new


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
