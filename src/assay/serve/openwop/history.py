"""GET /v1/host/assay/suites/{suiteId}/history: the eval runs of a suite with their scores, newest first."""

from assay.comparison.history import rows_of, suite_runs
from assay.errors import InvalidRequest, NotFound, Problem
from assay.promotion.states import deployment_states
from assay.protocol.json_types import JSON
from assay.serve.fep.operations import page_start
from assay.serve.openwop.host import host_of
from assay.serve.web import pagination as pages
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.serve.web.route import TOKEN, Parameter, ResponseSpec, RouteSpec

MAX_ROWS = 100  # of a page: each row reads a scorecard


async def suite_history(call: HttpRequest) -> Response:
    """A page may be short, or empty, although there is a next one: the runs of other agents are skipped."""
    params = call.query("agentId", "page_size", "page_token")
    (suite_id,) = call.scope["path_params"].values()
    agent = params.get("agentId")
    for name, text in (("suiteId", suite_id), ("agentId", agent or "")):
        if "\0" in text:
            raise InvalidRequest(Problem(name, "expected a name without NUL"))
    size = pages.size(params.get("page_size"), min(MAX_ROWS, call.server.serving.max_page))
    digest = pages.digest(call.tenant, "history", suite_id, agent)
    before = page_start(params.get("page_token"), digest)
    host, store = host_of(call), call.server.executor.store
    runs, position = await suite_runs(store, call.tenant, suite_id, agent=agent, before=before, limit=size)
    if not runs and before is None and await host.suites.get(call.tenant, suite_id) is None:
        raise NotFound(f"there is no suite {suite_id[:200]!r}, and no run of it")
    following: JSON = {}
    if position is not None:
        following = {"nextPageToken": pages.token(pages.RunCursor(*position, digest))}
    agents = {str(run.metadata.get("agentId", "")) for run in runs}
    rows = await rows_of(store, runs, await deployment_states(store, call.tenant, agents))
    return answer({"suiteId": suite_id, "rows": rows, **following})


HISTORY_ROUTES = [
    RouteSpec(
        method="GET",
        path="/v1/host/assay/suites/{suite_id}/history",
        endpoint=suite_history,
        scope="runs:read",
        id="suiteHistory",
        summary="List the eval runs of a suite with their scores, newest first",
        responses={200: ResponseSpec("One page of runs.", "SuiteHistory")},
        errors=(400, 404),
        parameters=(
            Parameter("agentId", {"type": "string"}, "Only runs of this agent."),
            Parameter(
                "page_size",
                {"type": "integer", "minimum": 1, "maximum": MAX_ROWS},
                "The largest number of rows.",
            ),
            TOKEN,
        ),
    )
]
