"""Colours, markers and dashes that tell lines apart, also for colour-blind readers."""

from __future__ import annotations

# Okabe and Ito (2008), without yellow, which is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", ":")


def line_style(i: int) -> tuple[str, str, str]:
    """The colour, the marker and the dashes of the i-th line of a chart: no two of the first 21 are alike.

    Where colours begin again, markers are shifted by one, and lines are dashed.

    >>> line_style(0), line_style(7)
    (('#0072B2', 'o', '-'), ('#0072B2', 's', '--'))
    """
    again, place = divmod(i, len(COLOURS))
    return COLOURS[place], _MARKERS[(place + again) % len(_MARKERS)], _DASHES[again % len(_DASHES)]
