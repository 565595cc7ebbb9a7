"""POST …/runs/{run_id}:gate: does a run pass? What `assay gate --json` prints of stored runs."""

from typing import Any

import msgspec
from msgspec import Struct

from assay.comparison.gate_run import PolicyOptions, gate_options, gate_result, policy_with, rules_in
from assay.comparison.gate_verdict import GateResult
from assay.comparison.policy import GatePolicy, gate_policy_of
from assay.concurrency.threads import in_place
from assay.errors import InvalidRequest, Problem
from assay.errors.door import rules_of
from assay.serve.fep.comparison import (
    MAX_VIEW_RESULTS,
    require_comparisons,
    require_few,
    require_size,
    words_of_requests,
)
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.server_state import fep_of
from assay.serve.overview.access import any_run, find_run
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.openapi import components
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

POLICY = "policy"  # the member of a request


class GateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`baseline` is the id of the run to compare with. `policy` has the rules of a policy file, such as `preset`."""

    baseline: str | None = None
    policy: dict[str, Any] = {}
    allow_partial: bool = False


_request = msgspec.json.Decoder(GateRequest).decode


async def gate_run(call: HttpRequest) -> Response:
    """Decide on a run, alone or beside a baseline. The numbers are those that comparisons of the page have read."""
    call.query()
    run = await any_run(call)
    body = await read_document(call)
    if body:
        body_format(call)
    request = await read_json(call, _request, body or b"{}")
    runs = [run]
    if request.baseline is not None:
        runs = [await find_run(call, request.baseline), run]
        if runs[0].id == run.id:
            raise InvalidRequest(Problem("baseline", f"expected another run, got {run.id} itself"))
        require_comparisons()
    policy = await in_place(lambda: _policy(request, call), len(body))
    for one in runs:
        require_size(one, MAX_VIEW_RESULTS, "assay gate")
    for one in runs:
        await call.audit_read(one)
    fep, read = fep_of(call), gate_options(policy)

    async def work() -> GateResult:
        sources = await fep.comparisons.sources(fep.evaluations, runs, read)
        source, first = sources[-1], sources[0] if len(sources) == 2 else None
        with words_of_requests(), rules_of(POLICY, rules_in(policy, PolicyOptions())):
            result, _ = await gate_result(source, first, policy, read, allow_partial=request.allow_partial)
        return result

    return answer(await call.until_disconnect(work()))


def _policy(request: GateRequest, call: HttpRequest) -> GatePolicy:
    policy = gate_policy_of(request.policy, POLICY, call.server.limits)
    with words_of_requests(), rules_of(POLICY, rules_in(policy, PolicyOptions())):
        require_few(policy.by)
        policy = policy_with(policy, PolicyOptions(), has_baseline=request.baseline is not None)
        gate_options(policy)
    return policy


def gate_schemas() -> dict[str, Any]:
    """The schemas of the request and the answer. Those of the rules are in the request."""
    schemas = components((GateRequest, GatePolicy, GateResult))
    schemas["GateRequest"]["properties"]["policy"] = {"$ref": "#/components/schemas/GatePolicy"}
    return schemas
