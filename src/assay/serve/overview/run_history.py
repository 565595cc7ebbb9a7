"""POST /v1/host/assay/runs:history: the runs of one suite, experiment or project of traces, with their numbers."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.comparison.views.history import HistoryRow, rows_of, suite_runs
from assay.errors import Forbidden, InvalidRequest, Problem
from assay.fep.records.run_header import KIND as EVALUATION
from assay.promotion.states import deployment_states
from assay.serve.fep.operations import page_start
from assay.serve.fep.request_parser import read_json
from assay.serve.overview.access import READ_EVALUATIONS, READ_RUNS, readable_kinds
from assay.serve.web import responses as pages
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

MAX_ROWS = 100  # of a page: each row of an eval run reads a scorecard
Name = Annotated[str, Meta(max_length=512)]


class HistoryQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The runs of one name. Runs of the other kind may have the same name."""

    name: Name
    kind: Literal["evaluation", "agent-eval"]
    agent_id: Name | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = 50
    cursor: Annotated[str, Meta(max_length=2_000)] | UnsetType = UNSET


class RunHistory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Newest first. A page may be short although `next` is there."""

    name: str
    kind: str
    rows: list[HistoryRow]
    next: str | UnsetType = UNSET


_query = msgspec.json.Decoder(HistoryQuery).decode


async def query_history(call: HttpRequest) -> Response:
    call.query()
    kinds = readable_kinds(call)
    body_format(call)
    request = await read_json(call, _query, await read_document(call) or b"{}")
    if request.kind not in kinds:
        raise Forbidden(READ_EVALUATIONS if request.kind == EVALUATION else READ_RUNS)
    agent = None if request.agent_id is UNSET else request.agent_id
    for place, text in (("name", request.name), ("agentId", agent or "")):
        if "\0" in text:
            raise InvalidRequest(Problem(place, "expected a name without NUL"))
    digest = pages.digest(call.tenant, "runs:history", request.kind, request.name, agent)
    before = page_start(None if request.cursor is UNSET else request.cursor, digest)
    store = call.server.store
    runs, position = await suite_runs(
        store, call.tenant, request.name, kind=request.kind, agent=agent, before=before, limit=request.limit
    )
    agents = {str(run.metadata["agentId"]) for run in runs if run.metadata.get("agentId")}
    rows = await rows_of(store, runs, await deployment_states(store, call.tenant, agents))
    following = UNSET if position is None else pages.token(pages.RunCursor(*position, digest))
    return answer(RunHistory(name=request.name, kind=request.kind, rows=rows, next=following))
