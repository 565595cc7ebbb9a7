"""JSON Schemas that come from outside: checked once, bounded, and never fetching anything."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.schema_cost import MOST, SchemaCost, Size, longest_keyword, measured
from assay.errors import ValueFault
from assay.protocol.cache import memoize
from assay.workers import pool

LONGEST = 1 << 20  # bytes of a schema
SHORT = 200_000  # steps that are done where the check stands, 5 ms
LISTED = 100_000  # steps up to which every error is listed: each of them is kept until all are…
LISTED_BYTES = 32 << 20  # …with its message
SAID = 1_000  # characters of a message
TEXT, TEXTS = 500, 20  # characters, and values, for patterns that backtrack
NEEDLE = 64  # characters a step, for those that do not
CACHED = 64 << 20  # bytes of all schemas that are remembered


def _held(schema: bytes) -> int:
    """Measured: 62 bytes for one, and half a megabyte for a pattern that is in use."""
    return 64 * len(schema) + (schema.count(b'"pattern') << 19)


@memoize(CACHED, _held, pool.owner.get)
def validator_for(schema: bytes) -> "Validator":
    """What tells whether a value fits; a ValueError where the schema is none."""
    import jsonschema_rs  # deferred import: 48 ms for checks that most runs do not use

    if len(schema) > LONGEST:
        raise ValueError(f"the schema has {len(schema):,} bytes; at most {LONGEST:,} are taken")

    def refuse(address: str) -> Any:
        raise ValueError(f"{address!r} is outside the schema, and nothing is fetched")

    document: Any = msgspec.json.decode(schema)
    kind = jsonschema_rs.validator_cls_for(document)
    backtracks = False
    try:
        try:
            made = kind(document, retriever=refuse, pattern_options=jsonschema_rs.RegexOptions())
        except jsonschema_rs.ValidationError:  # perhaps for a pattern that looks around, or back
            bounded = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
            made = kind(document, retriever=refuse, pattern_options=bounded)
            backtracks = True
    except jsonschema_rs.ValidationError as wrong:
        raise ValueError(f"not a JSON Schema: {shortened(wrong.message)}") from None
    except (jsonschema_rs.ReferencingError, ValueError, OSError) as wrong:
        said = str(wrong).splitlines()[0]
        raise ValueError(f"not a JSON Schema that can be used: {shortened(said)}") from None
    return Validator(made, document, len(schema), backtracks=backtracks)


class Misfit(Struct, frozen=True):
    """One thing in a value that does not fit."""

    path: tuple[str | int, ...]
    message: str


UNLISTED = Misfit((), "it does not fit; there is too much to try to say where")


class Validator:
    """A schema that first counts what it could do with a value, and does not begin what has no end."""

    def __init__(self, made: Any, schema: Any, size: int, *, backtracks: bool) -> None:
        self._made, self._schema, self._size, self._backtracks = made, schema, size, backtracks

    @cached_property  # not before a value comes: of a large schema it takes a while
    def _unfolding(self) -> SchemaCost:
        text = msgspec.json.encode(self._schema)
        return SchemaCost(self._schema, linked=b'Ref"' in text or b'$ref"' in text)

    @cached_property
    def _repeated(self) -> int:
        return self._size if b'"not"' in msgspec.json.encode(self._schema) else longest_keyword(self._schema)

    def heavy(self, value: Any) -> bool:
        """Whether it may take longer than an event loop has time."""
        size = measured(value)
        if self._backtracks and (size.characters > TEXT or size.parts > TEXTS):
            return True
        texts = size.characters // NEEDLE * self._unfolding.steps(size.depth)
        return self._count(size) + texts > SHORT

    def is_valid(self, value: Any) -> bool:
        self._count(measured(value))
        return self._made.is_valid(value)

    def errors(self, value: Any, most: int) -> list[Misfit]:
        """The first of them. Where there may be too many to hold, that it does not fit."""
        found = self.listed(value)
        if found is None:
            return [UNLISTED]
        return [Misfit(tuple(one.instance_path), shortened(one.message)) for one in islice(found, most)]

    def listed(self, value: Any) -> Iterable[Any] | None:
        """The errors as the library has them; None: it does not fit, and there may be too many to hold."""
        size = measured(value)
        work = self._count(size)
        if self._made.is_valid(value):
            return ()
        # a message repeats the part of the value that it is about, and what was asked of it
        repeated = self._unfolding.steps(size.depth) * (size.depth + 1) * (size.characters + 8 * size.parts)
        if work > LISTED or repeated + work * self._repeated > LISTED_BYTES:
            return None
        return self._made.iter_errors(value)

    def _count(self, size: Size) -> int:
        work = self._unfolding.work(size.depth, size.parts)
        if work > MOST:
            raise ValueFault(
                f"schema: it could take more than {MOST:,} steps with a value that is {size.depth} deep and has"
                f" {size.parts:,} parts; make it smaller, or let fewer of its references lead to the same place"
            )
        return work


def shortened(message: str) -> str:
    return message if len(message) <= SAID else message[:SAID] + "…"


def place_of(path: Sequence[str | int]) -> str:
    """`['a'][0]`."""
    return "".join(f"[{part!r}]" for part in path)
