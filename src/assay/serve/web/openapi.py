"""The OpenAPI 3.1 document of a server, from its routes and their schemas (FEP-4)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from assay.serve.web.handler import ONCE, Parameter, ResponseSpec, RouteSpec
from assay.version import __version__

ERRORS = {
    400: "The request is invalid. `details.problems` lists every problem with its place.",
    401: "The key is missing or invalid.",
    403: "The key lacks the scope in `details.scopeRequired`.",
    404: "The resource does not exist, or belongs to another tenant.",
    405: "The method is not allowed for this path.",
    409: "The run is in another state (`details.status`), or the Idempotency-Key was used with another request.",
    413: "The body is larger than `details.limit` bytes.",
    415: "The content type or encoding is not supported; `details.supported` lists those that are.",
    422: "The run cannot be copied from this event: `details.fromSeq`, `details.sourceRunId`.",
    429: "A limit is reached; retry after `details.retryAfterMs`.",
    500: "Internal error; see the server log for `details.correlationId`.",
    501: "The server does not offer this capability: `details.capability`.",
    503: "The server is stopping, or its database is unavailable; retry after Retry-After.",
}
PATTERNS = {
    "agent_id": "^[A-Za-z0-9_.-]{3,256}$",
    "suite_ref": "^[a-z0-9.-]{1,200}(@[0-9.]{1,40})?$",
    "pack_ref": "^[A-Za-z0-9_.-]{1,256}(@[0-9A-Za-z.-]{1,64})?$",
}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "The id of this request.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}},
    "Location": {"description": "The URL of the operation or resource.", "schema": {"type": "string"}},
    "Content-Location": {"description": "The URL of the stored result.", "schema": {"type": "string"}},
    "ETag": {"description": "The entity tag of the response.", "schema": {"type": "string"}},
    "Link": {"description": "The URL of the next page, if there is one.", "schema": {"type": "string"}},
}


# The groups of routes, with the beginnings of their paths. The first one that fits is the group of a route.
TAGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "evaluations": (
        "FEP: run, read and erase evaluations.",
        ("/v1/evaluat", "/v1/operations", "/v1/checks", "/v1/host/assay/comparison"),
    ),
    "host": ("Health, probes and metrics.", ("/v1/health", "/v1/ready", "/v1/live", "/metrics")),
    "documents": (
        "Descriptions of this interface.",
        ("/v1/openapi.json", "/v1/docs", "/v1/asyncapi.json", "/.well-known/"),
    ),
    "keys": ("API keys of a tenant.", ("/v1/host/assay/keys",)),
    "page": ("The sign-in of the page.", ("/v1/host/assay/session", "/v1/host/assay/sign-in")),
    "suites": ("Suites of agent evals.", ("/v1/host/assay/suites",)),
    "packs": ("Packs of agents and suites.", ("/v1/host/assay/packs",)),
    "traces": ("Traces over OTLP, to be scored.", ("/v1/traces", "/v1/logs", "/v1/host/assay/traces")),
    "agents and workflows": (
        "What this host can run.",
        ("/v1/agents", "/v1/host/assay/agents", "/v1/workflows"),
    ),
    "runs": (
        "OpenWOP: run agent evals and workflows, read and erase them.",
        ("/v1/runs", "/v1/host/assay/runs"),
    ),
    "conformance": ("Only for OpenWOP's conformance suite.", ("/",)),
}


def tag_of(path: str) -> str:
    """The group of a route."""
    return next(tag for tag, (_, starts) in TAGS.items() if path.startswith(starts))


def document(routes: Iterable[RouteSpec], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Each package of routes brings the schemas that its routes name; `components` makes them of types."""
    schemas = {**schemas, "Document": {"type": "object", "required": ["openapi", "paths"]}}
    paths: dict[str, dict[str, Any]] = {}
    used: set[str] = set()
    for route in routes:
        if route.hidden:
            continue
        used.add(tag_of(route.path))
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "assay: Flexible Evaluation Protocol (FEP) and OpenWOP agent evaluation",
            "version": __version__,
            "summary": "Test cases, outputs and checks in, results out; agents against suites, scorecards out.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": text} for tag, (text, _) in TAGS.items() if tag in used],
        "paths": paths,
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas)},
            "headers": HEADERS,
            "securitySchemes": {
                "BearerAuth": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "A JWT or an API key.",
                },
                "ApiKeyAuth": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-API-Key",
                    "description": "An API key. `assay admin key create` creates one.",
                },
            },
        },
    }


def _operation(route: RouteSpec, schemas: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.id,
        "summary": route.summary,
        "tags": [tag_of(route.path)],
    }
    if route.scope is not None:
        operation["description"] = f"Scope: `{route.scope}`." if route.scope else "Any key of the tenant."
        operation["security"] = [{"BearerAuth": []}, {"ApiKeyAuth": []}]
    else:
        operation["security"] = []
    if parameters := [*_in_path(route.path), *map(_parameter, route.parameters)]:
        operation["parameters"] = parameters
    if route.body or route.media:
        operation["requestBody"] = {"required": not route.optional, "content": _body(route, schemas)}
    responses = {status: _error(status) for status in _errors(route)}
    responses |= {status: _response(spec) for status, spec in route.responses.items()}
    operation["responses"] = {str(status): responses[status] for status in sorted(responses)}
    return operation


def _errors(route: RouteSpec) -> set[int]:
    """The errors that a route has by its form, and its own."""
    errors = {400, 429, 500, 503, *route.errors}
    errors |= set[int]() if route.scope is None else {401, 403}
    errors |= {404} if "{" in route.path else set[int]()
    errors |= {413, 415} if route.body or route.media else set[int]()
    return errors | ({409} if ONCE in route.parameters else set[int]())


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
        "in": parameter.location,
        "required": False,
        "schema": parameter.schema,
        "description": parameter.description,
    }


def _body(route: RouteSpec, schemas: Mapping[str, Any]) -> dict[str, Any]:
    if route.media:
        return {route.media: {"schema": {"type": "string", "format": "binary"}}}
    content: dict[str, Any] = {"application/json": {"schema": _ref(route.body)}}
    if examples := schemas[route.body].get("examples"):
        content["application/json"]["example"] = examples[0]
    if route.lines:
        lines = "A first line with checks and experiment_metadata, then one {test_case, output} per line."
        content["application/x-ndjson"] = {"schema": {"type": "string", "description": lines}}
    return content


def _response(spec: ResponseSpec) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": spec.description,
        "headers": {name: _header(name) for name in ("X-Request-Id", *spec.headers)},
    }
    if spec.schema:
        response["content"] = {spec.media: {"schema": _ref(spec.schema)}}
    elif spec.media != "application/json":
        response["content"] = {spec.media: {"schema": {"type": "string"}}}
    if spec.stream:
        response["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    if spec.lines:
        each = f"One {spec.lines} per line."
        response["content"]["application/x-ndjson"] = {"schema": {"type": "string", "description": each}}
    return response


def _error(status: int) -> dict[str, Any]:
    names = ["X-Request-Id", *(["Retry-After"] if status in (429, 503) else [])]
    return {
        "description": ERRORS[status],
        "headers": {name: _header(name) for name in names},
        "content": {"application/json": {"schema": _ref("ErrorResponse")}},
    }


def _ref(schema: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _header(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/headers/{name}"}


def components(types: Sequence[Any]) -> dict[str, Any]:
    """The JSON schemas of these types, and of those they are made of, by name."""
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return schemas
