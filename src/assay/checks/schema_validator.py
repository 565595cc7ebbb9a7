"""JSON Schemas that come from outside: checked once, bounded, and never fetching anything."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.schema_cost import MAX_STEPS, SchemaCost, Size, longest_keyword, measure
from assay.errors import ValueFault
from assay.protocol.cache import memoize
from assay.workers import pool

MAX_SCHEMA_BYTES = 1 << 20  # bytes of a schema
INLINE_STEPS = 200_000  # steps that are done where the check stands, 5 ms
LISTING_STEPS = 100_000  # steps up to which every error is listed: each of them is kept until all are…
LISTING_BYTES = 32 << 20  # …with its message
MAX_MESSAGE = 1_000  # characters of a message
BACKTRACKING_CHARACTERS, BACKTRACKING_VALUES = 500, 20  # characters, and values, for patterns that backtrack
CHARACTERS_PER_STEP = 64  # characters a step, for those that do not
CACHE_BYTES = 64 << 20  # bytes of all schemas that are remembered


def _estimated_bytes(schema: bytes) -> int:
    """Measured: 62 bytes for one, and half a megabyte for a pattern that is in use."""
    return 64 * len(schema) + (schema.count(b'"pattern') << 19)


@memoize(CACHE_BYTES, _estimated_bytes, pool.owner.get)
def validator_for(schema: bytes) -> "Validator":
    """The validator of a schema. Raises ValueError if the schema is invalid."""
    import jsonschema_rs  # deferred import: 48 ms for checks that most runs do not use

    if len(schema) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema has {len(schema):,} bytes; at most {MAX_SCHEMA_BYTES:,} are taken")

    def refuse(address: str) -> Any:
        raise ValueError(f"{address!r} is outside the schema; external references are not fetched")

    document: Any = msgspec.json.decode(schema)
    kind = jsonschema_rs.validator_cls_for(document)
    backtracks = False
    try:
        try:
            validator = kind(document, retriever=refuse, pattern_options=jsonschema_rs.RegexOptions())
        except jsonschema_rs.ValidationError:  # perhaps for a pattern that looks around, or back
            backtracking_options = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
            validator = kind(document, retriever=refuse, pattern_options=backtracking_options)
            backtracks = True
    except jsonschema_rs.ValidationError as wrong:
        raise ValueError(f"not a JSON Schema: {shorten(wrong.message)}") from None
    except (jsonschema_rs.ReferencingError, ValueError, OSError) as wrong:
        message = str(wrong).splitlines()[0]
        raise ValueError(f"not a JSON Schema that can be used: {shorten(message)}") from None
    return Validator(validator, document, len(schema), backtracks=backtracks)


class SchemaViolation(Struct, frozen=True):
    """One violation of a schema: its path in the value, and the message."""

    path: tuple[str | int, ...]
    message: str


UNLISTED_VIOLATION = SchemaViolation((), "the value is not valid; there are too many errors to list")


class Validator:
    """Validates values against a schema. It bounds the steps first, and refuses a value that could take too many."""

    def __init__(self, validator: Any, schema: Any, size: int, *, backtracks: bool) -> None:
        self._validator, self._schema, self._size, self._backtracks = validator, schema, size, backtracks

    @cached_property  # not before a value comes: of a large schema it takes a while
    def _cost(self) -> SchemaCost:
        text = msgspec.json.encode(self._schema)
        return SchemaCost(self._schema, has_references=b'Ref"' in text or b'$ref"' in text)

    @cached_property
    def _quoted_bytes(self) -> int:
        return self._size if b'"not"' in msgspec.json.encode(self._schema) else longest_keyword(self._schema)

    def is_expensive(self, value: Any) -> bool:
        """Whether validation may take too long for an event loop."""
        size = measure(value)
        if self._backtracks and (
            size.characters > BACKTRACKING_CHARACTERS or size.parts > BACKTRACKING_VALUES
        ):
            return True
        texts = size.characters // CHARACTERS_PER_STEP * self._cost.steps(size.depth)
        return self._count_steps(size) + texts > INLINE_STEPS

    def is_valid(self, value: Any) -> bool:
        self._count_steps(measure(value))
        return self._validator.is_valid(value)

    def errors(self, value: Any, limit: int) -> list[SchemaViolation]:
        """The first of them. Where there may be too many to hold, that it does not fit."""
        errors = self.iter_errors(value)
        if errors is None:
            return [UNLISTED_VIOLATION]
        return [
            SchemaViolation(tuple(one.instance_path), shorten(one.message)) for one in islice(errors, limit)
        ]

    def iter_errors(self, value: Any) -> Iterable[Any] | None:
        """The errors as the library has them; None: it does not fit, and there may be too many to hold."""
        size = measure(value)
        work = self._count_steps(size)
        if self._validator.is_valid(value):
            return ()
        # a message repeats the part of the value that it is about, and what was asked of it
        quoted = self._cost.steps(size.depth) * (size.depth + 1) * (size.characters + 8 * size.parts)
        if work > LISTING_STEPS or quoted + work * self._quoted_bytes > LISTING_BYTES:
            return None
        return self._validator.iter_errors(value)

    def _count_steps(self, size: Size) -> int:
        work = self._cost.work(size.depth, size.parts)
        if work > MAX_STEPS:
            raise ValueFault(
                f"schema: it could take more than {MAX_STEPS:,} steps with a value that is {size.depth} deep and has"
                f" {size.parts:,} parts; make it smaller, or let fewer of its references lead to the same place"
            )
        return work


def shorten(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"


def format_path(path: Sequence[str | int]) -> str:
    """`['a'][0]`."""
    return "".join(f"[{part!r}]" for part in path)
