"""
Reads YAML by the 1.2 core schema (FEP-50), one event at a time: without recursion, and without running code from tags.

Digits with a leading zero are text. `no`, `12:30` and dates, which have other types in YAML 1.1, are text. A key must
be text.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from assay.errors import BadLine, Problem
from assay.protocol.json_types import is_object

MAX_DEPTH = 1_000  # limit of nested levels
MAX_NODES = 20_000_000  # limit of nodes after the aliases are expanded
MAX_DIGITS = (
    3_500  # limit of the digits of an integer; Python can write a hexadecimal one of this length in decimal
)
_CORE = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OTHER_INTEGER = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"0o": 8, "0x": 16}
_FIRST = frozenset("-+.0123456789")  # of every number


class _InvalidYaml(ValueError):
    """A node cannot be read; the message says why."""


def read_yaml(data: bytes, name: str) -> Any:
    """The document of a file, or None if the file is empty. Raises BadLine with the number of the line."""
    import yaml  # deferred import: 31 ms, which JSON files do not need

    try:
        data.decode()
    except UnicodeDecodeError as bad:  # libyaml also reads UTF-16, but all input formats are UTF-8
        raise BadLine(name, [Problem("", f"not UTF-8 (byte {bad.start})")]) from None
    parse: Any = getattr(yaml, "parse")  # noqa: B009  # it has no types
    builder = _DocumentBuilder(name)
    handlers: dict[Any, Callable[[Any], None]] = {
        yaml.ScalarEvent: builder.scalar,
        yaml.AliasEvent: builder.alias,
        yaml.MappingStartEvent: builder.mapping,
        yaml.SequenceStartEvent: builder.sequence,
        yaml.MappingEndEvent: builder.end,
        yaml.SequenceEndEvent: builder.end,
        yaml.DocumentStartEvent: builder.document_start,
    }
    event: Any = None
    try:
        for event in parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            handle = handlers.get(type(event))
            if handle is not None:
                handle(event)
    except yaml.YAMLError as wrong:
        mark: Any = getattr(wrong, "problem_mark", None)
        at: Any = getattr(wrong, "position", 0)
        line = mark.line + 1 if mark else data[:at].count(b"\n") + 1
        why = getattr(wrong, "problem", None) or str(wrong).splitlines()[0]
        raise BadLine(f"{name}:{line}", [Problem("", f"not YAML: {why}")]) from None
    except _InvalidYaml as wrong:
        raise BadLine(f"{name}:{event.start_mark.line + 1}", [Problem("", str(wrong))]) from None
    return builder.document


class _OpenCollection:
    """A collection whose end has not been read yet."""

    __slots__ = ("anchor", "key", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value, self.anchor = value, anchor
        self.key: str | None = None  # the key of a mapping whose value comes next
        self.size = 1


class _DocumentBuilder:
    """Builds a document from events. Aliases count with their expanded size, but are not expanded."""

    def __init__(self, name: str) -> None:
        self.document: Any = None
        self._name = name
        self._stack: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._unfinished: Counter[str | None] = Counter()  # the anchors of open collections
        self._documents = 0

    def document_start(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise _InvalidYaml("not YAML: expected one document, got another one here")

    def scalar(self, event: Any) -> None:
        plain, _ = event.implicit
        if self._at_key():
            self._key(event, unquoted=plain)
            return
        self._put(scalar_value(event.value, event.tag, unquoted=plain), 1, event.anchor)

    def mapping(self, event: Any) -> None:
        self._open({}, event, "map")

    def sequence(self, event: Any) -> None:
        self._open([], event, "seq")

    def alias(self, event: Any) -> None:
        if self._at_key():
            value, _ = self._anchors.get(event.anchor, (None, 0))
            if not isinstance(value, str):
                raise _InvalidYaml(
                    "not YAML that can be read: a key must be text, got an alias of something else"
                )
            self._name_member(value)
            return
        if self._unfinished[event.anchor]:
            raise BadLine(
                self._name,
                [Problem("", "expected an alias of another collection, got one of the collection around it")],
            )
        if event.anchor not in self._anchors:
            raise _InvalidYaml(f"not YAML: found undefined alias {event.anchor!r}")
        value, size = self._anchors[event.anchor]
        self._put(value, size, None)

    def end(self, event: Any) -> None:
        collection = self._stack.pop()
        self._unfinished[collection.anchor] -= 1
        if collection.size > MAX_NODES:
            raise BadLine(self._name, [Problem("", f"its aliases expand to more than {MAX_NODES} values")])
        self._put(collection.value, collection.size, collection.anchor)

    def _open(self, value: Any, event: Any, kind: str) -> None:
        if self._at_key():
            raise _InvalidYaml(
                f"not YAML that can be read: a key must be text, got a {'mapping' if kind == 'map' else 'list'}"
            )
        if event.tag not in (None, "!", _CORE + kind):
            raise _unknown_tag(event.tag)
        if len(self._stack) == MAX_DEPTH:
            raise BadLine(self._name, [Problem("", f"nested more than {MAX_DEPTH} deep")])
        self._stack.append(_OpenCollection(value, event.anchor))
        self._unfinished[event.anchor] += 1

    def _at_key(self) -> bool:
        return bool(self._stack) and is_object(self._stack[-1].value) and self._stack[-1].key is None

    def _key(self, event: Any, *, unquoted: bool) -> None:
        name: str = event.value
        if not isinstance(scalar_value(name, event.tag, unquoted=unquoted), str):
            raise _InvalidYaml(
                f"not YAML that can be read: a key must be text, got {name[:40] or 'nothing'};"
                f' put it in quotes: "{name[:40]}"'
            )
        if unquoted and name == "<<":
            raise _InvalidYaml(
                "not YAML that can be read: << merges in YAML 1.1 only; write the members out,"
                ' or put it in quotes if it is a name: "<<"'
            )
        if event.anchor is not None:
            self._anchors[event.anchor] = name, 1
        self._name_member(name)

    def _name_member(self, name: str) -> None:
        collection = self._stack[-1]
        if name in collection.value:
            raise _InvalidYaml(f"not YAML that can be read: the key {name[:40]!r} occurs twice")
        collection.key = name

    def _put(self, value: Any, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, size
        if not self._stack:
            self.document = value
            return
        collection = self._stack[-1]
        collection.size += size
        if collection.key is None:
            collection.value.append(value)
        else:
            collection.value[collection.key] = value
            collection.key = None


def scalar_value(text: str, tag: str | None = None, *, unquoted: bool = True) -> Any:
    """The value of a scalar. A scalar in quotes or with the tag `!!str` is its text."""
    if tag is None or tag == "!":
        return resolve_scalar(text) if unquoted and tag is None else text
    if tag == f"{_CORE}str":
        return text
    kinds: dict[str, tuple[type, ...]] = {
        f"{_CORE}null": (type(None),),
        f"{_CORE}bool": (bool,),
        f"{_CORE}int": (int,),
        f"{_CORE}float": (float, int),
    }
    if tag not in kinds:
        raise _unknown_tag(tag)
    value = resolve_scalar(text)
    if type(value) not in kinds[tag]:
        raise _InvalidYaml(
            f"not YAML that can be read: {text[:40]!r} is not a valid !!{tag.removeprefix(_CORE)}"
        )
    return float(value) if tag == f"{_CORE}float" else value


def resolve_scalar(text: str) -> Any:
    """The value of a scalar without quotes and without a tag."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] not in _FIRST:
        return text
    if _DECIMAL.fullmatch(text):
        return int(_limit_digits(text))
    if _OTHER_INTEGER.fullmatch(text):
        return int(_limit_digits(text[2:]), _BASES[text[:2]])
    if _FLOAT.fullmatch(text):
        return float(text)
    if (named := _NOT_FINITE.fullmatch(text)) is not None:
        return float(text.replace(".", "") if named[1] is not None else "nan")
    return text


def _limit_digits(digits: str) -> str:
    if len(digits) > MAX_DIGITS:
        raise _InvalidYaml("not YAML that can be read: a number is too large")
    return digits


def _unknown_tag(tag: str) -> _InvalidYaml:
    return _InvalidYaml(
        f"not YAML that can be read: unknown tag {tag.replace(_CORE, '!!')[:80]}; the tags are !!str, "
        "!!int, !!float, !!bool, !!null,"
        " !!map and !!seq"
    )
