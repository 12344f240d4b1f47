"""Score a run: whatever metrics ask for is sampled, encoded once for all members, and kept in `scores.json`."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from untwine import metrics, naming
from untwine.data import Dataset
from untwine.data.windows import whole
from untwine.errors import UntwineError
from untwine.experiments import scores
from untwine.metrics.encoder import Encoder
from untwine.metrics.local import averaged, bind, described, over, windows_of
from untwine.streams import np_uniform
from untwine.train.ensemble import Ensemble, load
from untwine.train.folder import stored
from untwine.train.progress import track

SCORED = ("mig", "modularity", "local-mig", "local-modularity")  # by default, where there are factors
UNSCORED = ("hoyer", "delta-kl", "dto")  # and where there are none

PAIRED = ("codes", "factors")


@dataclass(frozen=True)
class Request:
    """A metric with its arguments, on all the data or on windows of a radius."""

    metric: metrics.Metric[...]
    arguments: dict[str, Any]
    local: bool = False
    radius: float | None = None


def requests(names: Sequence[str], radii: Sequence[float]) -> list[Request]:
    """What texts ask for: `mig`, `local-mig`, `dci(estimator=sklearn)`; local ones once for each radius."""
    table = {}
    for name in metrics.names():
        found = metrics.get(name)
        table[name] = _maker(found, False)
        if found.takes == PAIRED:
            table[f"local_{name}"] = _maker(found, True)
    found = [naming.read("metric", text, table) for text in names]
    return [
        Request(one.metric, one.arguments, one.local, radius)
        for one in found
        for radius in (radii if one.local else [None])
    ]


def _maker(metric: metrics.Metric[...], local: bool) -> Any:
    """A function with the metric's options, all by name."""

    def make(**arguments: Any) -> Request:
        return Request(metric, arguments, local)

    parameters = inspect.signature(metric).parameters
    options = [parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in metric.options]
    make.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return make


def run(
    path: str | Path,
    metrics: tuple[str, ...] = (),
    rho: tuple[float, ...] = (0.1,),
    windows: int = 20,
    points: int | None = None,
    examples: int = 10_000,
    jacobians: int = 1_000,
    seed: int = 0,
    gaussian: bool = False,
    device: str = "auto",
    again: bool = False,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Score the finished members of a run's folder, write `scores.json` there, and return what was asked for.

    What the folder already holds, asked in the same way, is not computed again. Models that are compared with the
    same seed are compared on the same states.

    Args:
        path: The folder of a run.
        metrics: Names, with a metric's own arguments in brackets if need be: mig, local-mig, "dci(estimator=sklearn)".
        rho: Radii of the windows of local metrics, as fractions of each factor's range.
        windows: How many windows a local metric is averaged over.
        points: States in a sample; by default as each metric was published, and 10,000 in each window.
        examples: Training examples for metrics that need no factors.
        jacobians: Training examples at which dto takes Jacobians.
        seed: Of the windows, the states and the splits into training and test parts.
        gaussian: Map codes to a normal by their prior's distribution function first, as mathieu2019 does for Student-t.
        device: auto, cpu, cuda or mps.
        again: Compute also what is there already.
    """
    path = Path(path)
    ensemble = load(path, device)
    dataset = stored(path).make_dataset()
    asked = requests(metrics or (UNSCORED if dataset.factors is None else SCORED), rho)
    members = {member.name: member.id for member in ensemble.members}
    source = Source(ensemble, dataset, examples, jacobians, seed, gaussian)
    wanted = {_key(one, about := source.asked(one, points, windows)): (one, about) for one in asked}
    held = {scores.key(entry): entry for entry in scores.read(path)}
    missing = [
        one
        for key, (one, _) in wanted.items()
        if again or not members.items() <= {n: m["id"] for n, m in held.get(key, _NOTHING)["members"].items()}.items()
    ]
    for one, score in source.results(missing, points, windows, progress):
        entry = scores.entry(score, source.asked(one, points, windows), members)
        scores.write(path, entry)
        held[scores.key(entry)] = entry
    return [_only(held[key], members) for key in wanted]


_NOTHING: dict[str, Any] = {"members": {}}


def _key(one: Request, about: dict[str, Any]) -> str:
    return scores.key({"metric": ("local_" if one.local else "") + one.metric.__name__, "asked": about})


def _only(entry: dict[str, Any], members: dict[str, str]) -> dict[str, Any]:
    """An entry with these members, in this order."""
    return {**entry, "members": {name: entry["members"][name] for name in members}}


class Source:
    """What metrics take, by the names of their arguments, of a pack of models and their data."""

    def __init__(
        self, ensemble: Ensemble, dataset: Dataset, examples: int, jacobians: int, seed: int, gaussian: bool = False
    ):
        for name, count in (("examples", examples), ("jacobians", jacobians)):
            if count < 2:
                raise UntwineError(f"{name} must be 2 or more, not {count}")
        self.ensemble, self.dataset, self.seed, self.gaussian = ensemble, dataset, seed, gaussian
        self.counts = {"examples": min(examples, len(dataset)), "jacobians": min(jacobians, examples, len(dataset))}

    def asked(self, one: Request, points: int | None, windows: int) -> dict[str, Any]:
        """Everything that a request's result depends on, besides the model."""
        options = one.metric.options | (one.metric.local if one.local else {}) | one.arguments
        about: dict[str, Any] = {"options": options, "dataset": dict(self.dataset.spec), "seed": self.seed}
        if one.metric.takes == PAIRED:
            about["points"] = self._points(one, points)
        else:
            about["examples"] = self.counts["jacobians" if "jacobians" in one.metric.takes else "examples"]
        if one.local:
            about |= {"radius": one.radius, "windows": windows}
        if one.metric.together:
            about["models"] = [member.id for member in self.ensemble.members]
        if self.gaussian:
            about["gaussian"] = True
        return json.loads(json.dumps(about, default=str))

    @staticmethod
    def _points(one: Request, points: int | None) -> int:
        return points or (10_000 if one.local else one.metric.design.points)

    def results(self, asked: Sequence[Request], points: int | None, windows: int, progress: bool | None) -> Any:
        """The requests with their scores, those with the same sample together."""
        encoder = Encoder(self.encode, self.dataset)
        for radius in dict.fromkeys(one.radius for one in asked if one.metric.takes == PAIRED):
            those = [one for one in asked if one.metric.takes == PAIRED and one.radius == radius]
            bound = [bind(o.metric, self._points(o, points), o.local, **o.arguments) for o in those]
            rules = {"freeze_below": None, "wrap": False}
            chosen = [whole(encoder.space)] if radius is None else windows_of(encoder, radius, windows, self.seed)
            what = ", ".join(o.metric.__name__ for o in those) + ("" if radius is None else f", radius {radius:g}")
            found = over(track(chosen, what, len(chosen), progress), bound, encoder, self.seed)
            for one, several in zip(those, found, strict=True):
                score = several[0] if radius is None else averaged(several, chosen, radius, rules)
                yield one, self._described(score)
        for one in asked:
            if one.metric.takes != PAIRED:
                known = {"kl": self.kl} if "kl" in one.metric.options else {}
                score = one.metric(*(getattr(self, name) for name in one.metric.takes), **known | one.arguments)
                yield one, self._described(score)

    def _described(self, score: metrics.Score) -> metrics.Score:
        return described(score, self.dataset, self.seed, **({"gaussian": True} if self.gaussian else {}))

    def encode(self, x: np.ndarray) -> np.ndarray:
        codes = self.ensemble.encode(x).numpy()
        if not self.gaussian:
            return codes
        from untwine.analysis.gaussian import gaussianised

        return np.stack([gaussianised(own, prior) for own, prior in zip(codes, self.prior, strict=True)])

    # --- by the names of metrics' arguments -------------------------------------------------------------

    @functools.cached_property
    def _examples(self) -> np.ndarray:
        """Training examples, without repetition: all of them where there are no more than asked for."""
        chosen = np.argsort(np_uniform(self.seed, "examples", len(self.dataset)), kind="stable")
        return self.dataset.batch(np.sort(chosen[: self.counts["examples"]]))

    @functools.cached_property
    def codes(self) -> np.ndarray:
        return self.encode(self._examples)

    @functools.cached_property
    def means(self) -> np.ndarray:
        return self.ensemble.encode(self._examples).numpy()

    @functools.cached_property
    def variances(self) -> np.ndarray:
        return self.ensemble.variances(self._examples).numpy()

    @functools.cached_property
    def kl(self) -> list[np.ndarray]:
        """KL(q(z_j | x) || N(0, 1)), mean over examples, of each member's latents."""
        variances = np.maximum(self.variances, 1e-300)
        return list((0.5 * (self.means**2 + variances - np.log(variances) - 1)).mean(1))

    @functools.cached_property
    def jacobians(self) -> np.ndarray:
        """Square matrices with the Gram matrices of the Jacobians: `dto` sees nothing else, and images are large."""
        import torch

        means = torch.from_numpy(self.means[:, : self.counts["jacobians"]])
        parts = []
        for some in means.split(32, 1):
            tall = self.ensemble.jacobian(some).flatten(3).double().mT  # [members, n, outputs, latent]
            if tall.shape[-2] > tall.shape[-1]:
                tall = torch.linalg.qr(tall, mode="r").R
            parts.append(tall.mT)
        return torch.cat(parts, 1).numpy()

    @functools.cached_property
    def posterior(self) -> list[Any]:
        return self.ensemble.posteriors(self._examples)

    @functools.cached_property
    def prior(self) -> list[Any]:
        return self.ensemble.priors()
