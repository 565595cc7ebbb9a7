"""Routes that need no key: health, probes and the OpenAPI document."""

from assay.protocol.operations import Health, ProbeStatus
from assay.serve.web.request import HttpRequest, ServerState
from assay.serve.web.responses import Headers, Response, answer
from assay.version import __version__

PROTOCOL = "0.0.1"
CACHE: Headers = ((b"cache-control", b"max-age=60"),)
FRESH: Headers = ((b"cache-control", b"no-store"),)


async def health(call: HttpRequest) -> Response:
    """The service is healthy if it accepts work and its database answers."""
    call.query()
    await check_ready(call.server)
    return answer(Health(status="healthy", version=PROTOCOL, assay_version=__version__), headers=FRESH)


async def ready(call: HttpRequest) -> Response:
    call.query()
    await check_ready(call.server)
    return answer(ProbeStatus(status="ready"), headers=FRESH)


async def live(call: HttpRequest) -> Response:
    """The event loop answers. It does not ask the database: a restart would not bring that back."""
    call.query()
    return answer(ProbeStatus(status="alive"), headers=FRESH)


async def check_ready(server: ServerState) -> None:
    """Raise Unavailable while the server stops, or if its database does not answer."""
    server.admission.check_open()
    await server.probe.check()


async def show_openapi(call: HttpRequest) -> Response:
    call.query()
    return Response(call.server.openapi, headers=CACHE)
