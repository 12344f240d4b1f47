"""Figures and tables of data alone: 2, 3, 5, 8, A1 and Tables A1 and A2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from untwine.experiments.engine.claims import Beyond, Claim, Exactly, Higher, Trend
from untwine.experiments.engine.contract import Fact, Plan, experiment
from untwine.experiments.engine.rows import Row
from untwine.experiments.michlo2023.drawn import (
    of_data,
    of_importance,
    of_matrices,
    of_overlaps,
    of_traversals,
)
from untwine.experiments.michlo2023.measured import (
    agreements,
    by_steps,
    constants,
    examples_of,
    importances,
    overlaps,
)
from untwine.experiments.michlo2023.models import (
    BENCHMARKS,
    DATA,
    SPACINGS,
    SQUARES,
    Data,
    caveats,
)
from untwine.experiments.michlo2023.tables import PUBLISHED_A1, PUBLISHED_A2, TABLE_A1
from untwine.report import figures
from untwine.train.seeds import parse_seeds


@experiment(
    "michlo2023/fig2",
    claim="along a factor of a common dataset, images overlap the more the closer their values are",
    smoke={"datasets": SQUARES, "traversals": 1},
)
def fig2(datasets: tuple[Data, ...] = BENCHMARKS, traversals: int = 100, rendered: bool = True) -> Plan:
    """Traversals of each factor of the common datasets, and how perceived distances grow with the steps between values.

    Section 4: a traversal along the scale of 3D Shapes can be put in order, since shapes that are closer in size
    overlap more. The distances are means over random traversals, whose number the paper does not give.
    """
    words = "3D Shapes: the closer two scales, the smaller their perceived distance"
    return Plan(
        facts=[
            Fact("distance by steps", by_steps, {"name": n, "rendered": rendered, "traversals": traversals})
            for n in datasets
        ],
        claims=[Trend(words, "distance", "steps", {"dataset": "3D Shapes", "factor": "scale"})],
        figures={
            **{f"fig2-{DATA[name][0]}": of_data(of_traversals, name, rendered) for name in datasets},
            "distances": lambda outcome: figures.lines(outcome.rows, x="steps", by="factor", panels="dataset"),
        },
        caveats=caveats(rendered),
    )


@experiment(
    "michlo2023/fig3",
    claim="perceived distances along the factors of common datasets agree with ground-truth distances",
    smoke={"datasets": SQUARES, "seeds": "0-2", "traversals": 1},
)
def fig3(
    datasets: tuple[Data, ...] = BENCHMARKS,
    seeds: str = "0-4",
    traversals: int = 100,
    wrap: bool = False,
    rendered: bool = True,
) -> Plan:
    """Mean distance matrices along every factor (Eqs. 5, 7 and 10), and Spearman's correlation of both kinds.

    Each seed has its own random traversals, whose number the paper does not give. Ground-truth distances are L1
    between indices, also for cyclic and unordered factors, as in Eq. 5; wrap=true goes the shorter way round.
    Section 5 says that Cars3D already has an incorrect order, which may explain its lower scores.
    """
    facts: list[Mapping[str, Any]] = [
        {"name": n, "rendered": rendered, "traversals": traversals, "seeds": seeds, "wrap": wrap} for n in datasets
    ]
    claims: list[Claim] = [
        Beyond(
            f"{n}: perceived distances agree with the ground truth", "agreement", {"dataset": n, "factor": "all"}, 0.0
        )
        for n in BENCHMARKS
        if n != "Cars3D"
    ]
    claims += [
        Higher(
            f"{n} agrees better than Cars3D", "agreement", {"dataset": n}, {"dataset": "Cars3D"}, at={"factor": "all"}
        )
        for n in BENCHMARKS
        if n != "Cars3D"
    ]
    first = parse_seeds(seeds)[0]
    return Plan(
        facts=[Fact("agreement of distances", agreements, arguments) for arguments in facts],
        claims=claims,
        figures={f"fig3-{DATA[n][0]}": of_data(of_matrices, n, rendered, traversals, first, wrap) for n in datasets},
        caveats=caveats(rendered),
    )


@experiment(
    "michlo2023/fig5",
    claim="XYSquares has 8^6 images, and pixel-wise losses measure constant distances along its factors",
    smoke={},
)
def fig5() -> Plan:
    """Traversals of XYSquares (section 5.1): three squares of 8 px on a grid of 8 by 8, one in each colour.

    Nothing is random: all traversals of all factors have the same distances.
    """
    return Plan(
        facts=[
            Fact("distance by steps", by_steps, {"name": "XYSquares", "rendered": False, "traversals": 1}),
            Fact("overlaps of squares", overlaps, {"spacing": 8}),
            Fact("size of XYSquares", examples_of, {"name": "XYSquares"}),
        ],
        claims=[
            Exactly("the dataset has 8^6 observations", "examples", {"dataset": "XYSquares"}, within=0),
            Exactly("all distances along a factor are the same", "distinct distances", {"spacing": 8}, within=0),
        ],
        published=[
            {"dataset": "XYSquares", "measure": "examples", "value": 262_144},
            {"spacing": 8, "measure": "distinct distances", "value": 1},
        ],
        figures={"fig5": of_data(of_traversals, "XYSquares", False)},
    )


@experiment(
    "michlo2023/fig8",
    claim="the closer the positions of XYSquares, the better perceived distances agree with the ground truth",
    smoke={},
)
def fig8(spacings: tuple[int, ...] = SPACINGS) -> Plan:
    """Distance matrices of XYSquares with a spacing of 8 to 1 pixels (section 5.4); nothing is random.

    The text says besides that more pairs are closer than the constant distance of spacing 8, and that there are more
    distinct distances, which makes it easier to put positions in order.
    """
    falls = {
        "agreement": "the smaller the spacing, the better perceived distances agree with the ground truth",
        "overlapping pairs": "the smaller the spacing, the more pairs along a factor overlap",
        "distinct distances": "the smaller the spacing, the more distinct distances there are",
    }
    return Plan(
        facts=[Fact("overlaps of squares", overlaps, {"spacing": spacing}) for spacing in spacings],
        claims=[
            *(Trend(text, measure, "spacing", rising=False) for measure, text in falls.items()),
            Exactly("with a spacing of 8 all distances are the same", "distinct distances", {"spacing": 8}, within=0),
        ],
        published=[{"spacing": 8, "measure": "distinct distances", "value": 1}],
        figures={
            "fig8": of_data(of_overlaps, spacings),
            "by-spacing": lambda outcome: figures.lines(outcome.rows.where(measure=list(falls)), x="spacing"),
        },
    )


@experiment(
    "michlo2023/tableA1",
    claim="distances along factors have the order in which VAEs learn them, and are below those of random pairs",
    smoke={"datasets": SQUARES, "pairs": 200},
)
def tableA1(datasets: tuple[Data, ...] = tuple(DATA), pairs: int = 50_000, rendered: bool = True) -> Plan:
    """The mean perceived distance of pairs along each factor and of random pairs (appendix A), of pixels in [0, 1].

    The text gives dSprites' x and y as .058 and .057, the table .0559 and .0584; the table is taken here.
    """
    # Of published files, the error of means over 50,000 pairs and four digits are left; drawings are ours (docstrings).
    within = {"XYSquares": 0.005, **({"dSprites": 0.05, "3D Shapes": 0.07} if rendered else {})}
    order = "{}: distances fall in the paper's order, random pairs first"
    claims: list[Claim] = [
        Trend(order.format(name), "mean distance", "place", {"dataset": name}, rising=False) for name in BENCHMARKS
    ]
    for name, factors in TABLE_A1.items():
        alike = {factor: [factor] for factor in factors}
        if name == "XYSquares":  # the table has one line for the x, and one for the y, of all squares
            alike = {"random": ["random"], **{axis: [f"{axis}_{c}" for c in "RGB"] for axis in "yx"}}
        claims += [
            Exactly(f"{name}, {factor}", "mean distance", {"dataset": name, "factor": same}, within.get(name, 0.03))
            for factor, same in alike.items()
        ]
    squares = {"dataset": "XYSquares", "factor": [factor for factor in TABLE_A1["XYSquares"] if factor != "random"]}
    claims.append(Exactly("XYSquares: distances along factors do not vary", "deviation", squares, within=1e-6))
    return Plan(
        facts=_of_each(importances, datasets, rendered=rendered, pairs=pairs),
        claims=claims,
        published=PUBLISHED_A1,
        figures={
            "tableA1": lambda outcome: figures.cells(
                outcome.rows.where(measure=["mean distance", "deviation"]),
                "factor",
                "measure",
                panels="dataset",
                published=outcome.published,
            )
        },
        caveats=caveats(rendered),
    )


@experiment(
    "michlo2023/figA1",
    claim="distances of important factors lie further to the right; those of XYSquares take single values",
    smoke={"datasets": SQUARES, "pairs": 200},
)
def figA1(datasets: tuple[Data, ...] = tuple(DATA), pairs: int = 50_000, rendered: bool = True) -> Plan:
    """The share of pairs up to each perceived distance, for each factor and random pairs; the pairs of Table A1.

    The caption's order for dSprites, that of Burgess et al. 2017, is x and y, scale, shape, orientation.
    """
    squares = {"dataset": "XYSquares", "factor": "x_R"}
    return Plan(
        facts=_of_each(importances, datasets, rendered=rendered, pairs=pairs),
        claims=[
            Trend(
                "dSprites: curves lie in the order of importance",
                "median distance",
                "place",
                {"dataset": "dSprites"},
                False,
            ),
            Exactly("XYSquares: distances along a factor are constant", "distinct distances", squares, within=0),
        ],
        published=[{**squares, "measure": "distinct distances", "value": 1}],
        figures={f"figA1-{DATA[name][0]}": of_data(of_importance, name, rendered, pairs) for name in datasets},
        caveats=caveats(rendered),
    )


@experiment(
    "michlo2023/tableA2",
    claim="the means and deviations that standardise each dataset",
    smoke={"datasets": SQUARES, "examples": 50},
    small={"examples": 20_000},
)
def tableA2(datasets: tuple[Data, ...] = tuple(DATA), examples: int | None = None, rendered: bool = True) -> Plan:
    """Constants of B.4 over all examples (None): a deviation is the mean over images of each image's unbiased one.

    The paper calls it the standard deviation of the channel; that of all pixels of dSprites together would be
    .2017, and all of XYSquares' digits are those of single images.
    """
    # Fifteen digits of files and of XYSquares agree to float64; drawings are ours (docstrings of the datasets).
    within = {"dSprites": 0.01, "3D Shapes": 0.04} if rendered else {}
    return Plan(
        facts=_of_each(constants, datasets, rendered=rendered, examples=examples),
        claims=[
            Exactly(
                f"{row['dataset']}, {row['channel']}: the {row['measure']}",
                row["measure"],
                {"dataset": row["dataset"], "channel": row["channel"]},
                within.get(row["dataset"], 1e-9),
            )
            for row in PUBLISHED_A2
        ],
        published=PUBLISHED_A2,
        figures={
            "tableA2": lambda outcome: figures.cells(
                outcome.rows, "channel", "measure", panels="dataset", published=outcome.published
            )
        },
        caveats=caveats(rendered),
    )


def _of_each(function: Callable[..., list[Row]], datasets: tuple[Data, ...], **arguments: Any) -> list[Fact]:
    """A fact for each dataset, so that a file that is missing leaves the others."""
    return [Fact(function.__name__, function, {"name": name, **arguments}) for name in datasets]
