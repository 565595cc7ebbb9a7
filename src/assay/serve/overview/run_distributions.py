"""GET /v1/host/assay/runs/{run_id}/distributions: the scores, latencies and costs of one run as bars."""

from msgspec import Struct

from assay.cases.distributions import Distribution, distributions
from assay.cases.pages import all_blocks
from assay.concurrency.threads import off_loop
from assay.errors import NotFound
from assay.serve.overview.access import any_run
from assay.serve.overview.run_rows import SCORED
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer


class RunDistributions(Struct, frozen=True, kw_only=True):
    """A number that no result has is left out."""

    distributions: tuple[Distribution, ...]


async def get_distributions(call: HttpRequest) -> Response:
    call.query()
    run = await any_run(call)
    if run.kind not in SCORED:
        raise NotFound(f"run {run.id} has no cases: it is not an evaluation or an agent eval")
    await call.audit_read(run, content=False)
    blocks = await all_blocks(call.server.store, run.id)
    found = await off_loop(sum(len(block.data) for block in blocks), lambda: distributions(blocks))
    return answer(RunDistributions(distributions=found))
