"""
Parts of a context that its source does not hold, such as the text of a trace without content.

`output.metadata.missing` names them, with the reason: `{"output.value": "the spans have no messages"}`. A part that is
named there is not in the document that checks read: a check of it is not measured, and has not failed.
"""

import re
from typing import Any

from assay.errors import PathFault
from assay.jsonpath import Query
from assay.protocol.json_types import JSON, is_object

MISSING = "missing"
_PART = re.compile(r"(test_case|output)(\.[A-Za-z_]+){1,2}\Z")
REASON = 200  # characters


def without_missing(document: JSON) -> JSON:
    """The document without the parts that are named as missing."""
    found: JSON = {name: dict(part) for name, part in document.items()}
    for part in found.values():
        if is_object(part.get("metadata")):
            part["metadata"] = dict(part["metadata"])
    for path in _named(document):
        *parents, last = path.split(".")
        node: Any = found
        for name in parents:
            node = node.get(name) if is_object(node) else None
        if is_object(node):
            node.pop(last, None)
    return found


def require_recorded(document: Any, query: Query) -> list[Any]:
    """What a path finds that found nothing. Raises PathFault if its source says why."""
    for path, reason in _named(document).items():
        part = tuple(path.split("."))
        if query.prefix[: len(part)] == part:
            why = reason[:REASON] if isinstance(reason, str) else "it is missing"
            raise PathFault(f"{query.text} finds nothing: {why}")
    return []


def _named(document: Any) -> JSON:
    output = document.get("output") if is_object(document) else None
    metadata = output.get("metadata") if is_object(output) else None
    missing = metadata.get(MISSING) if is_object(metadata) else None
    if not is_object(missing):
        return {}
    return {path: why for path, why in missing.items() if _PART.match(path) and path != "test_case.id"}
