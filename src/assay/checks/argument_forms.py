"""
Prompt templates: texts with `{{$.path}}` placeholders that are filled per case (FEP 2.3.6, FEP-18).

Values are not scanned again after they are filled in, so text from an output cannot introduce a placeholder.
"""

import re
from typing import Any, NamedTuple, Self

import msgspec

from assay import jsonpath as paths
from assay.errors import MalformedPath, PathFault
from assay.lazy_pattern import lazy_pattern
from assay.ports import Limits
from assay.protocol.evaluation import Check
from assay.protocol.json_types import is_list, is_object, kind_of, preview
from assay.protocol.redaction import redact_checks

OPEN, CLOSE = "{{", "}}"
TEMPLATE_PATH = lazy_pattern(r"""(?:[^'"}]|}(?!})|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*""", re.DOTALL)


class Placeholder(NamedTuple):
    """A placeholder: its position in the text, its path, and the compiled path or its error."""

    position: int
    text: str
    query: paths.Query | MalformedPath


class MarkedText(str):
    """A prompt whose first `fixed` characters are the same for all cases. `plain` is the text without the mark."""

    __slots__ = ("fixed", "plain")

    def __new__(cls, text: str, fixed: int) -> Self:
        made = super().__new__(cls, text)
        made.fixed, made.plain = fixed, text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return MarkedText, (self.plain, self.fixed)


class PromptTemplate:
    """
    Text parts and placeholders in alternation.

        PromptTemplate.read("Is `{{$.output.value}}` polite?")    a template with one placeholder
        PromptTemplate.read("Is {{this}} polite?")                None: there is no placeholder
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[str | Placeholder, ...]) -> None:
        self._parts = parts

    @classmethod
    def read(cls, text: str) -> Self | None:
        """
        Read a template; None if it has no placeholder. A placeholder starts with `{{$.` or `{{$[`; other braces are
        text.
        """
        parts: list[str | Placeholder] = []
        done = 0
        at = text.find(OPEN)
        while at >= 0:
            start = at + len(OPEN)
            while start < len(text) and text[start].isspace():
                start += 1
            if not text.startswith(("$.", "$["), start):
                at = text.find(OPEN, at + 1)
                continue
            end = _end(text, start)
            parts += [text[done:at], _placeholder(text, at, start, end)]
            done = len(text) if end is None else end + len(CLOSE)
            at = text.find(OPEN, done)
        return cls((*parts, text[done:])) if parts else None

    @property
    def singular(self) -> bool:
        """Whether all paths are singular queries, which do not search."""
        return all(isinstance(part, str) or _singular(part.query) for part in self._parts)

    @property
    def fixed(self) -> int:
        """The characters before the first placeholder."""
        return len(self._parts[0]) if isinstance(self._parts[0], str) else 0

    def fill(self, document: Any, limits: Limits) -> str:
        """
        Fill in the values: a string as it is, any other value as JSON. Raises PathFault if a path does not find one
        value.
        """
        return "".join(
            part if isinstance(part, str) else _value(part, document, limits) for part in self._parts
        )


def _singular(query: paths.Query | MalformedPath) -> bool:
    return isinstance(query, MalformedPath) or query.singular


def _end(text: str, start: int) -> int | None:
    """The end of a path: the first `}}` outside quotes, else the first one inside them, else None."""
    path = TEMPLATE_PATH.match(text, start, start + paths.MAX_TEXT)
    if path is not None and text.startswith(CLOSE, path.end()):
        return path.end()
    close = text.find(CLOSE, start)
    return None if close < 0 else close


def _placeholder(text: str, position: int, start: int, end: int | None) -> Placeholder:
    if end is None:
        excerpt = text[start : start + 40]
        return Placeholder(
            position, excerpt, MalformedPath(excerpt, len(text) - start, f"{OPEN} is never closed")
        )
    path = text[start:end].rstrip()
    try:
        return Placeholder(position, path, paths.compile(path))
    except MalformedPath as malformed:
        return Placeholder(position, path, malformed)


def _value(placeholder: Placeholder, document: Any, limits: Limits) -> str:
    if isinstance(placeholder.query, MalformedPath):
        raise PathFault(f"the placeholder at character {placeholder.position}: {placeholder.query}")
    values = placeholder.query.values(document, max_nodes=limits.max_nodes)
    if len(values) != 1:
        result = f"{len(values)} values; a placeholder takes one" if values else "nothing"
        raise PathFault(
            f"the placeholder at character {placeholder.position}: {placeholder.text} finds {result}"
        )
    (value,) = values
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# Reads arguments in the form of FEP's proto (FEP 5.2): a CheckValue, `{"jsonpath_expression": "$.output.value"}`.

FIELDS = frozenset(  # the arguments that are a CheckValue in the proto
    {
        ("exact_match", "actual"),
        ("exact_match", "expected"),
        ("contains", "text"),
        ("regex", "text"),
        ("threshold", "value"),
    }
)
PATH = "jsonpath_expression"
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "literal_string": ((str,), "a string"),
    "literal_number": ((int, float), "a number"),
    "literal_bool": ((bool,), "true or false"),
    "literal_object": ((dict,), "an object"),
    PATH: ((str,), "a path, a string that begins with `$.`"),
}
_NAMES = {name: name for name in _KINDS} | {
    "literalString": "literal_string",
    "literalNumber": "literal_number",
    "literalBool": "literal_bool",
    "literalObject": "literal_object",
    "jsonpathExpression": PATH,
}


def is_check_value(check: str, argument: str, value: Any) -> bool:
    """Whether the object is a CheckValue, by the member names of the proto or of its JSON form."""
    return (
        (check, argument) in FIELDS
        and is_object(value)
        and bool(value)
        and all(name in _NAMES for name in value)
    )


def unwrap(value: dict[str, Any]) -> tuple[Any, bool]:
    """The value of a CheckValue, and whether it is a literal. Raises ValueError for an invalid CheckValue."""
    if len(value) > 1:
        raise ValueError(f"expected one of {', '.join(_KINDS)}, got {', '.join(value)}")
    ((name, content),) = value.items()
    kinds, noun = _KINDS[_NAMES[name]]
    path = _NAMES[name] == PATH
    if type(content) not in kinds or (path and not content.startswith("$.")):
        raise ValueError(f"expected {noun} as {name}, got {preview(content) if path else kind_of(content)}")
    return content, not path


# How results show arguments.


def display_value(value: Any, raw: Any) -> Any:
    """The value as the caller wrote it. A struct is shown with the defaults of its members, checks without secrets."""
    if is_list(value) and value and isinstance(value[0], Check):
        return redact_checks(raw)
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else raw
