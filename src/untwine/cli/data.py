"""`untwine data`: what datasets there are; fetch, verify and look at them."""

from __future__ import annotations

from typing import Any

from untwine.cli import UsageError, asked, flags, named, output
from untwine.errors import UntwineError, unknown

ABOUT = {
    "list": "list the datasets: what they hold, their licences, and which are here",
    "get": "fetch a dataset's files, verify them, and make it ready",
    "check": "verify the files that are here, byte by byte",
    "show": "draw a picture of what each factor of a dataset changes",
}
FOLDER = """Files lie in the folder that UNTWINE_DATA names, else in your cache folder.

UNTWINE_OFFLINE=1 keeps off the network; UNTWINE_MIRROR=https://... is asked before the public addresses."""


def data(args: list[str]) -> None:
    """One of the commands above."""
    if args[:1] in (["--help"], ["-h"]):
        lines = [f"  {name:6} {what}" for name, what in ABOUT.items()]
        print("\n".join(["usage: untwine data COMMAND ...", "", "commands:", *lines, "", FOLDER]))
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
    from untwine.data.files import store
    from untwine.datasets import get, names
    from untwine.progress import amount

    json = flags.parse("untwine data list", _about("list"), [flags.switch("json", flags.JSON)], args).json
    found: list[dict[str, Any]] = [describe(name) | {"summary": flags.summary(get(name))} for name in names()]
    if json:
        output.as_json({"folder": str(store.folder()), "datasets": found})
        return
    rows = []
    for one in found:
        images = f"{one['examples']:,} of {' x '.join(map(str, one['shape']))}" if one.get("shape") else ""
        held = [images, _factors(one["factors"]) if one.get("factors") else "no factors" if images else ""]
        size = amount(one["bytes"]) if "bytes" in one else ""
        size += f"\n({amount(one['download'])} to fetch)" if one.get("download") else ""
        name, licence = flags.hyphens(one["name"]), one.get("licence") or ""
        rows.append([name, one["summary"], "\n".join(held), size, licence, _state(one)])
    output.table(["dataset", "what it is", "images and factors", "size", "licence", "here"], rows, lines=True)
    print(f"The data folder is {store.folder()}. All about one: untwine data show NAME --help")


def _state(one: dict[str, Any]) -> str:
    if one["state"] == "yours":
        return "give " + ", ".join("--dataset." + flags.hyphens(name) for name in one["needs"])
    if one["state"] != "drawn" and one["drawable"]:
        return f"{one['state']}, or drawn: --dataset.rendered true"
    return one["state"]


def _factors(sizes: dict[str, int]) -> str:
    """Names and sizes; equal sizes are said once.

    >>> _factors({"x": 64, "y": 64}), _factors({"shape": 3, "x": 32})
    ('x, y: 64 values each', 'shape 3, x 32')
    """
    if len(sizes) > 1 and len(set(sizes.values())) == 1:
        return f"{', '.join(sizes)}: {next(iter(sizes.values()))} values each"
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


# --- get --------------------------------------------------------------------------------------------------


def _get(args: list[str]) -> None:
    from untwine.data.files import store
    from untwine.data.specs import public_of

    made, given = _one(args, "get", "untwine data get dsprites\nuntwine data get mpi3d --dataset.variant toy", [])
    public = public_of(made)
    with asked():
        files = () if public is None else public.files(**flags.values(given.dataset))
        if public is not None:
            for file in _done_without(made, files, given):
                store.fetch(file, public.hint)
        dataset = made(**flags.values(given.dataset))
        dataset.batch([0])  # some are drawn when they are first looked at
    paths = [str(path) for path in map(store.find, files) if path is not None]
    if given.json:
        output.as_json({"dataset": dataset.spec, "examples": len(dataset), "files": paths})
        return
    for path in paths:
        print(path)
    print(f"{dataset!r} is ready: {len(dataset):,} examples" + ("" if files else "; nothing had to be fetched"))


def _done_without(made: Any, files: tuple[Any, ...], given: Any) -> list[Any]:
    """Those of the files that the dataset would do without, if they are not here, rather than fetch them."""
    import warnings

    from untwine.data.specs import complete

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settled = complete({"name": made.__name__, **flags.values(given.dataset)})
    del settled["name"]
    return [file for file in files if file not in made.public.files(**settled)]


def _one(args: list[str], command: str, examples: str, fields: list[Any]) -> tuple[Any, Any]:
    """The dataset that comes first, and the flags after it."""

    def overview(usage: str) -> str:
        more = f"Its own options: untwine data {command} DATASET --help"
        return f"{usage}\n\n{_about(command)}\n\nDATASET is one of {named.listed()}.\n{more}"

    return named.of_dataset(f"data {command}", args, _about(command), examples, lambda name: fields, overview)


def _about(command: str) -> str:
    return f"{ABOUT[command][0].upper()}{ABOUT[command][1:]}.\n\n{FOLDER}"


# --- check ------------------------------------------------------------------------------------------------


def _check(args: list[str]) -> None:
    from untwine.data import datasets
    from untwine.data.catalogue import public_files
    from untwine.data.files import store

    names = []
    while args and not args[0].startswith("-"):
        names.append(flags.find(datasets, args[0]).__name__)
        args = args[1:]
    usage = "untwine data check [NAME ...]"
    json = flags.parse(usage, _about("check"), [flags.switch("json", flags.JSON)], args).json
    files = dict.fromkeys(file for name in names or datasets.names() for file in public_files(name))
    folders = {file.path.partition("/")[0] for file in files} if names else {""}
    made = [one for folder in sorted(folders) for one in store.check_derived(folder)]
    found = [one for one in map(store.check, files) if one.state != "missing"] + made
    if json:
        output.as_json({"folder": str(store.folder()), "files": [vars(one) for one in found]})
    elif found:
        rows = [[one.name, one.state, str(one.path or "")] for one in found]
        output.table(["file", "state", "where"], rows)
    else:
        print(f"There is nothing to check in {store.folder()}" + (f" of {', '.join(names)}" if names else ""))
    wrong = [one for one in found if not one.ok]
    if wrong:
        lines = [f"{one.name} is {one.state}: {one.path} {one.why}" for one in wrong]
        raise UntwineError("\n".join([*lines, "Delete what is wrong, and it is fetched or made again."]))


# --- show -------------------------------------------------------------------------------------------------


def _show(args: list[str]) -> None:
    from untwine.report.dataset_picture import check_picture, draw_dataset

    shown = {"out": "shown/NAME.png"}
    fields = [("show", flags.arguments(draw_dataset, prefix=False, shown=shown, leave_out=("dataset",)))]
    examples = "untwine data show xy-squares\nuntwine data show dsprites --dataset.rendered true --steps 10"
    made, given = _one(args, "show", examples, fields)
    dataset, found = named.carried_out(check_picture, draw_dataset, made, given, flags.values(given.show))
    if given.json:
        output.as_json({"dataset": dataset.spec, **found})
        return
    print(f"Saved in {found['out']}")
