"""What a check is, takes and answers, for a catalogue of checks."""

import inspect
import logging
import sys
from typing import Any

from assay.checks.arguments import fields_of
from assay.checks.checker import Checker, argument_schema
from assay.protocol.operations import CheckDescription

PATH = {"type": "string", "pattern": r"^\$\.", "description": "A JSONPath into the context (RFC 9535)."}
log = logging.getLogger("assay.checks")


def describe(checker: type[Checker]) -> CheckDescription:
    return CheckDescription(
        type=checker.type,
        version=checker.version,
        description=_description(checker),
        arguments=_arguments(checker),
        results=checker.results_schema,
    )


def _arguments(checker: type[Checker]) -> dict[str, Any]:
    """The argument schema of a check, which also accepts a path wherever the check does (FEP-12)."""
    try:
        schema = argument_schema(checker)
        literal = {field.name for field in fields_of(checker) if field.literal}
    except Exception as surprise:  # noqa: BLE001  # the fields of a check are foreign code, and some have no schema
        log.warning("check %s: no JSON schema for its arguments: %s", checker.type, surprise)
        return {"type": "object"}
    parts: dict[str, Any] = schema.pop("$defs")
    own: dict[str, Any] = parts.pop(schema["$ref"].rpartition("/")[2])
    for name, field in own["properties"].items():
        if name not in literal and field.keys() & {"type", "anyOf", "$ref", "enum"}:
            rest = {key: field.pop(key) for key in ("default", "description") if key in field}
            own["properties"][name] = {"anyOf": [field, PATH], **rest}
    return {**own, "$defs": parts} if parts else own


def _description(checker: type[Checker]) -> str:
    """The first paragraph of the docstring of the check, or of its module."""
    module = sys.modules.get(checker.__module__)
    text = checker.__doc__ or (module and module.__doc__) or ""
    line = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    name, colon, rest = line.partition(": ")
    return rest if colon and name.startswith(checker.type) else line
