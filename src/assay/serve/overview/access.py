"""Which kinds of runs a key may read, and the run that a path names."""

from assay.auth.keys import authorize
from assay.errors import Forbidden, NotFound
from assay.fep.records.run_header import KIND as EVALUATION
from assay.ports import Run
from assay.serve.fep.server_state import FepState, fep_of
from assay.serve.openwop.host import OpenWopHost, host_of
from assay.serve.overview.effective import EffectiveCache
from assay.serve.overview.run_rows import RunRows
from assay.serve.web.request import NAME, HttpRequest

READ_RUNS, READ_EVALUATIONS = "runs:read", "evaluations:read"


class OverviewState:
    """What the routes of this package share on a server."""

    def __init__(self, fep: FepState, host: OpenWopHost) -> None:
        self.rows = RunRows(fep.evaluations.store)
        self.kinds = (EVALUATION, *host.kinds)
        self.effective = EffectiveCache()

    def stop(self) -> None:
        """These routes have no open streams."""


def overview_of(call: HttpRequest) -> OverviewState:
    """The state of these routes. A server without OpenWOP does not have them."""
    host_of(call)
    fep_of(call)
    return call.server.resource(OverviewState)


def readable_kinds(call: HttpRequest) -> tuple[str, ...]:
    """The kinds of runs that the key may read. Forbidden: none."""
    may = call.principal.may
    kinds = overview_of(call).kinds
    found = tuple(kind for kind in kinds if may(READ_EVALUATIONS if kind == EVALUATION else READ_RUNS))
    if not found:
        raise Forbidden(READ_RUNS)
    return found


async def any_run(call: HttpRequest) -> Run:
    """The run that the path names, of any kind. The key needs the scope of its kind."""
    call.target = call.scope["path_params"]["run_id"]
    return await find_run(call, call.target)


async def find_run(call: HttpRequest, id: str) -> Run:
    """A run of the caller's tenant, of any kind. The key needs the scope of its kind."""
    readable_kinds(call)
    if NAME.fullmatch(id):
        run = await call.server.executor.get(id, call.tenant)
        if run.kind in overview_of(call).kinds:
            authorize(call.principal, READ_EVALUATIONS if run.kind == EVALUATION else READ_RUNS)
            return run
    raise NotFound(f"there is no run {id[:128]!r}")
