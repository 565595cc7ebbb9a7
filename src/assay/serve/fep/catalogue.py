"""GET /v1/checks: the catalogue of checks, with the schemas of their arguments and results."""

from functools import lru_cache

from assay.checks.describe import describe
from assay.checks.registry import Registry
from assay.serve.fep.server_state import fep_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, encode


async def list_checks(call: HttpRequest) -> Response:
    call.query()
    return Response(catalogue(fep_of(call).evaluations.registry))


@lru_cache(maxsize=4)
def catalogue(registry: Registry) -> bytes:
    described = sorted(
        (describe(checker) for checker in registry), key=lambda check: (check.type, check.version)
    )
    return encode({"checks": described})
