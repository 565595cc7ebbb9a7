"""JSON Schemas that come from outside: checked once, bounded, and never fetching anything."""

from functools import lru_cache
from typing import Any

import msgspec


@lru_cache(maxsize=256)
def validator_for(schema: bytes) -> Any:
    """What tells whether a value fits; a ValueError where the schema is none."""
    import jsonschema_rs  # a lazy door: 48 ms for checks that most runs do not use

    def refuse(address: str) -> Any:
        raise ValueError(f"{address!r} is outside the schema, and nothing is fetched")

    document: Any = msgspec.json.decode(schema)
    bounded = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
    try:
        return jsonschema_rs.validator_cls_for(document)(document, retriever=refuse, pattern_options=bounded)
    except jsonschema_rs.ValidationError as wrong:
        raise ValueError(f"not a JSON Schema: {wrong.message}") from None
    except (jsonschema_rs.ReferencingError, ValueError, OSError) as wrong:
        raise ValueError(f"not a JSON Schema that can be used: {str(wrong).splitlines()[0]}") from None
