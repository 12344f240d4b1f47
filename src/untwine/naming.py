"""Parts as text: `overlap(squared-error, radius=15)` on a command line or in a JSON file.

The text is taken apart by Python's own grammar, and then only looked up: nothing in it is evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import types
import typing
import warnings
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from untwine.arguments import bind_names, hints
from untwine.errors import UntwineError, unknown, unregistered
from untwine.registry import Registry

Table: TypeAlias = Mapping[str, Any] | Registry

_LONGEST = 10_000  # characters
_DEEPEST = 20  # parts within parts, which bounds our own recursion
_WORDS = {"true": True, "false": False, "none": None}  # as the command line and JSON write them
# A quoted text, which stays as it is, or a name with hyphens: not the e-5 of a number.
_HYPHENS = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![\w.])[^\W\d]\w*(?:-\w+)+""")


def read(kind: str, text: str, table: Table) -> Any:
    """The part that a text names: `name`, or `name(value, argument=value)`.

    A name alone calls its function without arguments. Hyphens in names stand for underscores. Values are numbers,
    texts (quoted or not), `true`, `false`, `none`, tuples of values, and parts of the same table.

    Args:
        kind: What the text names, for errors: "prior".
        text: The text.
        table: Names with parts, or with functions or classes that make them.

    >>> table = {"square": lambda side=1.0: ("square", side), "two_of": lambda part, colour="red": (part, colour)}
    >>> read("shape", "two-of(square(side=0.5), colour=blue)", table)
    (('square', 0.5), 'blue')
    >>> read("shape", "sqare", table)
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown shape 'sqare'; did you mean 'square'?
    """
    return _Reader(kind, text.strip(), table).part()


def write(part: Any, table: Table) -> str:
    """The name of a part as the command line writes it if it needs no arguments, else its `repr`.

    Args:
        part: The part.
        table: Names with parts, or with functions or classes that make them.

    >>> write((1, 2), {"a_pair": lambda: (1, 2)})
    'a-pair'
    """
    for name, entry in table.items():
        if _makes(entry):
            needed = [p for p in inspect.signature(entry).parameters.values() if p.default is p.empty]
            default = None if needed else entry()
        else:
            default = entry
        if default == part:
            return name.replace("_", "-")
    return repr(part)


class _Reader:
    def __init__(self, kind: str, text: str, table: Table):
        self.kind = kind
        self.text = text
        self.table = table

    def part(self) -> Any:
        if len(self.text) > _LONGEST:
            raise UntwineError(f"cannot read a {self.kind} of {len(self.text)} characters; {_LONGEST} are the most")
        # One character replaces another, so that a position in the tree is a position in the text.
        source = _HYPHENS.sub(lambda match: match[0] if match[1] else match[0].replace("-", "_"), self.text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a doubtful escape in a quoted text
                tree = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply to parse
            raise self.wrong() from None
        match tree:
            case ast.Name():
                return self.make(tree, [], [])
            case ast.Call(func=ast.Name() as name, args=args, keywords=keywords):
                return self.make(name, args, keywords)
        raise self.wrong()

    def make(self, node: ast.Name, args: list[ast.expr], keywords: list[ast.keyword], depth: int = 0) -> Any:
        """Look a name up, and call what it stands for if that is a function or a class."""
        written = _short(self.segment(node), 80)
        what = f"{self.kind} {written!r}"
        if node.id not in self.table:
            error = unregistered if isinstance(self.table, Registry) else unknown
            raise error(self.kind, written.strip("_").replace("_", "-") or written, map(_hyphened, self.table))
        entry = self.table[node.id]
        if not _makes(entry):
            if args or keywords:
                raise UntwineError(f"{what} takes no arguments")
            return entry
        bound = bind_names(what, inspect.signature(entry), args, self.named(what, keywords))
        annotations = hints(entry)
        for name, argument in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(self.value(item, depth) for item in argument)
            elif parameter.kind is parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: self.value(item, depth) for key, item in argument.items()}
            elif isinstance(argument, ast.Name) and _is_text(annotations[name]):
                bound.arguments[name] = self.segment(argument)  # a text, even where a part has the same name
            else:
                bound.arguments[name] = self.value(argument, depth)
        try:
            return entry(*bound.args, **bound.kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            raise UntwineError(f"{what} cannot be made of {self.short()!r}: {error}") from None

    def named(self, what: str, keywords: list[ast.keyword]) -> dict[str, ast.expr]:
        """Arguments by name, not yet read."""
        named: dict[str, ast.expr] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise self.wrong()
            if keyword.arg in named:
                raise UntwineError(f"{what} is given {keyword.arg} twice")
            named[keyword.arg] = keyword.value
        return named

    def value(self, node: ast.expr, depth: int) -> Any:
        """The value of an argument."""
        if depth > _DEEPEST:
            raise UntwineError(f"the {self.kind} {self.short()!r} is nested more than {_DEEPEST} deep")
        match node:
            case ast.Constant(value=None | bool() | str() as value):
                return value
            case ast.Constant(value=int() | float() as value):
                return self.finite(node, value)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as value)):
                if not isinstance(value, bool):
                    return self.finite(node, -value if isinstance(sign, ast.USub) else value)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple(self.value(item, depth + 1) for item in items)
            case ast.Call(func=ast.Name() as name, args=args, keywords=keywords):
                return self.make(name, args, keywords, depth + 1)
            case ast.Name(id=name) if name in self.table:
                return self.make(node, [], [], depth + 1)
            case ast.Name(id=name):
                return _WORDS.get(name, self.segment(node))
        raise self.wrong(node)

    def finite(self, node: ast.expr, value: float) -> float:
        if isinstance(value, float) and not math.isfinite(value):  # a whole number may be too large for a float
            raise UntwineError(f"a number must be finite, not {self.segment(node)} in the {self.kind} {self.short()!r}")
        return value

    def segment(self, node: ast.expr) -> str:
        return ast.get_source_segment(self.text, node) or ""

    def short(self) -> str:
        return _short(self.text, 80)

    def wrong(self, node: ast.expr | None = None) -> UntwineError:
        """The error for a text that is neither a name nor a name with arguments, with an example of one."""
        inner = f"{_short(self.segment(node), 40)!r} in " if node is not None else ""
        return UntwineError(
            f"cannot read {inner}the {self.kind} {self.short()!r}; "
            f"write a name, or a name with its arguments, such as {_example(self.table)}"
        )


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _makes(entry: Any) -> bool:
    """Whether an entry is a function or class that makes a part; some parts (schedules) can be called themselves."""
    return callable(entry) and not hasattr(type(entry), "__part__")


def _is_text(hint: Any) -> bool:
    """Whether an annotation promises a text, or one of several texts."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return all(isinstance(item, str) for item in inner)
    if origin in (typing.Union, types.UnionType):
        return all(_is_text(item) for item in inner if item is not types.NoneType)
    return hint is str


def _example(table: Table) -> str:
    for name, entry in table.items():
        if _makes(entry):
            for key, parameter in inspect.signature(entry).parameters.items():
                if isinstance(parameter.default, int | float | str):
                    return f"{name.replace('_', '-')}({key}={parameter.default})"
    return next(iter(table)).replace("_", "-") if table else "name(argument=1.0)"


def _hyphened(name: str) -> str:
    """A name as texts have it."""
    return name.replace("_", "-")
