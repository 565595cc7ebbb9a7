"""
All test-only routes of the conformance suite: served only with OPENWOP_TEST_SEAM_ENABLED=true (openwop-contract §0.6).
"""

import msgspec

from assay.serve.seams.deployments import DEPLOYMENT_SEAMS
from assay.serve.seams.evals import EVAL_SEAMS
from assay.serve.seams.workflows import BASE, WORKFLOW_SEAMS
from assay.serve.web.route import RouteSpec

SEAMS: list[RouteSpec] = [*WORKFLOW_SEAMS, *EVAL_SEAMS, *DEPLOYMENT_SEAMS]


def under(prefix: str) -> list[RouteSpec]:
    """
    The same routes under another prefix: a later major version of the suite has them elsewhere (openwop-contract §0.1).
    """
    return [
        msgspec.structs.replace(route, path=prefix + route.path.removeprefix(BASE), id=f"{route.id}Again")
        for route in SEAMS
    ]
