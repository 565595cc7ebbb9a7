"""
Arguments: which are literal, which are paths, and what a path yields (FEP 2.3.2, decisions 12 to 17).

`bind` reads a check once and refuses what is wrong whatever the case; `resolve` and `build` do the rest, per case.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, inspect
from msgspec.structs import FieldInfo

from assay import jsonpath as paths
from assay.checks.checker import Canonical, Checker, InvalidArgument, Nodes, Text
from assay.checks.loop_budget import spend
from assay.checks.redaction import without_secrets
from assay.checks.registry import Registry
from assay.checks.templates import PromptTemplate
from assay.checks.typed_values import is_typed, untyped
from assay.errors import (
    Fault,
    ForeignFault,
    InvalidRequest,
    MalformedPath,
    PathFault,
    Problem,
    UsageError,
    ValueFault,
)
from assay.ports import Limits, Services
from assay.protocol.canonical import canonical
from assay.protocol.evaluation import Check
from assay.protocol.json_types import is_finite, is_list, is_object
from assay.protocol.json_types import preview as shown_value
from assay.protocol.validation_messages import message_of, place_in, problems_in

Takes = Literal["one", "list", "nodes", "text"]


class Field(NamedTuple):
    """One argument of a check."""

    name: str  # on the wire
    attribute: str  # in the class
    type: Any
    takes: Takes
    literal: bool  # opaque or a template: never a path
    secrets: bool  # it may hold some, which are not shown
    required: bool


class Path(NamedTuple):
    """An argument that depends on the case; a malformed path is kept, with what is wrong (decision 16)."""

    field: Field
    text: str
    query: paths.Query | MalformedPath | PromptTemplate

    @property
    def shown(self) -> str | UnsetType:
        """The path as resolved_arguments has it; a template is none."""
        return UNSET if isinstance(self.query, PromptTemplate) else self.text


class BoundCheck(Struct, frozen=True):
    """A check of a request with its class found, its literals typed and its paths compiled."""

    checker: type[Checker]
    literals: dict[str, Any]  # by attribute, typed, defaults included
    shown: dict[str, Any]  # by wire name, what resolved_arguments says of them
    paths: tuple[Path, ...]
    order: tuple[str, ...]  # wire names, in the order of the fields


def bind(check: Check, registry: Registry, place: str, services: Services | None = None) -> BoundCheck:
    """
    Every problem at once, each with its place: `checks[2].arguments.pattern` (decision 33).

    Given its services, the host is asked whether it can do what the check needs. On an event loop it may raise OverBudget.
    """
    spend()
    checker, unversioned = _found(check, registry, place)
    try:
        fields = fields_of(checker)
    except Exception as surprise:  # its fields are foreign code: a type that nobody knows, say
        raise InvalidRequest(
            Problem(place, f"the arguments of {checker.type} cannot be read: {surprise}")
        ) from surprise
    literals, shown, found, problems = _read(check, fields, f"{place}.arguments")
    problems = [*unversioned, *problems]
    if services is not None and services.persists_requests:
        problems += _secrets(check, fields, shown, f"{place}.arguments")
    known = {*literals, *(path.field.attribute for path in found)}
    for field, info in _optional(checker):
        if field.attribute not in known and field.name not in check.arguments:
            default = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
            literals[field.attribute] = default
            if default is not UNSET:
                shown[field.name] = _shown(default, default)
    problems = _with(problems, lambda: checker.vet(literals), checker, place)
    if not problems and not found:
        problems = _with(problems, lambda: checker(**literals), checker, place)
    if services is not None:
        problems = _with(problems, lambda: checker.meet(literals, services), checker, place)
    if problems:
        raise InvalidRequest(problems)
    return BoundCheck(checker, literals, shown, tuple(found), tuple(field.name for field in fields))


def _with(
    problems: list[Problem], step: Callable[[], object], checker: type[Checker], place: str
) -> list[Problem]:
    """
    The problems, and those a step finds whatever the case: vet, build, or meet.

    After a problem the step sees fewer literals. What it says of an argument that is wrong already is left out, and so is
    an error that is not a refusal.
    """
    try:
        step()
        return problems
    except InvalidRequest as refusal:
        more = [Problem(f"{place}.arguments.{one.place}", one.message) for one in refusal.problems]
    except UsageError as wrong:
        more = [Problem(place, str(wrong))]
    except InvalidArgument as wrong:
        more = [Problem(f"{place}.arguments.{wrong.argument}", str(wrong))]
    except (ValueError, TypeError) as wrong:
        more = [Problem(f"{place}.arguments", str(wrong))]
    except Exception as surprise:  # vet(), __post_init__ and meet() are the check's own
        said = f"{checker.type} failed with {type(surprise).__name__}: {surprise}"
        if not problems:
            raise InvalidRequest(Problem(f"{place}.arguments", said)) from surprise
        more = []
    wrong_already = {_argument(one.place, place) for one in problems}
    return problems + [one for one in more if (_argument(one.place, place) or "-") not in wrong_already]


def _argument(place: str, check: str) -> str:
    """The name of the argument that a place is in; of a place that is in none, nothing."""
    inside = place.removeprefix(f"{check}.arguments.")
    return "" if inside == place else re.split(r"[.\[]", inside, maxsplit=1)[0]


def _secrets(check: Check, fields: tuple[Field, ...], shown: dict[str, Any], place: str) -> Iterable[Problem]:
    """What would be written down and must not be; what it is, is not repeated."""
    for field in fields:
        if field.secrets and shown.get(field.name, UNSET) not in (UNSET, check.arguments.get(field.name)):
            wanted = "it holds a secret, and what is asked of a server is written down"
            yield Problem(f"{place}.{field.name}", f"{wanted}; let its operator configure it")


def _found(check: Check, registry: Registry, place: str) -> tuple[type[Checker], tuple[Problem, ...]]:
    """The check that is meant; where only its version is wrong, what is wrong with that, and the newest there is."""
    version = None if check.version is UNSET else check.version
    try:
        return registry.find(check.type, version, place), ()
    except InvalidRequest as refusal:
        if version is None or check.type not in registry.types:
            raise
        return registry.find(check.type, None, place), refusal.problems


def _read(
    check: Check, fields: tuple[Field, ...], place: str
) -> tuple[dict[str, Any], dict[str, Any], list[Path], list[Problem]]:
    """Literals by attribute, what is shown of them by name, paths, and what is wrong."""
    names = [field.name for field in fields]
    problems = [
        Problem(f"{place}.{name}", f"{check.type} takes no such argument; it takes {', '.join(names)}")
        for name in check.arguments
        if name not in names
    ]
    literals: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    found: list[Path] = []
    for field in fields:
        if field.name not in check.arguments:
            if field.required:
                problems.append(Problem(f"{place}.{field.name}", f"{check.type} needs this argument"))
            continue
        try:
            value, literal = _untyped(check, field)
        except ValueError as wrong:
            problems.append(Problem(f"{place}.{field.name}", str(wrong)))
            continue
        if (
            isinstance(value, str)
            and field.takes == "text"
            and (form := PromptTemplate.read(value)) is not None
        ):
            found.append(Path(field, value, form))
            continue
        if isinstance(value, str) and not literal:
            if value.startswith("$."):
                found.append(Path(field, value, _query(value)))
                continue
            value = value[1:] if value.startswith("\\$.") else value
        if not is_finite(value):
            problems.append(Problem(f"{place}.{field.name}", "NaN and infinity are no JSON numbers"))
            continue
        try:
            literals[field.attribute] = convert(field, value)
            whole = _shown(literals[field.attribute], value)
            shown[field.name] = without_secrets(whole) if field.secrets else whole
        except ValueFault as wrong:
            problems += _misfits(field, value, f"{place}.{field.name}", wrong)
    return literals, shown, found, problems


def _misfits(field: Field, value: Any, place: str, wrong: ValueFault) -> list[Problem]:
    """Each wrong part of a literal, at its own place; where the whole is wrong or may hold a secret, what `convert` says."""
    if not field.secrets and (is_object(value) or is_list(value)):
        inner = problems_in(value, field.type, place, _special)
        if any(one.place != place for one in inner):
            return [Problem(one.place, one.message.replace(", got", " but got")) for one in inner]
    return [Problem(place, str(wrong).removeprefix(f"{field.name}: "))]


def _untyped(check: Check, field: Field) -> tuple[Any, bool]:
    """An argument, and whether it is a literal whatever it looks like."""
    value = check.arguments[field.name]
    if is_object(value) and is_typed(check.type, field.name, value):
        return untyped(value)
    return value, field.literal


def resolve(bound: BoundCheck, document: Any, limits: Limits) -> tuple[dict[str, Any], Fault | None]:
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
    query, name, takes = path.query, path.field.name, path.field.takes
    if isinstance(query, MalformedPath):
        raise PathFault(f"{name}: {query}")
    try:
        if isinstance(query, PromptTemplate):
            return query.fill(document, limits)
        if query.singular and takes == "one" and (value := query.get(document)) is not paths.MISSING:
            return value  # the commonest
        values = query.values(document, max_nodes=limits.max_nodes)
    except PathFault as fault:
        raise PathFault(f"{name}: {fault}") from None
    return values if takes == "nodes" else _taken(path, query, values)


def _taken(path: Path, query: paths.Query, values: list[Any]) -> Any:
    if path.field.takes == "list":
        if len(values) == 1 and is_list(values[0]):
            return values[0]
        if values or not query.singular:
            return values
    elif len(values) == 1:
        return values[0]
    name = path.field.name
    if not values:
        raise PathFault(f"{name}: {path.text} finds nothing")
    raise PathFault(f"{name}: {path.text} finds {len(values)} values, and this argument takes one")


def build(bound: BoundCheck, values: Mapping[str, Any]) -> Checker:
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
    if field.type is Text and type(value) is str:
        return Text(value)
    try:
        return msgspec.convert(value, field.type, dec_hook=_special)
    except msgspec.ValidationError as wrong:
        place, message = place_in(wrong), message_of(wrong, field.type).replace(", got", " but got")
        if not place and " but got" not in message and not field.secrets:
            message += f" but got {shown_value(value)}"
        raise ValueFault(f"{field.name}: {message}" + (f" at `{place}`" if place else "")) from None
    except RecursionError:
        raise ValueFault(f"{field.name}: nested too deeply to be compared") from None


def as_text(value: Any) -> Text:
    """A string is itself, null is refused, anything else is its canonical JSON (decision 19)."""
    if isinstance(value, str):
        return Text(value)
    if value is None:
        raise ValueError("expected text, or a value that can be written as text, but got `null`")
    return Canonical(canonical(value), value)


@lru_cache(maxsize=512)
def fields_of(checker: type[Checker]) -> tuple[Field, ...]:
    described = inspect.type_info(checker)
    assert isinstance(described, inspect.StructType)
    hints = {one.name: one for one in msgspec.structs.fields(checker)}
    return tuple(_field(one, hints[one.name]) for one in described.fields)


def _field(described: inspect.Field, info: FieldInfo) -> Field:
    kind, marked = described.type, _marked(described.type)
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    takes: Takes = "text" if marked.get("template") else "one"
    for part in kind.types if isinstance(kind, inspect.UnionType) else (kind,):
        if isinstance(part, inspect.CustomType) and part.cls is Nodes:
            takes = "nodes"
        elif isinstance(part, inspect.CollectionType):
            takes = "list"
    return Field(
        described.encode_name,
        described.name,
        info.type,
        takes,
        literal=bool(marked.get("literal")),
        secrets=bool(marked.get("secrets")),
        required=described.required,
    )


def _marked(kind: inspect.Type) -> dict[str, Any]:
    """What is said in `Meta(extra=…)`, of the type or of one of those it may be."""
    if isinstance(kind, inspect.Metadata):
        here = cast("dict[str, Any] | None", kind.extra)  # pyright: ignore[reportUnknownMemberType]
        return {**_marked(kind.type), **(here or {})}
    parts = kind.types if isinstance(kind, inspect.UnionType) else ()
    return {name: value for part in parts for name, value in _marked(part).items()}


@lru_cache(maxsize=512)
def _optional(checker: type[Checker]) -> tuple[tuple[Field, FieldInfo], ...]:
    """The arguments that have a default; msgspec takes 200 µs to say so."""
    fields = {field.attribute: field for field in fields_of(checker)}
    return tuple((fields[one.name], one) for one in msgspec.structs.fields(checker) if not one.required)


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
        raise ValueError("expected a path, a string that begins with `$.`")
    return value


def _shown(typed: Any, given: Any) -> Any:
    """A value as it was given; an object with members of its own is shown whole, with their defaults."""
    return msgspec.to_builtins(typed) if isinstance(typed, Struct) else given
