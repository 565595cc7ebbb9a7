"""The HTML page of the API: one file that renders /v1/openapi.json and loads nothing from elsewhere."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files


@cache
def page() -> tuple[bytes, bytes]:
    """The file, and a Content-Security-Policy that allows its own script and style and nothing else."""
    html = files(__name__).joinpath("index.html").read_bytes()
    script, style = (_digest(html, tag) for tag in (b"script", b"style"))
    policy = b"default-src 'none'; connect-src 'self'; script-src %b; style-src %b; base-uri 'none'; frame-ancestors 'none'"
    return html, policy % (script, style)


def _digest(html: bytes, tag: bytes) -> bytes:
    inside = re.search(rb"<%b>(.*?)</%b>" % (tag, tag), html, re.DOTALL)
    assert inside
    return b"'sha256-%b'" % base64.b64encode(hashlib.sha256(inside[1]).digest())
