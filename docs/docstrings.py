"""What griffe, which reads docstrings for the site, does not know of ours: examples, and arguments of parts."""

from __future__ import annotations

import re
from typing import Any

import griffe

# Examples begin with `>>>`; their output goes on to the next empty line. Markdown would take them for quotations.
EXAMPLES = re.compile(r"(?:^>>> .*(?:\n(?!\n).+)*\n?)+", flags=re.MULTILINE)


def fenced(text: str) -> str:
    """The text with fences around its examples."""
    return EXAMPLES.sub(lambda examples: f"```pycon\n{examples[0].rstrip()}\n```\n", text)


class Docstrings(griffe.Extension):
    """Fences examples, and gives every `@part` the arguments that its fields are."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        if not any(str(decorator.value).startswith("part") for decorator in cls.decorators):
            return
        own = [member for member in cls.members.values() if isinstance(member, griffe.Attribute)]
        fields = [field for field in own if field.annotation and "ClassVar" not in str(field.annotation)]
        kind = griffe.ParameterKind.positional_or_keyword
        given = [griffe.Parameter(f.name, annotation=f.annotation, kind=kind, default=f.value) for f in fields]
        cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*given), parent=cls))
        for field in fields:
            cls.del_member(field.name)  # the signature has it
