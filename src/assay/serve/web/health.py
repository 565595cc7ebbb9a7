"""Routes that need no key: health, the OpenAPI document and its HTML page."""

from assay.protocol.operations import Health
from assay.serve.web.docs_page import page
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import HTML, Headers, Response, answer

PROTOCOL = "0.0.1"
CACHE: Headers = ((b"cache-control", b"max-age=60"),)


async def health(call: HttpRequest) -> Response:
    call.query()
    call.server.admission.check_open()
    return answer(Health(status="healthy", version=PROTOCOL), headers=((b"cache-control", b"no-store"),))


async def show_openapi(call: HttpRequest) -> Response:
    call.query()
    return Response(call.server.openapi, headers=CACHE)


async def show_page(call: HttpRequest) -> Response:
    call.query()
    html, policy = page()
    return Response(html, media=HTML, headers=((b"content-security-policy", policy), *CACHE))
