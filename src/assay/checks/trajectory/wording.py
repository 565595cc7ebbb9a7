"""Calls and patterns in words."""

from collections.abc import Sequence

import msgspec

from assay.protocol.evaluation import CallPattern
from assay.protocol.json_types import JSON

NAMED = 10  # calls that a sentence has
LONGEST = 80  # characters of a value


def pattern_document(pattern: CallPattern) -> JSON:
    """A pattern as the suite or the request has it."""
    return msgspec.to_builtins(pattern)


def call_text(one: JSON) -> str:
    """`orders with {"id":17}`, `orders that fits the schema`."""
    words = [str(one["tool"])[:300]]
    if one.get("arguments"):
        words.append(f"with {_short(one['arguments'])}")
    if "schema" in one:
        words.append("that fits its schema")
    if "check" in one:
        words.append(f"that passes {one['check']['type']}")
    return " ".join(words)


def calls_text(calls: Sequence[JSON], join: str = " and of ") -> str:
    more = f" and {len(calls) - NAMED:,} more" if len(calls) > NAMED else ""
    return join.join(map(call_text, calls[:NAMED])) + more


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
