"""
Reads the arguments of checks: literals, paths, and the values that paths yield (FEP 2.3.2, FEP-12 to FEP-17).

`bind` reads a check once, and refuses what is wrong in every case. `resolve` and `build` run per case.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, inspect
from msgspec.structs import FieldInfo

from assay import jsonpath as paths
from assay.checks.argument_forms import MarkedText, PromptTemplate, display_value, is_check_value, unwrap
from assay.checks.checker import Checker, InvalidArgument, Nodes, Text, as_text
from assay.checks.missing_parts import require_recorded
from assay.checks.registry import Registry
from assay.concurrency.loop_budget import spend
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
from assay.protocol.evaluation import Check
from assay.protocol.json_types import is_finite, is_list, is_object
from assay.protocol.json_types import preview as shown_value
from assay.protocol.redaction import without_secrets
from assay.protocol.validation_messages import message_of, path_in, problems_in

Takes = Literal["one", "list", "nodes", "text"]


class Field(NamedTuple):
    """One argument of a check."""

    name: str  # on the wire
    attribute: str  # in the class
    type: Any
    takes: Takes
    literal: bool  # opaque or a template: never a path
    secrets: bool  # it may hold secrets, which results do not show
    hidden: bool  # results do not show it: the case itself
    marked: bool  # a prompt that knows its fixed part
    required: bool


class PathArgument(NamedTuple):
    """An argument that depends on the case. A malformed path is an error of each case (FEP-16)."""

    field: Field
    text: str
    query: paths.Query | MalformedPath | PromptTemplate

    @property
    def display_path(self) -> str | UnsetType:
        """The path as resolved_arguments shows it; UNSET for a template."""
        return UNSET if isinstance(self.query, PromptTemplate) else self.text


class BoundCheck(Struct, frozen=True):
    """A check of a request with its class, its typed literals and its compiled paths."""

    checker: type[Checker]
    literals: dict[str, Any]  # by attribute, typed, defaults included
    displayed_literals: dict[str, Any]  # by wire name, as resolved_arguments shows them
    paths: tuple[PathArgument, ...]
    order: tuple[str, ...]  # wire names of those that results show, in the order of the fields
    name: str = ""  # FEP-45

    @property
    def label(self) -> str:
        """The name of the check, or its type."""
        return self.name or self.checker.type

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that every result of this check has."""
        version = {"check_version": self.checker.version}
        return {**version, "check_name": self.name} if self.name else version


def bind(check: Check, registry: Registry, check_path: str, services: Services | None = None) -> BoundCheck:
    """
    Bind a check to its class. InvalidRequest has all problems with their places: `checks[2].arguments.pattern`.

    With `services`, it also validates that this host can run the check. On an event loop it may raise OverBudget.
    """
    spend()
    checker, unversioned = _find_checker(check, registry, check_path)
    try:
        fields = fields_of(checker)
    except Exception as surprise:  # the fields are foreign code: one may have an unsupported type
        raise InvalidRequest(
            Problem(check_path, f"expected arguments that {checker.type} can read, got {surprise}")
        ) from surprise
    if checker.default_paths:
        check = msgspec.structs.replace(check, arguments={**checker.default_paths, **check.arguments})
    literals, displayed, path_arguments, problems = _read(check, fields, f"{check_path}.arguments")
    problems = [*unversioned, *problems]
    if services is not None and services.persists_requests:
        problems += _secrets(check, fields, displayed, f"{check_path}.arguments")
    bound_attributes = {*literals, *(path.field.attribute for path in path_arguments)}
    for field, info in _optional(checker):
        if field.attribute not in bound_attributes and field.name not in check.arguments:
            default = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
            literals[field.attribute] = default
            if default is not UNSET:
                displayed[field.name] = display_value(default, default)
    problems = _with_step(problems, lambda: checker.validate_literals(literals), checker, check_path)
    if not problems and not path_arguments:
        problems = _with_step(problems, lambda: checker(**literals), checker, check_path)
    if services is not None:
        problems = _with_step(
            problems, lambda: checker.validate_host(literals, services), checker, check_path
        )
    if problems:
        raise InvalidRequest(problems)
    return BoundCheck(
        checker,
        literals,
        displayed,
        tuple(path_arguments),
        tuple(field.name for field in fields if not field.hidden),
        check.name or "",
    )


def _with_step(
    problems: list[Problem], step: Callable[[], object], checker: type[Checker], path: str
) -> list[Problem]:
    """
    The problems, and those that a step finds: `validate_literals`, the constructor, or `validate_host`.
    After a problem literals are missing: what the step finds of invalid arguments, and what it raises, does not count.
    """
    try:
        step()
        return problems
    except InvalidRequest as refusal:
        more = [Problem(f"{path}.arguments.{one.place}".rstrip("."), one.message) for one in refusal.problems]
    except UsageError as wrong:
        more = [Problem(path, str(wrong))]
    except InvalidArgument as wrong:
        more = [Problem(f"{path}.arguments.{wrong.argument}", str(wrong))]
    except (ValueError, TypeError) as wrong:
        more = [Problem(f"{path}.arguments", str(wrong))]
    except Exception as surprise:  # validate_literals, __post_init__ and validate_host are foreign code
        message = f"{checker.type} failed with {type(surprise).__name__}: {surprise}"
        if not problems:
            raise InvalidRequest(Problem(f"{path}.arguments", message)) from surprise
        more = []
    invalid_arguments = {_argument_name(one.place, path) for one in problems}
    return problems + [
        one for one in more if (_argument_name(one.place, path) or "-") not in invalid_arguments
    ]


def _argument_name(path: str, check_path: str) -> str:
    """The name of the argument that a path leads into, or "" if it does not lead into an argument."""
    inside = path.removeprefix(f"{check_path}.arguments.")
    return "" if inside == path else re.split(r"[.\[]", inside, maxsplit=1)[0]


def _secrets(
    check: Check, fields: tuple[Field, ...], display_values: dict[str, Any], path: str
) -> Iterable[Problem]:
    """A problem for each argument with a secret, which must not be stored. The message does not quote the secret."""
    for field in fields:
        if field.secrets and display_values.get(field.name, UNSET) not in (
            UNSET,
            check.arguments.get(field.name),
        ):
            message = "expected no secret, which the server would store; the operator configures it instead"
            yield Problem(f"{path}.{field.name}", message)


def _find_checker(check: Check, registry: Registry, path: str) -> tuple[type[Checker], tuple[Problem, ...]]:
    """The class of a check. If only the version is unknown: the newest version, and the problem."""
    version = None if check.version is UNSET else check.version
    try:
        return registry.find(check.type, version, path), ()
    except InvalidRequest as refusal:
        if version is None or check.type not in registry.types:
            raise
        return registry.find(check.type, None, path), refusal.problems


def _read(
    check: Check, fields: tuple[Field, ...], path: str
) -> tuple[dict[str, Any], dict[str, Any], list[PathArgument], list[Problem]]:
    """The literals by attribute, the displayed literals by wire name, the paths, and the problems."""
    names = [field.name for field in fields]
    problems = [
        Problem(f"{path}.{name}", f"{check.type} takes no such argument; it takes {', '.join(names)}")
        for name in check.arguments
        if name not in names
    ]
    literals: dict[str, Any] = {}
    displayed: dict[str, Any] = {}
    path_arguments: list[PathArgument] = []
    for field in fields:
        if field.name not in check.arguments:
            if field.required:
                problems.append(Problem(f"{path}.{field.name}", f"{check.type} needs this argument"))
            continue
        try:
            value, literal = _unwrap_typed(check, field)
        except ValueError as wrong:
            problems.append(Problem(f"{path}.{field.name}", str(wrong)))
            continue
        if (
            isinstance(value, str)
            and field.takes == "text"
            and (template := PromptTemplate.read(value)) is not None
        ):
            path_arguments.append(PathArgument(field, value, template))
            continue
        if isinstance(value, str) and not literal:
            if value.startswith("$."):
                path_arguments.append(PathArgument(field, value, _query(value)))
                continue
            value = value[1:] if value.startswith("\\$.") else value
        if not is_finite(value):
            problems.append(Problem(f"{path}.{field.name}", "NaN and infinity are not JSON numbers"))
            continue
        try:
            literals[field.attribute] = convert(field, value)
            shown = display_value(literals[field.attribute], value)
            displayed[field.name] = without_secrets(shown) if field.secrets else shown
        except ValueFault as wrong:
            problems += _literal_problems(field, value, f"{path}.{field.name}", wrong)
    return literals, displayed, path_arguments, problems


def _literal_problems(field: Field, value: Any, path: str, fault: ValueFault) -> list[Problem]:
    """A problem for each invalid part of a literal; the fault of `convert` for a secret or an invalid whole."""
    if not field.secrets and (is_object(value) or is_list(value)):
        inner = problems_in(value, field.type, path, _dec_hook)
        if any(one.place != path for one in inner):
            return [Problem(one.place, one.message.replace(", got", " but got")) for one in inner]
    return [Problem(path, str(fault).removeprefix(f"{field.name}: "))]


def _unwrap_typed(check: Check, field: Field) -> tuple[Any, bool]:
    """The value of an argument, and whether it is a literal even if it looks like a path."""
    value = check.arguments[field.name]
    if is_object(value) and is_check_value(check.type, field.name, value):
        return unwrap(value)
    return value, field.literal


def resolve(bound: BoundCheck, document: Any, limits: Limits) -> tuple[dict[str, Any], Fault | None]:
    """The values of the paths by wire name, and the first fault in the order of the arguments, or None."""
    values: dict[str, Any] = {}
    first_fault: Fault | None = None
    for path in bound.paths:
        try:
            values[path.field.name] = follow(path, document, limits)
        except PathFault as fault:
            first_fault = first_fault or fault
    return values, first_fault


def follow(path: PathArgument, document: Any, limits: Limits) -> Any:
    """Follow a path. Returns one value or a list of values, as the argument takes it (FEP-14, FEP-15)."""
    query, name, takes = path.query, path.field.name, path.field.takes
    if isinstance(query, MalformedPath):
        raise PathFault(f"{name}: {query}")
    try:
        if isinstance(query, PromptTemplate):
            return query.fill(document, limits)
        if query.singular and takes == "one" and (value := query.get(document)) is not paths.MISSING:
            return value  # the most common case
        values = query.values(document, max_nodes=limits.max_nodes) or require_recorded(document, query)
    except PathFault as fault:
        raise PathFault(f"{name}: {fault}") from None
    return values if takes == "nodes" else _select(path, query, values)


def _select(path: PathArgument, query: paths.Query, values: list[Any]) -> Any:
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
    raise PathFault(f"{name}: {path.text} finds {len(values)} values; this argument takes one")


def build(bound: BoundCheck, values: Mapping[str, Any]) -> Checker:
    """Build the check with all its arguments. Raises ValueFault for a value of the wrong type."""
    typed = {path.field.attribute: _typed(path, values[path.field.name]) for path in bound.paths}
    try:
        return bound.checker(**bound.literals, **typed)
    except (ValueError, TypeError) as wrong:
        raise ValueFault(str(wrong)) from None
    except Exception as surprise:  # __post_init__ is foreign code
        kind = type(surprise).__name__
        raise ForeignFault(f"{bound.checker.type} failed with {kind}: {surprise}") from surprise


def _typed(path: PathArgument, value: Any) -> Any:
    typed = convert(path.field, value)
    if path.field.marked and isinstance(path.query, PromptTemplate):
        return MarkedText(typed, path.query.fixed)
    return typed


def convert(field: Field, value: Any) -> Any:
    if field.type is Text and type(value) is str:
        return Text(value)
    try:
        return msgspec.convert(value, field.type, dec_hook=_dec_hook)
    except msgspec.ValidationError as wrong:
        place, message = path_in(wrong), message_of(wrong, field.type).replace(", got", " but got")
        if not place and " but got" not in message and not field.secrets:
            message += f" but got {shown_value(value)}"
        raise ValueFault(f"{field.name}: {message}" + (f" at `{place}`" if place else "")) from None
    except RecursionError:
        raise ValueFault(f"{field.name}: nested too deeply to be compared") from None


@lru_cache(maxsize=512)
def fields_of(checker: type[Checker]) -> tuple[Field, ...]:
    type_info = inspect.type_info(checker)
    assert isinstance(type_info, inspect.StructType)
    hints = {one.name: one for one in msgspec.structs.fields(checker)}
    return tuple(_field(one, hints[one.name]) for one in type_info.fields)


def _field(described_field: inspect.Field, info: FieldInfo) -> Field:
    kind, extra = described_field.type, _meta_extra(described_field.type)
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    takes: Takes = "text" if extra.get("template") else "one"
    for part in kind.types if isinstance(kind, inspect.UnionType) else (kind,):
        if isinstance(part, inspect.CustomType) and part.cls is Nodes:
            takes = "nodes"
        elif isinstance(part, inspect.CollectionType):
            takes = "list"
    return Field(
        described_field.encode_name,
        described_field.name,
        info.type,
        takes,
        literal=bool(extra.get("literal")),
        secrets=bool(extra.get("secrets")),
        hidden=bool(extra.get("hidden")),
        marked=bool(extra.get("marked")),
        required=described_field.required,
    )


def _meta_extra(kind: inspect.Type) -> dict[str, Any]:
    """The `Meta(extra=…)` of a type, or of the members of a union."""
    if isinstance(kind, inspect.Metadata):
        here = cast("dict[str, Any] | None", kind.extra)  # pyright: ignore[reportUnknownMemberType]
        return {**_meta_extra(kind.type), **(here or {})}
    parts = kind.types if isinstance(kind, inspect.UnionType) else ()
    return {name: value for part in parts for name, value in _meta_extra(part).items()}


@lru_cache(maxsize=512)
def _optional(checker: type[Checker]) -> tuple[tuple[Field, FieldInfo], ...]:
    """The arguments that have a default. Cached, because msgspec takes 200 µs."""
    fields = {field.attribute: field for field in fields_of(checker)}
    return tuple((fields[one.name], one) for one in msgspec.structs.fields(checker) if not one.required)


def _query(text: str) -> paths.Query | MalformedPath:
    try:
        return paths.compile(text)
    except MalformedPath as malformed:
        return malformed


def _dec_hook(kind: type, value: Any) -> Any:
    if kind is Text:
        return as_text(value)
    if kind is Nodes:
        if is_list(value):
            return Nodes(value)
        raise ValueError("expected a path, a string that begins with `$.`")
    return value
