"""Conditional requests: If-None-Match (RFC 9110 §13.1.2)."""

from assay.serve.web.request import HttpRequest

WEAK = b"W/"


def matches(call: HttpRequest, tag: bytes) -> bool:
    """Whether the client already has what this entity tag stands for. The comparison is weak."""
    header = call.headers.get(b"if-none-match", b"")
    return header.strip() == b"*" or tag.removeprefix(WEAK) in [
        part.strip().removeprefix(WEAK) for part in header.split(b",")
    ]
