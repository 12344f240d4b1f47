"""`untwine train`: a run from flags, or the rest of one that was stopped."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from untwine.cli import UsageError, asked, flags
from untwine.cli.fitting import fit
from untwine.methods import methods
from untwine.methods.registry import own_parts

# What the fields of a run and the arguments of `fit` mean; their defaults are those of Python, and of the method.
RUN = {
    "latents": "how many numbers describe an example",
    "seeds": "one model for each seed",
    "data_seeds": "seeds of the data's order and of the noise, if they are to differ from the seeds",
    "steps": "how long to train",
    "batch_size": "examples in a step",
    "lr": "the learning rate",
    "sampling": "iid (with replacement) or epochs (reshuffled)",
    "clip": "the largest norm of a gradient; longer ones are cut",
    "precision": "float32 or bfloat16",
    "standardise": "whether a network sees images less their mean, over their standard deviation, by channel",
    "log_every": "steps between two lines of the log",
    "watch": "further terms for the log, such as jacobian-l1",
}
FIT = {
    "device": "auto, cpu, cuda or mps",
    "path": "fast (the whole step compiled for a GPU, after half a minute), plain, or auto: fast where it pays",
    "pack_size": "how many models train at once, if not all of them",
    "checkpoint_seconds": "time between two checkpoints",
    "tensorboard": "write the terms for TensorBoard, too",
}
# Fields that Python takes in several forms: how their text is read, and whether there may be several.
READ = {
    "seeds": (flags.seeds, False),
    "data_seeds": (flags.data_seeds, False),
    "lr": (flags.numbers, False),
    "watch": (str, True),
    "clip": (flags.decimal, False),
}
SUMMARY = """Numbers may have a value for each seed, as in: --{number} 1,2,4 --seeds 0-2

Quote what has brackets, as in: --prior "sparse(gamma=0.8)"

Name a dataset and a network to see their options here, too: --dataset three-dots --network conv --help"""


def train(args: list[str]) -> None:
    if any(arg == "--resume" or arg.startswith("--resume=") for arg in args):
        _resume(args)
        return
    method, rest = _split(args)
    if method is None:
        if not {"-h", "--help"} & set(args):
            names = ", ".join(map(flags.hyphens, methods.names()))
            raise UsageError(f"which method? untwine train METHOD --dataset NAME, where METHOD is one of {names}")
        print(_overview())
        return
    flags.find(methods, method)
    given = _parse(method, rest)
    out = Path(given.out or _out(method, given.dataset_name))
    run = _run(method, given)
    from untwine.train.loop import Refused

    try:
        fit(run, out, flags.values(given.machine), given.json)
    except Refused as error:  # the network may not suit the data, say: the flags are to blame, not a file
        raise UsageError(str(error)) from None


def _split(args: list[str]) -> tuple[str | None, list[str]]:
    """The method, which comes first or is the first word that is one, and all the rest."""
    known = {name for method in methods.names() for name in (method, flags.hyphens(method))}
    places = [0] if args and not args[0].startswith("-") else []
    places += [i for i, arg in enumerate(args) if arg in known]
    return (args[places[0]], args[: places[0]] + args[places[0] + 1 :]) if places else (None, args)


# --- flags ----------------------------------------------------------------------------------------------


def _parse(method: str, args: list[str]) -> Any:
    """All flags of a method with the dataset, network and optimiser that the arguments name."""
    from untwine.data import datasets
    from untwine.model.networks import networks
    from untwine.train.optimisers import optimisers
    from untwine.train.run import Run
    from untwine.train.run import defaults as published

    defaults = {name: p.default for name, p in inspect.signature(Run).parameters.items()} | published(method)
    fields: list[Any] = []
    own = flags.arguments(methods[method], prefix=False, per_member=True, shown=own_parts(method))
    nested: list[Any] = [("method", own)]
    for kind, registry in (("dataset", datasets), ("network", networks), ("optimiser", optimisers)):
        name = _value(args, f"--{kind}") or defaults[kind]
        choices = ", ".join(map(flags.hyphens, registry.names()))
        auto = "auto (the method's published one where it takes such data, else one that suits them)"
        help = f"{auto}, {choices}" if defaults[kind] == "auto" else choices
        fields.append(flags.flag(f"{kind}_name", str, default=defaults[kind], help=help, called=kind))
        if isinstance(name, str) and name != "auto":
            nested.append((kind, flags.arguments(flags.find(registry, name))))
    out = _out(method, _value(args, "--dataset") or "DATASET")
    fields.append(flags.flag("out", str, default=None, help="the folder of the run", shown=out))
    fields.append(flags.switch("json", flags.JSON))
    nested += [("run", _run_flags(defaults)), ("machine", _machine_flags())]
    parameters = inspect.signature(methods[method]).parameters
    number = next((name for name, p in parameters.items() if isinstance(p.default, float)), "lr")
    about = f"{flags.description(methods[method])}\n\n{SUMMARY.format(number=flags.hyphens(number))}"
    return flags.parse(f"untwine train {flags.hyphens(method)}", about, [*fields, *nested], args)


def _out(method: str, dataset: str) -> str:
    return f"runs/{flags.hyphens(method)}-{flags.hyphens(dataset)}"


def _value(args: list[str], flag: str) -> str | None:
    """The value of a flag, before anything is parsed."""
    found = None
    for i, arg in enumerate(args):
        if arg == flag and i + 1 < len(args) and not args[i + 1].startswith("-"):
            found = args[i + 1]
        elif arg.startswith(f"{flag}="):
            found = arg.partition("=")[2]
    return found


def _run_flags(defaults: Mapping[str, Any]) -> type:
    from untwine.train.run import Run

    hints, fields = typing.get_type_hints(Run), []
    for field in dataclasses.fields(Run):
        if field.name in RUN:
            default = defaults[field.name]
            read, several = READ.get(field.name) or flags.reader(hints[field.name], default) or (str, False)
            fields.append(flags.flag(field.name, read, several, default, RUN[field.name], prefix=False))
    return dataclasses.make_dataclass("run", fields)


def _machine_flags() -> type:
    from untwine.train import loop

    parameters = inspect.signature(loop.fit, eval_str=True).parameters
    fields = []
    for name, help in FIT.items():
        default = parameters[name].default
        if default is False:
            fields.append(flags.switch(name, help))
            continue
        read, several = flags.reader(parameters[name].annotation, default) or (str, False)
        fields.append(flags.flag(name, read, several, default, help, prefix=False))
    return dataclasses.make_dataclass("fit", fields)


def _overview() -> str:
    """Help without a method. It needs no torch, and so has no defaults."""
    from untwine.data import datasets

    def lines(named: Mapping[str, str]) -> list[str]:
        return [f"  {name:22} {what}" for name, what in named.items()]

    def summaries(registry: Any) -> list[str]:
        return lines({flags.hyphens(name): flags.summary(registry[name]) for name in registry.names()})

    return "\n".join(
        [
            "usage: untwine train METHOD --dataset NAME [OPTIONS]",
            "       untwine train --resume DIR [OPTIONS]",
            "",
            "Train a method on a dataset, or go on with a run that was stopped.",
            "Every option with its default: untwine train METHOD --dataset NAME --network NAME --help",
            "",
            *("methods:", *summaries(methods), ""),
            *("datasets:", *summaries(datasets), ""),
            "options:",
            *lines({f"--{flags.hyphens(name)}": what for name, what in (RUN | FIT).items()}),
            *lines({"--out": "the folder of the run", "--json": flags.JSON}),
            "",
            "example: untwine train jl1-vae --dataset three-dots --gamma 0.1 --seeds 0-9",
        ]
    )


# --- the run --------------------------------------------------------------------------------------------


def _run(method: str, given: Any) -> Any:
    """The run that the flags describe. Whatever of it cannot be made is the command line's fault."""
    from untwine.train.devices import pick_device
    from untwine.train.paths import check_path
    from untwine.train.run import Run

    named = {}
    for kind in ("dataset", "network", "optimiser"):
        name, chosen = getattr(given, f"{kind}_name"), getattr(given, kind, None)
        named[kind] = name if chosen is None else {"name": name, **flags.values(chosen)}
    with asked():
        run = Run(method={"name": method, **flags.values(given.method)}, **named, **flags.values(given.run))
        machine = flags.values(given.machine)
        check_path(machine["path"], pick_device(machine["device"]), "vmap")
    return run


def _resume(args: list[str]) -> None:
    where = flags.flag("resume", str, help="the folder of a run that was stopped")
    about = "Go on with a run that was stopped: the result is that of a run without interruption."
    fields = [where, flags.switch("json", flags.JSON), ("machine", _machine_flags())]
    given = flags.parse("untwine train", about, fields, args)
    from untwine.train.folder import stored

    path = Path(given.resume)
    fit(stored(path), path, flags.values(given.machine), given.json)
