"""
Arguments: which are literal, which are paths, and what a path yields (FEP 2.3.2, decisions 12 to 17).

`bind` reads a check once and refuses what is wrong whatever the case; `resolve` and `build` do the rest, per case.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, Struct, inspect
from msgspec.structs import FieldInfo

from assay import paths
from assay.checks.checker import Checker, Nodes, Text, Unfit
from assay.checks.registry import Registry
from assay.errors import (
    Fault,
    ForeignFault,
    InvalidRequest,
    MalformedPath,
    PathFault,
    Problem,
    UnknownCheck,
    ValueFault,
)
from assay.ports import Limits
from assay.protocol.canonical import canonical
from assay.protocol.evaluation import Check
from assay.protocol.values import is_list

Takes = Literal["one", "list", "nodes"]


class Field(NamedTuple):
    """One argument of a check."""

    name: str  # on the wire
    attribute: str  # in the class
    type: Any
    takes: Takes
    literal: bool  # opaque or a template: never a path
    required: bool


class Path(NamedTuple):
    """An argument that is a path; a malformed one is kept, with what is wrong (decision 16)."""

    field: Field
    text: str
    query: paths.Query | MalformedPath


class Bound(Struct, frozen=True):
    """A check of a request with its class found, its literals typed and its paths compiled."""

    checker: type[Checker]
    literals: dict[str, Any]  # by attribute, typed, defaults included
    shown: dict[str, Any]  # by wire name, what resolved_arguments says of them
    paths: tuple[Path, ...]
    order: tuple[str, ...]  # wire names, in the order of the fields


def bind(check: Check, registry: Registry, place: str) -> Bound:
    """Every problem at once, each with its place: `checks[2].arguments.pattern` (decision 33)."""
    checker = _found(check, registry, place)
    try:
        fields = fields_of(checker)
    except Exception as surprise:  # its fields are foreign code: a type that nobody knows, say
        raise InvalidRequest(
            Problem(place, f"the arguments of {checker.type} cannot be read: {surprise}")
        ) from surprise
    literals, shown, found, problems = _read(check, fields, f"{place}.arguments")
    if problems:
        raise InvalidRequest(problems)
    known = {*literals, *(path.field.attribute for path in found)}
    for field, default in _defaults(checker):
        if field.attribute not in known:
            literals[field.attribute] = default
            if default is not UNSET:
                shown[field.name] = _shown(default, default)
    try:
        checker.vet(literals)
        if not found:
            checker(**literals)  # everything is known: what building refuses is wrong whatever the case
    except Unfit as wrong:
        raise InvalidRequest(Problem(f"{place}.arguments.{wrong.argument}", str(wrong))) from None
    except (ValueError, TypeError) as wrong:
        raise InvalidRequest(Problem(f"{place}.arguments", str(wrong))) from None
    return Bound(checker, literals, shown, tuple(found), tuple(field.name for field in fields))


def _found(check: Check, registry: Registry, place: str) -> type[Checker]:
    try:
        return registry.find(check.type, None if check.version is UNSET else check.version, place)
    except UnknownCheck as unknown:
        raise InvalidRequest([Problem(f"{place}.type", one.message) for one in unknown.problems]) from None


def _read(
    check: Check, fields: tuple[Field, ...], place: str
) -> tuple[dict[str, Any], dict[str, Any], list[Path], list[Problem]]:
    """Literals by attribute, what is shown of them by name, paths, and what is wrong."""
    takes = ", ".join(field.name for field in fields)
    problems = [
        Problem(f"{place}.{name}", f"{check.type} takes no such argument; it takes {takes}")
        for name in check.arguments
        if all(field.name != name for field in fields)
    ]
    literals: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    found: list[Path] = []
    for field in fields:
        if field.name not in check.arguments:
            if field.required:
                problems.append(Problem(f"{place}.{field.name}", f"{check.type} needs this argument"))
            continue
        value = check.arguments[field.name]
        if isinstance(value, str) and not field.literal:
            if value.startswith("$."):
                found.append(Path(field, value, _query(value)))
                continue
            value = value[1:] if value.startswith("\\$.") else value
        try:
            literals[field.attribute] = convert(field, value)
            shown[field.name] = _shown(literals[field.attribute], value)
        except ValueFault as wrong:
            problems.append(Problem(f"{place}.{field.name}", str(wrong).removeprefix(f"{field.name}: ")))
    return literals, shown, found, problems


def resolve(bound: Bound, document: Any, limits: Limits) -> tuple[dict[str, Any], Fault | None]:
    """What the paths yield, by wire name, and the first trouble in the order of the arguments, if any."""
    values: dict[str, Any] = {}
    trouble: Fault | None = None
    for path in bound.paths:
        try:
            values[path.field.name] = follow(path, document, limits)
        except PathFault as fault:
            trouble = trouble or fault
    return values, trouble


def follow(path: Path, document: Any, limits: Limits) -> Any:
    """One value, or a list of them, as the argument takes it (decisions 14, 15)."""
    query, (name, _, _, takes, _, _) = path.query, path.field
    if isinstance(query, MalformedPath):
        raise PathFault(f"{name}: {query}")
    try:
        values = query.values(document, max_nodes=limits.max_nodes)
    except PathFault as fault:
        raise PathFault(f"{name}: {fault}") from None
    if takes == "nodes":
        return values
    if takes == "list":
        if len(values) == 1 and is_list(values[0]):
            return values[0]
        if values or not query.singular:
            return values
    elif len(values) == 1:
        return values[0]
    if not values:
        raise PathFault(f"{name}: {path.text} finds nothing")
    raise PathFault(f"{name}: {path.text} finds {len(values)} values, and this argument takes one")


def build(bound: Bound, values: Mapping[str, Any]) -> Checker:
    """The check with all its arguments; a value of the wrong type is a ValueFault."""
    typed = {path.field.attribute: convert(path.field, values[path.field.name]) for path in bound.paths}
    try:
        return bound.checker(**bound.literals, **typed)
    except (ValueError, TypeError) as wrong:
        raise ValueFault(str(wrong)) from None
    except Exception as surprise:  # __post_init__ is the check's own
        kind = type(surprise).__name__
        raise ForeignFault(f"{bound.checker.type} failed with {kind}: {surprise}") from surprise


def convert(field: Field, value: Any) -> Any:
    try:
        return msgspec.convert(value, field.type, dec_hook=_special)
    except msgspec.ValidationError as wrong:
        message = str(wrong).replace(" - at `$`", "").replace("- at `$", "at `").replace("Expected", "wanted")
        raise ValueFault(f"{field.name}: {message.replace(', got', ' but got')}") from None
    except RecursionError:
        raise ValueFault(f"{field.name}: nested too deeply to be compared") from None


def as_text(value: Any) -> Text:
    """A string is itself, null is refused, anything else is its canonical JSON (decision 19)."""
    if isinstance(value, str):
        return Text(value)
    if value is None:
        raise ValueError("wanted text, or a value that can be written as text, but got `null`")
    return Text(canonical(value))


@lru_cache(maxsize=512)
def fields_of(checker: type[Checker]) -> tuple[Field, ...]:
    described = inspect.type_info(checker)
    assert isinstance(described, inspect.StructType)
    hints = {one.name: one for one in msgspec.structs.fields(checker)}
    return tuple(_field(one, hints[one.name]) for one in described.fields)


def _field(described: inspect.Field, info: FieldInfo) -> Field:
    kind, literal = described.type, False
    while isinstance(kind, inspect.Metadata):
        marked = cast("dict[str, Any] | None", kind.extra)  # pyright: ignore[reportUnknownMemberType]
        literal = literal or bool(marked and marked.get("literal"))
        kind = kind.type
    takes: Takes = "one"
    for part in kind.types if isinstance(kind, inspect.UnionType) else (kind,):
        if isinstance(part, inspect.CustomType) and part.cls is Nodes:
            takes = "nodes"
        elif isinstance(part, inspect.CollectionType):
            takes = "list"
    return Field(described.encode_name, described.name, info.type, takes, literal, described.required)


def _defaults(checker: type[Checker]) -> list[tuple[Field, Any]]:
    fields = {field.attribute: field for field in fields_of(checker)}
    return [
        (fields[one.name], one.default if one.default is not msgspec.NODEFAULT else one.default_factory())
        for one in msgspec.structs.fields(checker)
        if not one.required
    ]


def _query(text: str) -> paths.Query | MalformedPath:
    try:
        return paths.compile(text)
    except MalformedPath as malformed:
        return malformed


def _special(kind: type, value: Any) -> Any:
    if kind is Text:
        return as_text(value)
    if kind is Nodes:
        if is_list(value):
            return Nodes(value)
        raise ValueError("wanted a path, a string that begins with `$.`")
    return value


def _shown(typed: Any, given: Any) -> Any:
    """A value as it was given; an object with members of its own is shown whole, with their defaults."""
    return msgspec.to_builtins(typed) if isinstance(typed, Struct) else given
