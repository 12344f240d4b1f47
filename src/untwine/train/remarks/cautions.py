"""Cautions: what makes the models of a run, or numbers about them, doubtful.

A check takes what is known of a run and yields cautions; `CHECKS` lists them all. They need no model and no data, so
they cost nothing while a run trains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from untwine.objective.schedules import Schedule
from untwine.parts import leaves
from untwine.train.folders.history import Course, History, courses
from untwine.train.member import Member
from untwine.train.remarks.doubts import has_risen

LAST = 0.2  # the share of a run's steps in which its loss should have settled
SETTLED = 0.002  # of the loss: a smaller fall between the halves of that share does not count
LEVEL = 0.05  # of the t-test for a fall
FEWEST_SEEDS = 3  # from which on there are intervals
ENOUGH_SEEDS = 5  # for a test over seeds alone; fewer have little power
FEWEST_PAIRS = 4  # of lines of the log, for a test over them


@dataclass(frozen=True)
class Caution:
    """A reason for doubt.

    Args:
        kind: The name of the check.
        text: What was seen.
        advice: What to do about it.
        serious: Whether results are likely to mean little; otherwise it is a remark.
    """

    kind: str
    text: str
    advice: str
    serious: bool = True


@dataclass(frozen=True)
class Known:
    """What is known of a run's members, of equal hyperparameters.

    Args:
        members: The members.
        states: The state of each member by name: waiting, training, done or diverged.
        history: The log.
        ended: The step at which members diverged, by name.
        causes: Why they did, by name, where that is known.
        active: The number of active latents by name, where it was computed and is known.
    """

    members: Sequence[Member]
    states: Mapping[str, str]
    history: History = ()
    ended: Mapping[str, int] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)
    active: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The steps that the run is to train."""
        return int(self.members[0].spec["steps"])

    def in_state(self, *states: str) -> list[str]:
        """The names of the members in one of these states."""
        return [member.name for member in self.members if self.states[member.name] in states]


Check = Callable[[Known], Iterator[Caution]]


def cautions(known: Known) -> list[Caution]:
    """All cautions about a run, serious ones first."""
    found = [caution for check in CHECKS for caution in check(known)]
    return sorted(found, key=lambda caution: not caution.serious)


# --- members --------------------------------------------------------------------------------------------


def diverged(known: Known) -> Iterator[Caution]:
    """Members whose loss or gradient was not finite."""
    if names := known.in_state("diverged"):
        where = [f"{name} at step {known.ended[name]:,}" if name in known.ended else name for name in names]
        reasons = {name: known.causes[name] for name in names if name in known.causes}
        why = f" {next(iter(reasons))}: {next(iter(reasons.values()))}." if reasons else ""
        yield Caution(
            "diverged",
            f"Diverged, and left out of what is shown: {_listed(where)}{_share(names, known)}.{why}",
            "Train with a smaller learning rate (--lr), or clip gradients (--clip 1).",
        )


def unfinished(known: Known) -> Iterator[Caution]:
    """Members that are not trained to the end."""
    if names := known.in_state("waiting", "training"):
        logged = [line["step"] for line in known.history if set(names) & set(line["members"])]
        reached = f" The log ends at step {max(logged):,} of {known.steps:,}." if logged else ""
        yield Caution(
            "unfinished",
            f"Not trained to the end: {_listed(names)}{_share(names, known)}.{reached}",
            "Resume the run: untwine train --resume and its folder.",
        )


def collapsed(known: Known) -> Iterator[Caution]:
    """Members without an active latent."""
    if names := [member.name for member in known.members if known.active.get(member.name) == 0]:
        yield Caution(
            "collapsed",
            f"Collapsed: {_listed(names)}{_share(names, known)}. No latent is active: posteriors are about as wide "
            "as the prior, so the decoder can hardly use the codes, and images of all codes look alike.",
            "Train longer, or with a smaller weight on the KL, or let that weight rise slowly (--anneal).",
        )


def risen(known: Known) -> Iterator[Caution]:
    """Members whose loss has risen far above what it was."""
    course = courses(known.history, known.in_state("done")).get("loss")
    if course is None or not course.values.shape[1]:
        return
    pairs = zip(course.members, course.values, strict=True)
    if names := [name for name, losses in pairs if has_risen(float(losses[0]), float(np.nanmax(losses)))]:
        yield Caution(
            "risen",
            f"Nearly diverged: the loss of {_listed(names)}{_share(names, known)} rose far above where it began.",
            "Train with a smaller learning rate (--lr), or clip gradients (--clip 1).",
        )


def few_seeds(known: Known) -> Iterator[Caution]:
    """Fewer models than an interval needs."""
    done = known.in_state("done")
    if 0 < len(done) < FEWEST_SEEDS:
        yield Caution(
            "few seeds",
            f"There {'is one model' if len(done) == 1 else f'are {len(done)} models'}: too few for intervals. Seeds of "
            "one method often differ more than methods do.",
            "Add seeds: the same command with --seeds 0-9 trains only those that are missing.",
            serious=False,
        )


# --- training -------------------------------------------------------------------------------------------


def ramps(known: Known) -> Iterator[Caution]:
    """Weights that were still rising when training ended."""
    together: dict[int, list[str]] = {}
    for name, (end, reached, final) in _ramps(known).items():
        if end > known.steps:
            yield Caution(
                "ramp",
                f"The weight of {name} changes until step {end:,}, but training ends at {known.steps:,}: it got to "
                f"{reached:.3g} and not to {final:.3g}.",
                "Train longer (--steps), or let weights rise faster (--anneal).",
            )
        elif end > (1 - LAST) * known.steps:
            together.setdefault(end, []).append(name)
    for end, names in together.items():
        yield Caution(
            "ramp",
            f"The weight of {' and of '.join(names)} changed until step {end:,} of {known.steps:,}, so whether the "
            "loss has settled cannot be told.",
            "Train some steps more at the final weight.",
            serious=False,
        )


def unsettled(known: Known) -> Iterator[Caution]:
    """A loss that still falls: a t-test of its fall between the two halves of the last fifth of the steps."""
    course = courses(known.history, known.in_state("done")).get("loss")
    if course is None or any(end > (1 - LAST) * known.steps for end, _, _ in _ramps(known).values()):
        return
    test = still_falls(course, known.steps)
    if test is not None and test.p < LEVEL:
        yield Caution(
            "unsettled",
            f"The loss still falls: by {test.fall:.3g} nats, {test.share:.1%} of it, between the halves of the last "
            f"fifth of the steps (p = {test.p:.2g} that it falls by less than {SETTLED:.1%}; a t-test over "
            f"{test.count} {test.over}).",
            "Train longer (--steps), or compare only with runs of as many steps.",
        )


@dataclass(frozen=True)
class Fall:
    """How far a loss fell within the last steps, in nats and as a share of it, and the t-test that it fell by less."""

    fall: float
    share: float
    p: float
    count: int
    over: str


def still_falls(course: Course, steps: int) -> Fall | None:
    """A one-sided t-test of a loss's fall between the halves of the last fifth of the steps; None with too few values.

    A fall of less than 0.2 percent of the loss counts as none. Five seeds or more are compared by their means over each
    half; fewer by pairs of lines of the log, one from each half; three by their means where the log has too few lines.

    Args:
        course: The loss of each member.
        steps: The steps of the run.
    """
    from scipy import stats

    values = course.values[np.isfinite(course.values).all(1)]
    last = course.steps > (1 - LAST) * steps
    early = last & (course.steps <= (1 - LAST / 2) * steps)
    first, second = values[:, early], values[:, last & ~early]
    if not (len(values) and first.shape[1] and second.shape[1]):
        return None
    over, pairs = "seeds", min(first.shape[1], second.shape[1])
    if len(values) < ENOUGH_SEEDS and len(values) * pairs >= FEWEST_PAIRS:
        over = "pairs of log lines"
        first, second = first[:, -pairs:].reshape(-1, 1), second[:, -pairs:].reshape(-1, 1)
    elif len(values) < FEWEST_SEEDS:
        return None
    falls: Float64[np.ndarray, " n"] = first.mean(1) - second.mean(1)
    level = np.abs(second.mean(1))
    excess = falls - SETTLED * level
    if excess.std() == 0:
        p = 0.0 if excess[0] > 0 else 1.0
    else:
        test: Any = stats.ttest_1samp(excess, 0.0, alternative="greater")
        p = float(test.pvalue)
    return Fall(float(falls.mean()), float(falls.mean() / max(level.mean(), 1e-12)), p, len(falls), over)


CHECKS: tuple[Check, ...] = (diverged, unfinished, collapsed, risen, ramps, unsettled, few_seeds)


def _ramps(known: Known) -> dict[str, tuple[int, float, float]]:
    """For each penalty whose weight moves: the last step at which it does, its value at the end, and its final one."""
    moving: dict[str, tuple[int, float, float]] = {}
    for member in known.members:
        for name, penalty in member.objective.penalties.items():
            for schedule in leaves(penalty, _is_schedule):
                end = schedule.ends()
                if end > moving.get(name, (0,))[0]:
                    moving[name] = end, float(schedule(known.steps)), float(schedule(end))
    return moving


def _is_schedule(value: Any) -> bool:
    return isinstance(value, Schedule)


def _listed(names: Sequence[str]) -> str:
    """Names in a row; those of a sweep have commas themselves."""
    return ("; " if any("," in name for name in names) else ", ").join(names)


def _share(names: Sequence[str], known: Known) -> str:
    """How many of the members these are; nothing where there is only one."""
    return f" ({len(names)} of {len(known.members)} models)" if len(known.members) > 1 else ""
