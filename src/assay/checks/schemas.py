"""JSON Schemas that come from outside: checked once, bounded, and never fetching anything."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.unfolding import MOST, Unfolding, measured
from assay.errors import ValueFault

LISTED = 100_000  # steps up to which every error is told: each of them is kept until all are


@lru_cache(maxsize=256)
def validator_for(schema: bytes) -> Any:
    """What tells whether a value fits; a ValueError where the schema is none."""
    import jsonschema_rs  # a lazy door: 48 ms for checks that most runs do not use

    def refuse(address: str) -> Any:
        raise ValueError(f"{address!r} is outside the schema, and nothing is fetched")

    document: Any = msgspec.json.decode(schema)
    bounded = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
    try:
        made = jsonschema_rs.validator_cls_for(document)(document, retriever=refuse, pattern_options=bounded)
    except jsonschema_rs.ValidationError as wrong:
        raise ValueError(f"not a JSON Schema: {wrong.message}") from None
    except (jsonschema_rs.ReferencingError, ValueError, OSError) as wrong:
        raise ValueError(f"not a JSON Schema that can be used: {str(wrong).splitlines()[0]}") from None
    return Bounded(made, document) if b'Ref"' in schema or b'$ref"' in schema or b"\\u" in schema else made


class Bounded:
    """A validator that first counts what its references could make it do, and does not begin what has no end."""

    def __init__(self, validator: Any, schema: Any) -> None:
        self._validator, self._unfolding = validator, Unfolding(schema)

    def is_valid(self, value: Any) -> bool:
        self._count(value)
        return self._validator.is_valid(value)

    def iter_errors(self, value: Any) -> Iterator[Any]:
        if self._count(value) <= LISTED:
            return self._validator.iter_errors(value)
        return iter(() if self._validator.is_valid(value) else (Unlisted(),))

    def _count(self, value: Any) -> int:
        depth, size = measured(value)
        work = self._unfolding.work(depth, size)
        if work > MOST:
            raise ValueFault(
                f"schema: its references could take more than {MOST:,} steps with a value that is {depth} deep and has"
                f" {size:,} parts; let fewer of them lead to the same place"
            )
        return work


class Unlisted(Struct, frozen=True):
    """That it does not fit, where to say everything would be too much."""

    instance_path: tuple[str, ...] = ()
    message: str = "it does not fit; there is too much to try to say where"
