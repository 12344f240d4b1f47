"""Parts as text: `overlap(squared-error, radius=15)` on a command line or in a JSON file.

The text is taken apart by Python's own grammar, and then only looked up: nothing in it is evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from untwine.errors import UntwineError, unknown
from untwine.parts import is_part

T = TypeVar("T")

_LONGEST = 10_000  # characters
_DEEPEST = 20  # parts within parts, which bounds our own recursion
_WORDS = {"true": True, "false": False, "none": None}  # as the command line and JSON write them
# A quoted text, which stays as it is, or a name with hyphens: not the e-5 of a number.
_HYPHENS = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![\w.])[^\W\d]\w*(?:-\w+)+""")


def read(kind: str, text: str, table: Mapping[str, Any]) -> Any:
    """The part that a text names: `name`, or `name(value, argument=value)`.

    `table` maps names to parts, or to functions that make them; a name alone calls its function without
    arguments. Hyphens in names stand for underscores. Values are numbers, texts (quoted or not), `true`,
    `false`, `none`, tuples of values, and parts of the same table.

    >>> table = {"square": lambda side=1.0: ("square", side), "two_of": lambda part, colour="red": (part, colour)}
    >>> read("shape", "two-of(square(side=0.5), colour=blue)", table)
    (('square', 0.5), 'blue')
    >>> read("shape", "sqare", table)
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown shape 'sqare'; did you mean 'square'?
    """
    return _Reader(kind, text.strip(), table).part()


def named(kind: str, value: Any, base: type[T], table: Mapping[str, Any]) -> T:
    """The part that a text names, or the one that is given."""
    if isinstance(value, str):
        return read(kind, value, table)
    if not isinstance(value, base):
        raise UntwineError(f"a {kind} is named by a text, or is a {base.__name__}; {value!r} is neither")
    return value


def write(part: Any, table: Mapping[str, Any]) -> str:
    """The name of a part as the command line writes it, if it is one that needs no arguments; else its `repr`.

    >>> write((1, 2), {"a_pair": lambda: (1, 2)})
    'a-pair'
    """
    for name, entry in table.items():
        if _makes(entry):
            needed = [p for p in inspect.signature(entry).parameters.values() if p.default is p.empty]
            entry = None if needed else entry()
        if entry == part:
            return name.replace("_", "-")
    return repr(part)


class _Reader:
    def __init__(self, kind: str, text: str, table: Mapping[str, Any]):
        self.kind = kind
        self.text = text
        self.table = table

    def part(self) -> Any:
        if len(self.text) > _LONGEST:
            raise UntwineError(f"cannot read a {self.kind} of {len(self.text)} characters; {_LONGEST} are the most")
        # One character for another: places in the tree are places in the text.
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
        """Look a name up, and call what it stands for if that is a function."""
        written = _short(self.segment(node), 80)
        if node.id not in self.table:
            raise unknown(self.kind, written.replace("_", "-"), (n.replace("_", "-") for n in self.table))
        entry = self.table[node.id]
        if not _makes(entry):
            if args or keywords:
                raise UntwineError(f"{self.kind} {written!r} takes no arguments")
            return entry
        bound = self.bind(written, entry, args, keywords)
        for name, given in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(self.value(one, depth) for one in given)
            elif parameter.kind is parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: self.value(one, depth) for key, one in given.items()}
            elif isinstance(given, ast.Name) and parameter.annotation in (str, "str"):
                bound.arguments[name] = self.segment(given)  # a text, even where a part has the same name
            else:
                bound.arguments[name] = self.value(given, depth)
            if isinstance(parameter.default, bool) and not isinstance(bound.arguments[name], bool):
                raise UntwineError(f"{name} of {self.kind} {written!r} is true or false, not {self.segment(given)}")
        try:
            return entry(*bound.args, **bound.kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            raise UntwineError(f"{self.kind} {written!r} cannot be made of {self.short()!r}: {error}") from None

    def bind(
        self, written: str, entry: Callable[..., Any], args: list[ast.expr], keywords: list[ast.keyword]
    ) -> inspect.BoundArguments:
        """Arguments, not yet read, by the names of the function's own."""
        signature = inspect.signature(entry)
        known = {n: p for n, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD}
        named: dict[str, ast.expr] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise self.wrong()
            if keyword.arg not in known and known.keys() == signature.parameters.keys():
                raise unknown(f"argument of {self.kind} {written!r}:", keyword.arg, known)
            if keyword.arg in named:
                raise UntwineError(f"{self.kind} {written!r} is given {keyword.arg} twice")
            named[keyword.arg] = keyword.value
        try:
            return signature.bind(*args, **named)
        except TypeError as error:
            raise UntwineError(f"{self.kind} {written!r} is {_usage(written, signature)}: {error}") from None

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
        """The error for a text that is no name and no call of one, with an example that is."""
        inner = f"{_short(self.segment(node), 40)!r} in " if node is not None else ""
        return UntwineError(
            f"cannot read {inner}the {self.kind} {self.short()!r}; "
            f"write a name, or a name with its arguments, such as {_example(self.table)}"
        )


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _makes(entry: Any) -> bool:
    """Whether an entry is a function that makes a part; some parts (schedules) can be called themselves."""
    return callable(entry) and not is_part(entry)


def _usage(name: str, signature: inspect.Signature) -> str:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=plain, return_annotation=signature.empty)}"


def _example(table: Mapping[str, Any]) -> str:
    for name, entry in table.items():
        if _makes(entry):
            for key, parameter in inspect.signature(entry).parameters.items():
                if isinstance(parameter.default, int | float | str):
                    return f"{name.replace('_', '-')}({key}={parameter.default})"
    return next(iter(table)).replace("_", "-") if table else "name(argument=1.0)"
