"""`untwine train`: train a run that flags describe, or resume one that was stopped."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine.cli import flags, helptext, imports, lengths, output, readers
from untwine.cli.fitting import fit
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.cli.words import value_of
from untwine.locations import expanded, run_folder
from untwine.methods import methods
from untwine.methods.registry import PARTS, own_parts, part_help
from untwine.progress import waiting

# Arguments of a run that are flags. Their help and types are those of `Run`, their defaults those of the method.
RUN = ("latents", "seeds", "data_seeds", "steps", "batch_size", "lr", "sampling", "clip", "precision", "standardise")
RUN += ("log_every", "watch", "holdout")
# Help for arguments that Python takes in more forms than the command line.
HELP = {
    "seeds": "One model for each seed.",
    "lr": "The learning rate: a number, or one for each seed.",
    "watch": "Further terms for the log, such as jacobian-l1.",
}
# How the text of such an argument is read, and whether it may have several values.
READ = {"seeds": (readers.seeds, False), "data_seeds": (readers.data_seeds, False), "watch": (str, True)}
# Arguments of `fit` that are no flags.
NOT_FLAGS = ("run", "out", "progress", "batching", "resident")
# The help without a method shows these, which it does not look up, since that would import torch.
OVERVIEW = {
    "--dataset NAME": "The dataset (required).",
    "--network NAME": "The network; by default one that suits the method and the data.",
    "--optimiser NAME": "The optimiser; by default the method's.",
    "--latents INT": "The number of latents.",
    "--seeds 0-9": "One model for each seed.",
    "--steps INT": f"The number of training steps: as published, but on a CPU {lengths.CPU_STEPS:,}.",
    "--lr NUMBER": "The learning rate.",
    "--device NAME": "auto, cpu, cuda or mps.",
    "--out TEXT": "The folder of the run.",
    "--dry-run": "Say how long the run would take by a few measured steps, and stop.",
    "--resume DIR": "Resume the run in this folder.",
    "--import MODULE_OR_FILE": imports.HELP,
    "--json": flags.JSON,
}
# Their names in the same help, likewise.
NETWORKS = ("conv", "locatello64", "mathieu_dsprites", "mathieu_fashion", "mathieu_pinwheel", "michlo64", "mlp")
NETWORKS += ("rhodes16", "rhodes64", "rolinek_dsprites", "rolinek_linear", "rolinek_mnist", "rolinek_nonlinear")
OPTIMISERS = ("adagrad", "adam", "amsgrad")
SUMMARY = """Numbers may have a value for each seed, as in: --{number} 1,2,4 --seeds 0-2

Quote a text with brackets, as in: --prior "sparse(gamma=0.8)"

Name a dataset and a network to see their options here, too: --dataset three-dots --network conv --help

Examples:
- untwine train {method} --dataset three-dots --dataset.size 32 --seeds 0-3
- untwine train {method} --dataset three-dots --dry-run
- untwine train {method} --dataset images --dataset.source pictures/"""


def train(args: list[str]) -> None:
    """Train the run that the flags describe, or resume the run of `--resume`."""
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
    _load()
    parsed = _parse(method, rest)
    out = expanded(parsed.out or _out(method, parsed.dataset_name))
    said = _set_length(method, parsed, rest, out)
    run = _run(method, parsed)
    if said is not None:
        output.note(said)
    if parsed.dry_run:
        _forecast(run, parsed)
        return
    from untwine.train.loop import Refused

    try:
        fit(run, out, flags.values(parsed.machine), parsed.json)
    except Refused as error:  # such as a network that does not suit the data: the flags are wrong
        raise UsageError(str(error)) from None


def _load() -> None:
    """Import what trains, which takes a second or two."""
    with waiting("loading PyTorch"):
        importlib.import_module("untwine.train.loop")


def _split(args: list[str]) -> tuple[str | None, list[str]]:
    """The method, which is the first word or the first name of a method, and all other words."""
    known = {name for method in methods.names() for name in (method, flags.hyphens(method))}
    places = [0] if args and not args[0].startswith("-") else []
    places += [i for i, arg in enumerate(args) if arg in known]
    return (args[places[0]], args[: places[0]] + args[places[0] + 1 :]) if places else (None, args)


# --- flags ----------------------------------------------------------------------------------------------


def _parse(method: str, args: list[str]) -> Any:
    """The values of all flags of a method, and of the dataset, network and optimiser that the arguments name."""
    from untwine.data import datasets
    from untwine.model.networks import networks
    from untwine.train.run import Run
    from untwine.train.run import defaults as published
    from untwine.train.steps.optimisers import optimisers

    defaults = {name: parameter.default for name, parameter in inspect.signature(Run).parameters.items()}
    defaults |= {"dataset": dataclasses.MISSING, **published(method)}
    fields: list[Any] = []
    parts = {kind: part_help(kind) for kind in (*PARTS, "divergence")}
    longer, on_cpu = (lengths.default_length(method, device) for device in ("cuda", "cpu"))
    shown = {name: f"{value}; on a CPU {on_cpu[name]}" for name, value in longer.items() if value != on_cpu[name]}
    of_method = flags.arguments(
        methods[method], prefix=False, per_member=True, shown={**own_parts(method), **shown}, choices=parts
    )
    groups: list[Any] = [("method", of_method)]
    for kind, registry in (("dataset", datasets), ("network", networks), ("optimiser", optimisers)):
        name = value_of(args, f"--{kind}") or defaults[kind]
        choices = ", ".join(map(flags.hyphens, registry.names()))
        auto = "auto (the method's published network where it takes such data, else one that suits the data)"
        help = f"{auto}, {choices}" if defaults[kind] == "auto" else choices
        fields.append(flags.flag(f"{kind}_name", str, default=defaults[kind], help=help, called=kind))
        if isinstance(name, str) and name != "auto":
            groups.append((kind, flags.arguments(flags.find(registry, name))))
    out = _out(method, value_of(args, "--dataset") or "DATASET")
    fields.append(flags.flag("out", readers.place, default=None, help="The folder of the run.", shown=out))
    fields.append(flags.switch("dry_run", "Say how long the run would take by a few measured steps, and stop."))
    fields.append(flags.switch("json", flags.JSON))
    groups += [("run", _run_flags(defaults, shown)), ("machine", _machine_flags())]
    parameters = inspect.signature(methods[method]).parameters
    number = next((name for name, p in parameters.items() if isinstance(p.default, float)), "lr")
    summary = SUMMARY.format(number=flags.hyphens(number), method=flags.hyphens(method))
    about = f"{flags.description(methods[method])}\n\n{summary}"
    explain = functools.partial(_why_not, method, args)
    return flags.parse(f"untwine train {flags.hyphens(method)}", about, [*fields, *groups], args, explain)


def _why_not(method: str, args: list[str], name: str) -> str | None:
    """Why a method does not have an option that others have; None where nobody has it.

    Args:
        method: The name of the method.
        args: The command line.
        name: The option.
    """
    group, dot, _ = name.removeprefix("--").partition(".")
    if dot and group in ("network", "dataset") and value_of(args, f"--{group}") in (None, "auto"):
        return f"{name} is an option of a {group}: name it, with --{group} NAME"
    key = name.removeprefix("--").replace("-", "_")
    others = [flags.hyphens(other) for other in methods.names() if key in inspect.signature(methods[other]).parameters]
    return f"{flags.hyphens(method)} has no {name}; these methods have: {', '.join(others)}" if others else None


def _out(method: str, dataset: str) -> str:
    """The default folder of a run."""
    return f"runs/{flags.hyphens(method)}-{flags.hyphens(dataset)}"


def _run_flags(defaults: Mapping[str, Any], shown: Mapping[str, str]) -> type:
    """The flags of a run's settings.

    Args:
        defaults: The defaults of the method.
        shown: Texts in place of defaults in the help.
    """
    from untwine.arguments import hints
    from untwine.train.run import Run

    annotations, fields = hints(Run), []
    for name in RUN:
        read, several = READ.get(name) or readers.reader(annotations[name], defaults[name]) or (str, False)
        help = HELP.get(name) or flags.argument_help(Run, name)
        fields.append(flags.flag(name, read, several, defaults[name], help, prefix=False, shown=shown.get(name)))
    return dataclasses.make_dataclass("run", fields)


def _machine_flags() -> type:
    """The flags of `fit`, which do not change what is trained."""
    from untwine.train import loop

    return flags.arguments(loop.fit, prefix=False, leave_out=NOT_FLAGS, switches=True)


def _overview() -> str:
    """The help without a method."""
    from untwine.data import datasets

    def summaries(registry: Any) -> str:
        return helptext.definitions({flags.hyphens(name): flags.summary(registry[name]) for name in registry.names()})

    return "\n".join(
        [
            "usage: untwine train METHOD --dataset NAME [OPTIONS]",
            "       untwine train --resume DIR [OPTIONS]",
            "",
            "Train a method on a dataset, or resume a run that was stopped.",
            "Every option with its default, those of a dataset and a network too:",
            "  untwine train METHOD --dataset NAME --network NAME --help",
            "",
            *("methods (all about one: untwine methods NAME):", summaries(methods), ""),
            *("datasets (untwine datasets NAME):", summaries(datasets), ""),
            *("networks (untwine networks NAME):", helptext.listed(map(flags.hyphens, _networks())), ""),
            *("optimisers:", helptext.listed(OPTIMISERS), ""),
            *("some options:", helptext.definitions(OVERVIEW, 23), ""),
            "examples:",
            "  untwine train jl1-vae --dataset three-dots --gamma 0.1 --seeds 0-9",
            "  untwine train beta-vae --dataset images --dataset.source pictures/",
        ]
    )


def _networks() -> Sequence[str]:
    """The names of the networks, also of those that a module of the user's has defined, and so has loaded torch for."""
    loaded = sys.modules.get("untwine.model.networks")
    return NETWORKS if loaded is None else loaded.networks.names()


# --- the run --------------------------------------------------------------------------------------------


def _set_length(method: str, parsed: Any, args: list[str], out: Path) -> str | None:
    """Set the steps where the flags do not; a sentence if that makes the run shorter than published.

    Args:
        method: The name of the method.
        parsed: The values of all flags; steps, and those over which weights rise, are replaced.
        args: The words that were given.
        out: The folder of the run; one that was begun keeps its length.
    """
    from untwine.train.devices import pick_device

    if value_of(args, "--steps") is not None:
        return None
    with as_usage_errors():
        device = pick_device(parsed.machine.device).type
    begun = lengths.begun_length(out)
    length = begun or lengths.default_length(method, device)
    if value_of(args, "--anneal") is not None:
        length.pop("anneal", None)
    parsed.run.steps = length["steps"]
    if "anneal" in length and hasattr(parsed.method, "anneal"):
        parsed.method.anneal = length["anneal"]
    return None if begun else lengths.shorter_than_published(method, length)


def _forecast(run: Any, parsed: Any) -> None:
    """Print how long a run would take."""
    from untwine.bench.pace import rough_pace
    from untwine.progress import duration
    from untwine.train.devices import pick_device

    seconds = rough_pace(run, pick_device(parsed.machine.device)) * run.steps * len(run.seeds)
    if parsed.json:
        output.as_json({"models": len(run.seeds), "steps": run.steps, "seconds": seconds})
    else:
        count = f"{len(run.seeds)} model{'s' * (len(run.seeds) > 1)}"
        print(f"{run.steps:,} steps of {count} would take about {duration(seconds)}; nothing was trained.")


def _run(method: str, parsed: Any) -> Any:
    """The run that the flags describe; an error in it is an error of the command line."""
    from untwine.train.devices import pick_device
    from untwine.train.paths import check_path
    from untwine.train.run import Run

    specs = {}
    for kind in ("dataset", "network", "optimiser"):
        name, group = getattr(parsed, f"{kind}_name"), getattr(parsed, kind, None)
        specs[kind] = name if group is None else {"name": name, **flags.values(group)}
    with as_usage_errors():
        run = Run(method={"name": method, **flags.values(parsed.method)}, **specs, **flags.values(parsed.run))
        machine = flags.values(parsed.machine)
        check_path(machine["path"], pick_device(machine["device"]), "vmap")
    return run


def _kept(name: str) -> str:
    """Why an option cannot be given with `--resume`."""
    return (
        f"{name} cannot go with --resume: a resumed run keeps its settings. Further seeds: the command that began it, "
        "with --seeds; other settings are another run, in another folder (--out)"
    )


def _resume(args: list[str]) -> None:
    """Resume the run of a folder."""
    if not args[0].startswith("-"):
        raise UsageError(f"{args[0]!r} cannot go with --resume: the run in that folder has its method")
    if sum(arg == "--resume" or arg.startswith("--resume=") for arg in args) > 1:
        raise UsageError("--resume is given more than once: resume one run, then the other")
    _load()
    where = flags.flag("resume", str, help="The folder of a run that was stopped.")
    about = (
        "Resume a run that was stopped. The result is the same as without the interruption.\n\n"
        "Example:\n- untwine train --resume runs/first"
    )
    fields = [where, flags.switch("json", flags.JSON), ("machine", _machine_flags())]
    parsed = flags.parse("untwine train", about, fields, args, _kept)
    from untwine.train.folders.record import stored

    path = run_folder(parsed.resume)
    fit(stored(path), path, flags.values(parsed.machine), parsed.json)
