"""The model card of a run: what was trained, on what, how it scores, and how to load it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from untwine._version import __version__
from untwine.data.specs import short_name_of
from untwine.methods import methods
from untwine.scores import names
from untwine.scores.scores import Scores
from untwine.train.folders.record import Record

LICENCE = """Not chosen yet: whoever publishes these weights chooses their licence, and writes it into the header of
this file as `license: ...`. The licence of the data may matter."""


def model_card(record: Record, scores: Scores, name: str) -> str:
    """The card of a run in Markdown, with a YAML header as the Hugging Face hub reads it.

    Args:
        record: What is known of the run.
        scores: Those of its folder.
        name: The title of the card.
    """
    spec, done = record.content["run"], [e for e in record.entries if e["state"] == "done"]
    header = {
        "library_name": "untwine",
        "tags": ["untwine", "disentanglement", "variational-autoencoder", "representation-learning"],
    }
    blocks = [
        f"# {_markdown(name)}",
        _summary(record, done),
        "## What was trained",
        _table(("setting", "value"), [(key, _code(value)) for key, value in _settings(record, done).items()]),
        *(("The method minimises", f"> {_equation(spec)}") if _equation(spec) else ()),
        "## Scores",
        _scores(scores),
        "## How to load it",
        _loading(name, record),
        "## Licence",
        LICENCE,
    ]
    return f"---\n{yaml(header)}---\n\n" + "\n\n".join(blocks) + "\n"


def yaml(values: Mapping[str, Any]) -> str:
    """A flat mapping as YAML: texts in JSON's quotes, which YAML reads as they are, whatever they hold.

    >>> print(yaml({"title": 'a: "b" # c', "tags": ["- x"]}), end="")
    title: "a: \\"b\\" # c"
    tags: ["- x"]
    """
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=True)}\n" for key, value in values.items())


# --- what was trained -------------------------------------------------------------------------------------


def _summary(record: Record, done: Sequence[Mapping[str, Any]]) -> str:
    spec = record.content["run"]
    count = f"{len(done)} model{'s' * (len(done) != 1)}"
    method, data = _markdown(_method(spec)), _markdown(_dataset(spec))
    size = f"{record.content['data_size']:,} examples of {' x '.join(map(str, record.content['shape']))}"
    return f"{count} of {method}, trained on {data} ({size}) with Untwine {__version__}."


def _settings(record: Record, done: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The settings of a run by name; those that differ by model are listed with all their values."""
    spec = record.run().to_json()
    method = {f"method, {key}": value for key, value in spec["method"].items() if key != "name" and value is not None}
    network = {key: value for key, value in spec["network"].items() if key != "name"}
    plain = ("latents", "steps", "batch_size", "lr", "holdout", "sampling", "precision", "standardise")
    plain = {key: spec[key] for key in plain if spec.get(key) is not None}
    settings = {"method": _method(spec), **method, "dataset": _dataset(spec), "network": spec["network"]["name"]}
    settings |= {f"network, {key}": value for key, value in network.items()} | plain
    settings |= {"optimiser": spec["optimiser"]["name"], "seeds": [entry["seed"] for entry in done]}
    return {key.replace("_", " "): _text(value) for key, value in settings.items()}


def _method(spec: Mapping[str, Any]) -> str:
    return spec["method"].get("name", "an objective of its own")


def _dataset(spec: Mapping[str, Any]) -> str:
    """The dataset with its non-default arguments; of a path it shows the last part alone."""
    return short_name_of(spec["dataset"])


def _equation(spec: Mapping[str, Any]) -> str:
    """What the method minimises: the first paragraph of its docstring."""
    name = spec["method"].get("name")
    text = inspect.getdoc(methods[name]) or "" if name in methods else ""
    return _markdown(" ".join(text.split("\n\n")[0].split()))


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and set(value) == {"each"}:
        return f"{', '.join(map(str, value['each']))} (one for each model)"
    return value if isinstance(value, str) else json.dumps(value)


# --- scores and code --------------------------------------------------------------------------------------


def _scores(scores: Scores) -> str:
    rows = []
    for row in scores.summary():
        interval = row["interval"] or (row["range"] if row["count"] == 2 else None)
        mean = "-" if row["mean"] is None else f"{row['mean']:.3g}"
        ends = "-" if interval is None else f"{interval[0]:.3g} to {interval[1]:.3g}"
        rows.append((_code(names.of_row(row)), str(row["count"]), mean, ends, _markdown("; ".join(row["notes"]))))
    if not rows:
        return "None were stored. `untwine evaluate FOLDER` computes them."
    table = _table(("metric", "models", "mean", "95% interval (of two models: their range)", "remarks"), rows)
    floors = "What noise and untrained networks score, with which to compare these: `untwine metrics NAME`."
    return f"{table}\n\n{floors}"


def _loading(name: str, record: Record) -> str:
    shape = ", ".join(map(str, record.content["shape"]))
    images = "images in [0, 1], or uint8" if len(record.content["shape"]) == 3 else "numbers"
    return f"""```python
import untwine as uw

ensemble = uw.from_hub({json.dumps(name)})  # needs: pip install 'untwine[hub]'
codes = ensemble.encode(x)  # x: {images}, [n, {shape}]; codes: [models, n, {record.content["run"]["latents"]}]
images = ensemble.decode(codes)
model = ensemble.member(0)  # one model, a torch.nn.Module
```

Nothing in this folder is executed when it is loaded: weights are safetensors, all else is JSON."""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(text: str) -> str:
    """A text as code; longer fences where it holds backticks itself."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{' '.join(text.split())}{fence}"


def _markdown(text: str) -> str:
    """A text whose characters mean nothing in Markdown or HTML.

    >>> print(_markdown("a_b <c> [d]"))
    a\\_b \\<c\\> \\[d\\]
    """
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
