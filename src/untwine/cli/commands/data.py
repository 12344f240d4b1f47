"""`untwine data`: list, fetch, verify and draw datasets."""

from __future__ import annotations

from typing import Any

from untwine.cli import flags, helptext, named, output
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.errors import UntwineError, unknown

ABOUT = {
    "list": "list the datasets: their content, licences, and which are on this machine",
    "get": "download the files of a dataset, verify them, and prepare it for use",
    "check": "verify the files on this machine, byte by byte",
    "show": "draw what each factor of a dataset changes",
}
FOLDER = """Files are stored in the folder that UNTWINE_DATA names, by default your user cache folder.

UNTWINE_OFFLINE=1 forbids downloads; UNTWINE_MIRROR=https://... is tried before the public addresses."""


def data(args: list[str]) -> None:
    """Run one of the commands in `ABOUT`."""
    if args[:1] in (["--help"], ["-h"]):
        commands = helptext.definitions(ABOUT, 6)
        example = "example:\n  untwine data show xy-squares"
        usage = "usage: untwine data COMMAND ..."
        output.say("\n\n".join([usage, f"commands:\n{commands}", helptext.wrapped(FOLDER), example]))
        return
    if not args:
        raise UsageError(f"data needs a command: {', '.join(f'untwine data {name}' for name in ABOUT)}")
    command, *rest = args
    if command not in ABOUT:
        raise UsageError(str(unknown("command of 'data':", command, ABOUT)))
    {"list": _list, "get": _get, "check": _check, "show": _show}[command](rest)


# --- list -------------------------------------------------------------------------------------------------


def _list(args: list[str]) -> None:
    from untwine.data.catalogue import describe
    from untwine.data.files.places import folder
    from untwine.datasets import get, names
    from untwine.progress import amount

    about = _with_examples("list", "untwine data list", "untwine data list --json")
    json = flags.parse("untwine data list", about, [flags.switch("json", flags.JSON)], args).json
    descriptions: list[dict[str, Any]] = [describe(name) | {"summary": flags.summary(get(name))} for name in names()]
    if json:
        output.as_json({"folder": str(folder()), "datasets": descriptions})
        return
    rows = []
    for about in descriptions:
        images = f"{about['examples']:,} of {' x '.join(map(str, about['shape']))}" if about.get("shape") else ""
        factors = _factors(about["factors"]) if about.get("factors") else "no factors" if images else ""
        size = amount(about["bytes"]) if "bytes" in about else ""
        size += f"\n({amount(about['download'])} to download)" if about.get("download") else ""
        licence = about.get("licence") or ""
        rows.append(
            [flags.hyphens(about["name"]), about["summary"], f"{images}\n{factors}", size, licence, _state(about)]
        )
    output.table(
        ["dataset", "description", "examples and factors", "as an array", "licence", "state"], rows, lines=True
    )
    output.say("drawn: needs no files. present: its files are here. fetchable: `untwine data get NAME` downloads them.")
    output.say("as an array: all examples at once, a byte for each pixel; only those of a batch are read.")
    output.say(f"The data folder is {folder()}. Options of a dataset: untwine data show NAME --help")


def _state(about: dict[str, Any]) -> str:
    """The state of a dataset, with the option that it needs or that avoids a download."""
    if about["state"] == "yours":
        return "needs " + ", ".join("--dataset." + flags.hyphens(name) for name in about["needs"])
    if about["state"] != "drawn" and about["drawable"]:
        return f"{about['state']}, or drawn with --dataset.rendered true"
    return about["state"]


def _factors(sizes: dict[str, int]) -> str:
    """Names and sizes of factors; a size that all of them share comes once.

    >>> _factors({"x": 64, "y": 64}), _factors({"shape": 3, "x": 32})
    ('x, y: 64 values each', 'shape 3, x 32')
    """
    if len(sizes) > 1 and len(set(sizes.values())) == 1:
        return f"{', '.join(sizes)}: {next(iter(sizes.values()))} values each"
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


# --- get --------------------------------------------------------------------------------------------------


def _get(args: list[str]) -> None:
    from untwine.data.files import places, store
    from untwine.data.specs import public_of

    examples = "untwine data get dsprites\nuntwine data get mpi3d --dataset.variant toy"
    build, options = _parse(args, "get", examples, [])
    public = public_of(build)
    with as_usage_errors():
        files = () if public is None else public.files(**flags.values(options.dataset))
        if public is not None:
            for file in _optional(build, files, options):
                store.fetch(file, public.hint)
        dataset = build(**flags.values(options.dataset))
        dataset.batch([0])  # some datasets are drawn for their first batch
    paths = [str(path) for path in map(places.find, files) if path is not None]
    if options.json:
        output.as_json({"dataset": dataset.spec, "examples": len(dataset), "files": paths})
        return
    for path in paths:
        output.say(path)
    output.say(f"{dataset!r} is ready: {len(dataset):,} examples" + ("" if files else "; no download was needed"))


def _optional(build: Any, files: tuple[Any, ...], options: Any) -> list[Any]:
    """The files that the dataset does not fetch by itself if they are missing, as it can use something else."""
    import warnings

    from untwine.data.specs import full_spec

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settled = full_spec({"name": build.__name__, **flags.values(options.dataset)})
    del settled["name"]
    return [file for file in files if file not in build.public.files(**settled)]


def _parse(args: list[str], command: str, examples: str, fields: list[Any]) -> tuple[Any, Any]:
    """The dataset function that the first argument names, and the options after it."""

    def overview(usage: str) -> str:
        more = f"Options of a dataset: untwine data {command} DATASET --help"
        about = _with_examples(command, *examples.splitlines())
        return helptext.wrapped(f"{usage}\n\n{about}\n\nDATASET is one of {named.listed()}.\n\n{more}")

    return named.of_dataset(f"data {command}", args, _about(command), examples, lambda name: fields, overview)


def _about(command: str) -> str:
    return f"{ABOUT[command][0].upper()}{ABOUT[command][1:]}.\n\n{FOLDER}"


def _with_examples(command: str, *examples: str) -> str:
    return "\n".join([_about(command), "", "Examples:", *(f"- {example}" for example in examples)])


# --- check ------------------------------------------------------------------------------------------------


def _check(args: list[str]) -> None:
    from untwine.data import datasets
    from untwine.data.catalogue import public_files
    from untwine.data.files.places import folder
    from untwine.data.files.verify import check_derived_files, check_file

    names = []
    while args and not args[0].startswith("-"):
        names.append(flags.find(datasets, args[0]).__name__)
        args = args[1:]
    usage = "untwine data check [NAME ...]"
    about = _with_examples("check", "untwine data check", "untwine data check mnist")
    json = flags.parse(usage, about, [flags.switch("json", flags.JSON)], args).json
    files = dict.fromkeys(file for name in names or datasets.names() for file in public_files(name))
    folders = {file.path.partition("/")[0] for file in files} if names else {""}
    checks = [check for check in map(check_file, files) if check.state != "missing"]
    checks += [check for prefix in sorted(folders) for check in check_derived_files(prefix)]
    if json:
        output.as_json({"folder": str(folder()), "files": [vars(check) for check in checks]})
    elif checks:
        rows = [[check.name, check.state, str(check.path or "")] for check in checks]
        output.table(["file", "state", "path"], rows)
    else:
        output.say(f"There is nothing to check in {folder()}" + (f" of {', '.join(names)}" if names else ""))
    wrong = [check for check in checks if not check.ok]
    if wrong:
        lines = [f"{check.name} is {check.state}: {check.path} {check.why}" for check in wrong]
        raise UntwineError("\n".join([*lines, "Delete wrong files: they are fetched or made again when needed."]))


# --- show -------------------------------------------------------------------------------------------------


def _show(args: list[str]) -> None:
    from untwine.report.dataset_picture import check_picture, draw_dataset

    shown = {"out": "shown/NAME.png"}
    fields = [("show", flags.arguments(draw_dataset, prefix=False, shown=shown, leave_out=("dataset",)))]
    examples = "untwine data show xy-squares\nuntwine data show dsprites --dataset.rendered true --steps 10"
    build, options = _parse(args, "show", examples, fields)
    dataset, results = named.carried_out(check_picture, draw_dataset, build, options, flags.values(options.show))
    space = dataset.factors
    if options.json:
        output.as_json({"dataset": dataset.spec, "factors": space and space.to_json(), **results})
        return
    if space is not None:
        rows = [[name, space.kinds[i], str(space.sizes[i]), _values(space, i)] for i, name in enumerate(space.names)]
        output.table(["factor", "kind", "values", "from first to last"], rows)
    output.say(f"Saved in {results['out']}")


def _values(space: Any, factor: int) -> str:
    """The first values of a factor and its last."""
    from untwine.data.factors import text_of

    size = space.sizes[factor]
    chosen = range(size) if size <= 5 else (0, 1, 2, size - 1)
    texts = [text if len(text) <= 30 else f"{text[:29]}…" for text in map(text_of, space.named(factor, chosen))]
    return ", ".join(texts if size <= 5 else [*texts[:3], "...", texts[3]])
