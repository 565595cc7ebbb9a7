"""JSON Schemas that come from outside: checked once, bounded, and never fetching anything."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from assay.cache import memoize
from assay.checks.schema_cost import MAX_STEPS, SchemaCost, Size, longest_keyword, measure
from assay.concurrency.workers import batch
from assay.errors import ValueFault

MAX_SCHEMA_BYTES = 1 << 20  # bytes of a schema
INLINE_STEPS = 200_000  # steps of a validation that runs in place: 5 ms
LISTING_STEPS = 100_000  # limit of the steps for which errors are listed: all errors are in memory at once…
LISTING_BYTES = 32 << 20  # …with their messages, whose limit this is
MAX_MESSAGE = 1_000  # characters of a message
BACKTRACKING_CHARACTERS, BACKTRACKING_VALUES = 500, 20  # characters, and values, for patterns that backtrack
CHARACTERS_PER_STEP = 64  # for patterns that do not backtrack
CACHE_BYTES = 64 << 20  # bytes of all cached schemas


def _estimated_bytes(schema: bytes) -> int:
    """The size of a cached validator. Measured: 62 bytes per byte, and half a megabyte for a pattern that was used."""
    return 64 * len(schema) + (schema.count(b'"pattern') << 19)


@memoize(CACHE_BYTES, _estimated_bytes, batch.owner.get)
def validator_for(schema: bytes) -> "Validator":
    """The validator of a schema. Raises ValueError if the schema is invalid."""
    import jsonschema_rs  # deferred import: 48 ms for checks that most runs do not use

    if len(schema) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema has {len(schema):,} bytes; the limit is {MAX_SCHEMA_BYTES:,}")

    def refuse(address: str) -> Any:
        raise ValueError(f"{address!r} is outside the schema; external references are not fetched")

    document: Any = msgspec.json.decode(schema)
    kind = jsonschema_rs.validator_cls_for(document)
    backtracks = False
    try:
        try:
            validator = kind(document, retriever=refuse, pattern_options=jsonschema_rs.RegexOptions())
        except (
            jsonschema_rs.ValidationError
        ):  # possibly because a pattern has look-around or a back-reference
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


UNLISTED_VIOLATION = SchemaViolation(
    (), "the value is not valid; its errors are too many or too deep to list"
)


class Validator:
    """Validates values against a schema. It bounds the steps first, and refuses a value that could take too many."""

    def __init__(self, validator: Any, schema: Any, size: int, *, backtracks: bool) -> None:
        self._validator, self._schema, self._size, self._backtracks = validator, schema, size, backtracks

    @cached_property  # computed with the first value: it takes long for a large schema
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
        """The first violations; UNLISTED_VIOLATION alone if there may be too many to hold."""
        errors = self.iter_errors(value)
        if errors is None:
            return [UNLISTED_VIOLATION]
        return [
            SchemaViolation(tuple(one.instance_path), shorten(one.message)) for one in islice(errors, limit)
        ]

    def iter_errors(self, value: Any) -> Iterable[Any] | None:
        """The errors of the library; None if the value is not valid and there may be too many errors to hold."""
        size = measure(value)
        work = self._count_steps(size)
        if self._validator.is_valid(value):
            return ()
        # a message quotes the invalid part of the value and the part of the schema that it violates
        quoted = self._cost.steps(size.depth) * (size.depth + 1) * (size.characters + 8 * size.parts)
        if work > LISTING_STEPS or quoted + work * self._quoted_bytes > LISTING_BYTES:
            return None
        try:
            return self._validator.iter_errors(value)
        except ValueError:  # a value of more than 255 levels: the library converts it to quote it
            return None

    def _count_steps(self, size: Size) -> int:
        work = self._cost.total_steps(size.depth, size.parts)
        if work > MAX_STEPS:
            raise ValueFault(
                f"schema: validating a value of depth {size.depth} with {size.parts:,} parts could take more than"
                f" {MAX_STEPS:,} steps; make the schema smaller, or let fewer references lead to the same place"
            )
        return work


def shorten(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"


def format_path(path: Sequence[str | int]) -> str:
    """`['a'][0]`."""
    return "".join(f"[{part!r}]" for part in path)
