"""The pages of methods, metrics, networks and datasets, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from untwine.cli import flags
from untwine.cli.pages import Page, described_arguments
from untwine.references import references_in


def method_page(name: str) -> Page:
    """The page of a method."""
    from untwine.methods import methods
    from untwine.methods.registry import own_arguments, own_parts, part_help

    method = methods[name]
    own = own_arguments(name)
    parts = own_parts(name)
    arguments = described_arguments(method, [key for key in inspect.signature(method).parameters if key not in own])
    published: Mapping[str, Any] = getattr(method, "published", {})
    facts = [f"Its parts: {', '.join(f'{kind} {text}' for kind, text in parts.items())}."] if parts else []
    facts += [f"Another {kind}, --{kind}: {part_help(kind)}." for kind in parts]
    if published:
        settings = ", ".join(f"{key} {_setting(value)}" for key, value in published.items())
        facts.append(f"Default settings of its runs, as published: {settings}.")
    chosen = next((key for key, value in own.items() if isinstance(value, float)), None)
    flag = f" --{flags.hyphens(chosen)} {own[chosen]:g}" if chosen else ""
    call = f"uw.methods.{method.__name__}({f'{chosen}={own[chosen]!r}' if chosen else ''})"
    return Page(
        name=method.__name__,
        about=flags.description(method),
        of="a method: what it minimises",
        prefix="--",
        arguments=arguments,
        facts=facts,
        commands=[f"untwine train {flags.hyphens(name)} --dataset xy-squares{flag} --seeds 0-2"],
        python=[f"method = {call}", 'ensemble = uw.fit(uw.Run(method, "xy_squares", seeds=range(3)))'],
        literature=list(map(str, references_in(flags.description(method)))),
        more={"summary": flags.summary(method), "parts": parts, "published": _plain(published)},
    )


def metric_page(name: str) -> Page:
    """The page of a metric."""
    from untwine import metrics
    from untwine.metrics.floors import floors
    from untwine.metrics.sampling import PAIRED

    metric = metrics.get(name)
    known = {key: about for key, about in described_arguments(metric.__wrapped__).items() if key in metric.options}
    arguments = {key: about for key, about in known.items() if key not in metric.KNOWN}
    bounds = {part: [end if math.isfinite(end) else None for end in ends] for part, ends in metric.bounds.items()}
    low, high = bounds.get("value", (None, None))
    facts = [] if low is None else [f"From {low:g} to {high:g}." if high is not None else f"{low:g} or more."]
    if metric.forced:
        names = ", ".join("its value" if part == "value" else part for part in metric.forced)
        facts.append(f"evaluate leaves out values that cannot be otherwise, and says why: {names}.")
    if metric.ratios:
        names = ", ".join("its value" if part == "value" else part for part in metric.ratios)
        facts.append(f"evaluate leaves out models without an active latent: {names}.")
    paired = metric.takes == PAIRED
    hyphened = flags.hyphens(name)
    asked = f"{hyphened} local-{hyphened}" if paired else hyphened
    return Page(
        name=name,
        about=flags.description(metric),
        of=f"a function of {', '.join(metric.takes)}",
        prefix="",
        arguments=arguments,
        facts=facts,
        commands=[f"untwine evaluate runs/first --metrics {asked}"],
        python=[
            f"score = uw.metrics.{name}({', '.join(metric.takes)})  # float(score)",
            f'scores = uw.evaluate("runs/first", ["{name}"])',
        ],
        literature=list(map(str, references_in(flags.description(metric)))),
        more={
            "of": ", ".join(metric.takes),
            "bounds": bounds,
            "not_printed_without_active_latents": list(metric.ratios),
            "floors": floors(name),
        },
    )


def network_page(name: str) -> Page:
    """The page of a network, with its layers for examples of a shape that it takes."""
    from untwine.model.networks import networks

    network = networks[name]
    users = _published_with(network.__name__)
    facts = [f"The default of {', '.join(users)}."] if users else []
    shape, layers, parameters = _layers(network)
    facts.append(
        f"{parameters:,} parameters for examples of {_by(shape)} and 10 latents with a mean and a log variance:"
    )
    facts.append("\n".join(layers))
    dataset, data = _SHAPES[shape]
    return Page(
        name=network.__name__,
        about=flags.description(network),
        of="a network: an encoder and a decoder",
        prefix="--network.",
        arguments=described_arguments(network),
        facts=facts,
        commands=[f"untwine train beta-vae --dataset {dataset} --network {flags.hyphens(name)}"],
        python=[
            f"data, network = uw.datasets.{data}, uw.networks.{network.__name__}()",
            'ensemble = uw.fit(uw.Run("beta_vae", data, network))',
        ],
        literature=list(map(str, references_in(flags.description(network)))),
        more={"shape": list(shape), "layers": layers, "parameters": parameters, "default_of": users},
    )


def dataset_page(name: str) -> Page:
    """The page of a dataset."""
    from untwine.data.catalogue import describe
    from untwine.data.specs import datasets, public_of
    from untwine.progress import amount

    function = datasets[name]
    about = describe(name)
    facts = []
    if about.get("shape"):
        facts.append(f"{about['examples']:,} examples of {_by(about['shape'])}, {amount(about['bytes'])} as an array.")
        space = (public_of(function) or function()).factors
        facts.append("It has no factors: it can be trained on, not scored." if space is None else _factors(space))
    if about.get("licence"):
        facts.append(f"Licence: {about['licence']}. On this machine: {about['state']}.")
    needed = " ".join(f"--dataset.{flags.hyphens(key)} {_EXAMPLE[key]}" for key in about["needs"])
    hyphened = " ".join(filter(None, (flags.hyphens(function.__name__), needed)))
    arguments = ", ".join(repr(_EXAMPLE[key]) for key in about["needs"])
    return Page(
        name=function.__name__,
        about=flags.description(function),
        of="a dataset",
        prefix="--dataset.",
        arguments=described_arguments(function),
        facts=facts,
        commands=[f"untwine data show {hyphened}", f"untwine train beta-vae --dataset {hyphened}"],
        python=[f"data = uw.datasets.{function.__name__}({arguments})", "images = data.batch(range(16))"],
        literature=list(map(str, references_in(flags.description(function)))),
        more={key: value for key, value in about.items() if key not in ("name", "arguments")},
    )


# --- what pages are made of -----------------------------------------------------------------------------

_EXAMPLE = {"source": "pictures/", "dataset": "xy-squares"}  # of arguments that a dataset needs
# Shapes of which every network takes one, and a dataset of each, on the command line and in Python.
_SHAPES = {
    (1, 64, 64): ("three-dots", "three_dots()"),
    (1, 16, 16): ("three-dots --dataset.size 16", "three_dots(size=16)"),
    (1, 32, 32): ("three-dots --dataset.size 32", "three_dots(size=32)"),
    (2,): ("pinwheel", "pinwheel()"),
    (3,): ("synthetic-linear", "synthetic_linear()"),
}


def _published_with(network: str) -> list[str]:
    """The methods that were published with a network."""
    from untwine.methods import methods

    users = []
    for name in methods.names():
        published = getattr(methods[name], "published", {}).get("network")
        choices = published.values() if isinstance(published, Mapping) and "name" not in published else [published]
        if network in [choice["name"] if isinstance(choice, Mapping) else choice for choice in choices]:
            users.append(flags.hyphens(name))
    return users


def _layers(network: Callable[..., Any]) -> tuple[tuple[int, ...], list[str], int]:
    """A shape that a network takes, its layers then as lines of text, and the number of its parameters."""
    from untwine.errors import UntwineError
    from untwine.model.info import Info

    for shape in _SHAPES:
        try:
            encoder, decoder = network().build(Info(10, shape), 20)
        except UntwineError:
            continue
        lines = []
        for half, module in (("encoder", encoder), ("decoder", decoder)):
            layers = list(module) if hasattr(module, "__iter__") else [module]
            lines += [f"- {half}: {' '.join(str(layer).split())}" for layer in layers]
        return shape, lines, sum(p.numel() for half in (encoder, decoder) for p in half.parameters())
    raise UntwineError(f"network {network.__name__!r} takes none of the shapes {', '.join(map(_by, _SHAPES))}")


def _factors(space: Any) -> str:
    """The factors of a dataset with their sizes and kinds."""
    listed = zip(space.names, space.sizes, space.kinds, strict=True)
    return f"Factors: {', '.join(f'{name} ({size}, {kind})' for name, size, kind in listed)}."


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _setting(value: Any) -> str:
    if isinstance(value, Mapping):
        if "name" in value:
            return str(value["name"])
        return " or ".join(f"{_setting(network)} ({_by(shape)})" for shape, network in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(published: Mapping[str, Any]) -> dict[str, Any]:
    """Published settings as JSON, in which no key is a shape."""
    return {key: _setting(value) if isinstance(value, Mapping) else value for key, value in published.items()}
