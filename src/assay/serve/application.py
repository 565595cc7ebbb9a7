"""The HTTP application of a host: FEP's routes, OpenWOP's, the page, and enabled ones of the conformance suite."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from starlette.applications import Starlette

from assay.auth.sign_in import SignIn
from assay.fep.records.service import EvaluationService
from assay.fep.trace_windows.supervisor import TraceIntake
from assay.ports import Clock, Limits
from assay.runs.executor import RunExecutor
from assay.serve.fep.api_keys import KEY_ROUTES
from assay.serve.fep.routes import FEP
from assay.serve.fep.schemas import fep_schemas
from assay.serve.fep.server_state import FepState
from assay.serve.openwop.host import OpenWopHost
from assay.serve.openwop.routes import OPENWOP
from assay.serve.openwop.schemas import openwop_schemas
from assay.serve.otlp.receiver import OTLP, TraceReceiver
from assay.serve.overview.access import OverviewState
from assay.serve.overview.routes import OVERVIEW, overview_schemas
from assay.serve.page.routes import DOCS, FILES, SESSIONS, page_schemas
from assay.serve.page.sign_in_routes import SignInState
from assay.serve.web.app import create_app
from assay.serve.web.handler import RouteSpec
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.request import Authenticate, ServerState
from assay.serve.web.worker_group import WorkerMember

ROUTES: list[RouteSpec] = [*FEP, *KEY_ROUTES, *DOCS, *OPENWOP, *SESSIONS, *OVERVIEW, *OTLP]


PROBES = [route for route in FEP if route.path in {"/v1/live", "/v1/ready", "/metrics"}]


def probe_app(
    executor: RunExecutor, authenticate: Authenticate, serving: ServerLimits, *, limits: Limits, clock: Clock
) -> Starlette:
    """The application of a worker: its probes and its metrics."""
    state = ServerState(executor, authenticate, serving, limits=limits, clock=clock)
    return create_app(PROBES, state, fep_schemas())


@cache
def http_schemas() -> Mapping[str, Any]:
    """The schemas that the routes name, made once: they take most of the time in which a server starts."""
    return fep_schemas() | openwop_schemas() | page_schemas() | overview_schemas()


def http_app(
    executor: RunExecutor,
    evaluations: EvaluationService,
    openwop: OpenWopHost | None,
    authenticate: Authenticate,
    serving: ServerLimits,
    routes: Sequence[RouteSpec] = ROUTES,
    member: WorkerMember | None = None,
    traces: TraceIntake | None = None,
    sign_in: SignIn | None = None,
) -> Starlette:
    """
    Without `openwop`, `traces` or `sign_in`, their routes answer 404. `member`: this process is one of several workers.
    """
    services = evaluations.services
    state = ServerState(
        executor, authenticate, serving, limits=services.limits, clock=services.clock, member=member
    )
    fep = FepState(evaluations)
    state.attach(fep)
    state.attach(SignInState(sign_in))
    if openwop is not None:
        state.attach(openwop)
        state.attach(OverviewState(fep, openwop))
    if traces is not None:
        state.attach(TraceReceiver(traces))
    return create_app([*routes, *FILES], state, http_schemas())
