"""GET /v1/checks: the catalogue, with the schemas of what each takes and answers."""

import inspect
import sys
from functools import lru_cache
from typing import Any

from assay.checks.arguments import fields_of
from assay.checks.checker import Checker, argument_schema
from assay.checks.registry import Registry
from assay.protocol.operations import CheckDescription
from assay.serve.fep.state import fep_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, encode, log

PATH = {"type": "string", "pattern": r"^\$\.", "description": "a path into the context (RFC 9535)"}


async def list_checks(call: HttpRequest) -> Response:
    call.query()
    return Response(catalogue(fep_of(call).evaluations.registry))


@lru_cache(maxsize=4)
def catalogue(registry: Registry) -> bytes:
    described = sorted((describe(checker) for checker in registry), key=lambda one: (one.type, one.version))
    return encode({"checks": described})


def describe(checker: type[Checker]) -> CheckDescription:
    return CheckDescription(
        type=checker.type,
        version=checker.version,
        description=_description(checker),
        arguments=_arguments(checker),
        results=checker.results_schema,
    )


def _arguments(checker: type[Checker]) -> dict[str, Any]:
    """Its own schema, with a path wherever one may stand (decision 12)."""
    try:
        schema = argument_schema(checker)
        literal = {field.name for field in fields_of(checker) if field.literal}
    except Exception as surprise:  # noqa: BLE001  # the fields of a check are foreign code: some have no schema
        log.warning("the arguments of %s have no schema: %s", checker.type, surprise)
        return {"type": "object"}
    parts: dict[str, Any] = schema.pop("$defs")
    own: dict[str, Any] = parts.pop(schema["$ref"].rpartition("/")[2])
    for name, said in own["properties"].items():
        if name not in literal and said.keys() & {"type", "anyOf", "$ref", "enum"}:
            rest = {key: said.pop(key) for key in ("default", "description") if key in said}
            own["properties"][name] = {"anyOf": [said, PATH], **rest}
    return {**own, "$defs": parts} if parts else own


def _description(checker: type[Checker]) -> str:
    """The first line of its own docstring, or of its file's."""
    module = sys.modules.get(checker.__module__)
    said = checker.__doc__ or (module and module.__doc__) or ""
    line = inspect.cleandoc(said).partition("\n")[0]
    name, colon, rest = line.partition(": ")
    return rest if colon and name.startswith(checker.type) else line
