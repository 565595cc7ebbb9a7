"""The OpenAPI 3.1 document of the whole server, from the list of routes and the protocol's own types (decision 4)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from assay.serve.web.route import Parameter, ResponseSpec, RouteSpec

SAID = {
    400: "the request does not fit: every problem with its place, in details.problems",
    401: "no key, or none that is good",
    403: "the key lacks the scope in details.scopeRequired",
    404: "there is none, or it is another tenant's",
    405: "not by this method",
    409: "not in this state: details.status; or the Idempotency-Key came with another request",
    413: "more bytes than are taken: details.limit",
    415: "a content type or encoding that is not read: details.supported",
    422: "a run cannot be copied from there: details.fromSeq, details.sourceRunId",
    429: "too much at once: again after details.retryAfterMs",
    500: "a bug: the log knows more under details.correlationId",
    501: "a capability that this host does not offer: details.capability",
    503: "about to stop, or the database is away: again after Retry-After",
}
PATTERNS = {"agent_id": "^[A-Za-z0-9_.-]{3,256}$", "suite_ref": "^[a-z0-9.-]{1,200}(@[0-9.]{1,40})?$"}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "the number of this request", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds", "schema": {"type": "string"}},
    "Location": {"description": "where the operation is", "schema": {"type": "string"}},
    "Content-Location": {"description": "where the result stays", "schema": {"type": "string"}},
    "ETag": {"description": "of a result, which does not change", "schema": {"type": "string"}},
    "Link": {"description": "the next page, where there is one", "schema": {"type": "string"}},
}


def document(routes: Iterable[RouteSpec], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Each package of routes brings the schemas that its routes name; `components` makes them of types."""
    schemas = {**schemas, "Document": {"type": "object", "required": ["openapi", "paths"]}}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "assay: Flexible Evaluation Protocol",
            "version": version("assay"),
            "summary": "Test cases, outputs and checks in; results out.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas)},
            "headers": HEADERS,
            "securitySchemes": {
                "BearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "ApiKeyAuth": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _operation(route: RouteSpec) -> dict[str, Any]:
    said: dict[str, Any] = {"operationId": route.id, "summary": route.summary}
    refuses = {*route.refuses, 429, 500, 503} | (set[int]() if route.scope is None else {401, 403})
    if route.scope is not None:
        said["description"] = f"Scope: `{route.scope}`." if route.scope else "Any key of the tenant."
        said["security"] = [{"BearerAuth": []}, {"ApiKeyAuth": []}]
    else:
        said["security"] = []
    if parameters := [*_in_path(route.path), *map(_parameter, route.parameters)]:
        said["parameters"] = parameters
    if route.takes:
        said["requestBody"] = {"required": not route.optional, "content": _body(route)}
    answers = {status: _given(given) for status, given in route.gives.items()}
    answers |= {status: _refused(status) for status in refuses}
    said["responses"] = {str(status): answers[status] for status in sorted(answers)}
    return said


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": PATTERNS.get(name, "^[A-Za-z0-9_.-]{1,128}$")},
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": False,
        "schema": parameter.schema,
        "description": parameter.description,
    }


def _body(route: RouteSpec) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _ref(route.takes)}}
    if route.lines:
        said = "a line with checks and experiment_metadata, then one {test_case, output} a line"
        content["application/x-ndjson"] = {"schema": {"type": "string", "description": said}}
    return content


def _given(given: ResponseSpec) -> dict[str, Any]:
    said: dict[str, Any] = {
        "description": given.description,
        "headers": {name: _header(name) for name in ("X-Request-Id", *given.headers)},
    }
    if given.noun:
        said["content"] = {given.media: {"schema": _ref(given.noun)}}
    elif given.media != "application/json":
        said["content"] = {given.media: {"schema": {"type": "string"}}}
    if given.stream:
        said["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    if given.lines:
        each = f"one {given.lines} a line"
        said["content"]["application/x-ndjson"] = {"schema": {"type": "string", "description": each}}
    return said


def _refused(status: int) -> dict[str, Any]:
    names = ["X-Request-Id", *(["Retry-After"] if status in (429, 503) else [])]
    return {
        "description": SAID[status],
        "headers": {name: _header(name) for name in names},
        "content": {"application/json": {"schema": _ref("ErrorResponse")}},
    }


def _ref(noun: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{noun}"}


def _header(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/headers/{name}"}


def components(types: Sequence[Any]) -> dict[str, Any]:
    """The JSON schemas of these types, and of those they are made of, by name."""
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return schemas
