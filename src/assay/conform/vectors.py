"""
The vectors of FEP: a request, and what must come of it. An implementation in any language can read the files.

`conformance/README.md` describes them.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Literal

import msgspec

from assay.conform.json_values import Document, is_list, is_object, same, shown
from assay.conform.result_laws import LAWS

OPTIONAL = frozenset({"resolved_arguments", "experiment"})  # a result may leave them out


class Vector(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One row of a file. It has `expected` or `outcome`."""

    name: str
    reference: str
    text: str
    level: Literal[1, 2, 3]
    reason: str
    request: Document
    expected: Document | None = None
    outcome: Literal["refused", "rejected"] | None = None
    decision: str | None = None
    json_only: bool = False


class VectorFile(msgspec.Struct, forbid_unknown_fields=True):
    """The vectors of a topic."""

    topic: str
    vectors: list[Vector]


def vector_files() -> list[VectorFile]:
    """Every file, by topic."""
    folder = files("assay.conform") / "fep_vectors"
    found = [one for one in folder.iterdir() if one.name.endswith(".json")]
    decode = msgspec.json.Decoder(VectorFile).decode
    return sorted((decode(one.read_bytes()) for one in found), key=lambda file: file.topic)


def differences(vector: Vector, result: Document | None) -> Iterator[str]:
    """What is not as the vector and the laws of results say."""
    yield from unlike(vector, result)
    if vector.outcome is None and result is not None:
        for law in LAWS:
            yield from law.find(vector.request, result)


def unlike(vector: Vector, result: Document | None) -> Iterator[str]:
    """What is not as the vector says. `result` is None if the request was refused as a whole."""
    if vector.outcome is not None:
        if result is not None and (vector.outcome == "refused" or not _rejected(result)):
            yield "expected a refusal, got a result"
    elif result is None:
        yield "expected a result, got a refusal"
    else:
        yield from _unlike("the result", vector.expected, result)


def _rejected(result: Document) -> bool:
    """Whether every check has a validation error."""
    try:
        checks = [check for case in result["results"] for check in case["check_results"]]
        return bool(checks) and all(
            one["status"] == "error" and one["error"]["type"] == "validation_error" for one in checks
        )
    except (KeyError, TypeError):
        return False


def _unlike(place: str, expected: Any, found: Any) -> Iterator[str]:
    """An object has at least the expected members, a list exactly the expected elements. {} is exactly {}."""
    if is_object(expected) and expected and is_object(found):
        for name, value in expected.items():
            if name in found:
                yield from _unlike(f"{place}.{name}", value, found[name])
            elif name not in OPTIONAL:
                yield f"{place}: expected the member {name}, got none"
    elif is_list(expected) and is_list(found):
        if len(expected) != len(found):
            yield f"{place}: expected {len(expected)} elements, got {len(found)}"
        for at, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from _unlike(f"{place}[{at}]", one, other)
    elif not same(expected, found):
        yield f"{place}: expected {shown(expected)}, got {shown(found)}"
