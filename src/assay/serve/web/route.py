"""What a route says of itself: the server, its document and its tests are made of it."""

from typing import Any, Literal

from msgspec import Struct

from assay.serve.web.handler import Endpoint


class Parameter(Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    description: str
    where: Literal["query", "header"] = "query"


class ResponseSpec(Struct, frozen=True):
    """What is answered with a status: a noun, or nothing; as lines, as events, as a page."""

    description: str
    noun: str = ""
    lines: str = ""  # the noun of each line, where it is also to be had as application/x-ndjson
    media: str = "application/json"
    headers: tuple[str, ...] = ()
    stream: bool = False  # also as text/event-stream


class RouteSpec(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    endpoint: Endpoint
    scope: str | None  # None: open to everybody
    id: str
    summary: str
    takes: str = ""  # the noun of the body
    lines: bool = False  # the body may be lines
    optional: bool = False  # there need be none
    gives: dict[int, ResponseSpec]
    refuses: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()


TOKEN = Parameter("page_token", {"type": "string"}, "where the page before said that this one begins")
SIZE = Parameter(
    "page_size", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}, "how many at most"
)
ARGUMENTS = Parameter(
    "resolved_arguments",
    {"type": "boolean", "default": True},
    "whether results say what each check was given",
)
ONCE = Parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    "the same key with the same request gives what it gave before; with another request, 409",
    "header",
)
MOMENT = {"type": "string", "format": "date-time"}
