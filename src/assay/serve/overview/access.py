"""Which kinds of runs a key may read, and the run that a path names."""

import asyncio

from assay.agenteval.case_fill import fill_all, fill_run
from assay.auth.keys import authorize
from assay.errors import EnvironmentFailure, Forbidden, NotFound, Unavailable
from assay.fep.run_header import KIND as EVALUATION
from assay.ports import CLOSED, Run, store_patience
from assay.ports.supervise import run_guarded
from assay.serve.fep.state import FepState, fep_of
from assay.serve.openwop.host import OpenWopHost, host_of
from assay.serve.overview.run_rows import RunRows
from assay.serve.web.request import NAME, HttpRequest

FILL_SECONDS = 5.0  # that a request waits for the rows of a run of an older version
READ_RUNS, READ_EVALUATIONS = "runs:read", "evaluations:read"


class OverviewState:
    """What the routes of this package share on a server."""

    def __init__(self, fep: FepState, host: OpenWopHost) -> None:
        self.rows = RunRows(fep.evaluations.store)
        self.kinds = (EVALUATION, *host.kinds)
        self._store = fep.evaluations.store
        self._filling: asyncio.Task[None] | None = None
        self._filled = False

    def start(self) -> None:
        """Begin to make the rows of runs of older versions, once. They are made while the server runs."""
        if self._filling is None:
            self._filling = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        store_patience.set(None)  # the task began in a request and outlives it
        await run_guarded("table of cases", self._fill_all(), EnvironmentFailure)

    async def _fill_all(self) -> None:
        await fill_all(self._store)
        self._filled = not await self._store.unfilled(limit=1)

    async def require_rows(self, run: Run) -> bool:
        """
        Make the rows of this run, if it is of an older version. Unavailable: it takes longer than a request waits.
        """
        if self._filled or run.status not in CLOSED:
            return False
        found = await self._store.unfilled(run=run.id)
        for one in found:
            try:
                await asyncio.wait_for(fill_run(self._store, one), FILL_SECONDS)
            except TimeoutError:
                message = f"the table of cases of run {run.id} is being made from its results"
                raise Unavailable(message, retry_after=2) from None
        return bool(found)

    def stop(self) -> None:
        """Stop the background work; the next process continues it."""
        if self._filling is not None:
            self._filling.cancel()


def overview_of(call: HttpRequest) -> OverviewState:
    """The state of these routes. A server without OpenWOP does not have them."""
    host_of(call)
    fep_of(call)
    state = call.server.resource(OverviewState)
    state.start()
    return state


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
    readable_kinds(call)
    id: str = call.scope["path_params"]["run_id"]
    call.target = id
    if NAME.fullmatch(id):
        run = await call.server.executor.get(id, call.tenant)
        if run.kind in overview_of(call).kinds:
            authorize(call.principal, READ_EVALUATIONS if run.kind == EVALUATION else READ_RUNS)
            if await overview_of(call).require_rows(run):
                run = await call.server.executor.get(id, call.tenant)
            return run
    raise NotFound(f"there is no run {id[:128]!r}")
