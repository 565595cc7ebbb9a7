"""A route as data: the server, its OpenAPI document and its tests are made of it."""

from typing import Any, Literal

from msgspec import Struct

from assay.serve.web.handler import Endpoint


class Parameter(Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    description: str
    location: Literal["query", "header"] = "query"


class ResponseSpec(Struct, frozen=True):
    """One response of a route. `schema` names a schema of the OpenAPI document; \"\": it has none."""

    description: str
    schema: str = ""
    lines: str = ""  # the schema of each line, if the response is also available as application/x-ndjson
    media: str = "application/json"
    headers: tuple[str, ...] = ()
    stream: bool = False  # it is also available as text/event-stream


class RouteSpec(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    endpoint: Endpoint
    scope: str | None  # None: no key is needed; "": any valid key
    id: str
    summary: str
    body: str = ""  # the schema of the request body
    media: str = ""  # the content type of a body that is not JSON
    lines: bool = False  # the body may be NDJSON
    optional: bool = False  # the body may be missing
    hidden: bool = False  # not in the OpenAPI document: a file for a browser
    responses: dict[int, ResponseSpec]
    errors: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()


TOKEN = Parameter("page_token", {"type": "string"}, "The `next_page_token` of the page before.")
SIZE = Parameter(
    "page_size",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
    "The largest number of items to return.",
)
ARGUMENTS = Parameter(
    "resolved_arguments",
    {"type": "boolean", "default": True},
    "Whether results include the resolved arguments of each check.",
)
ONCE = Parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    "The same key with the same request returns the first response again; with another request, 409.",
    "header",
)
MOMENT = {"type": "string", "format": "date-time"}
