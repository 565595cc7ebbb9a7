"""Open to everybody: whether we are up, the OpenAPI document, and its page."""

from assay.protocol.operations import Health
from assay.serve.rest.answers import HTML, Answer, Headers, answer
from assay.serve.rest.call import Call
from assay.serve.rest.page import page

PROTOCOL = "0.0.1"
BRIEFLY: Headers = ((b"cache-control", b"max-age=60"),)


async def health(call: Call) -> Answer:
    call.query()
    call.host.load.open()
    return answer(Health(status="healthy", version=PROTOCOL), headers=((b"cache-control", b"no-store"),))


async def show_openapi(call: Call) -> Answer:
    call.query()
    return Answer(call.host.openapi, headers=BRIEFLY)


async def show_page(call: Call) -> Answer:
    call.query()
    html, policy = page()
    return Answer(html, media=HTML, headers=((b"content-security-policy", policy), *BRIEFLY))
