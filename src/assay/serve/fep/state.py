"""What FEP's routes share on a server, over HTTP and gRPC: the evaluation service, caches and the event feeds."""

from assay.errors import NotFound
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.ports import Run
from assay.serve.fep.comparison_cache import ComparisonCache
from assay.serve.fep.events_feed import EvaluationFeeds
from assay.serve.fep.plan_cache import PlanCache
from assay.serve.web.request import NAME, HttpRequest, RequestContext


class FepState:
    """Attached to the `ServerState` of one process."""

    def __init__(self, evaluations: EvaluationService) -> None:
        self.evaluations = evaluations
        self.plans = PlanCache(evaluations)
        self.comparisons = ComparisonCache()
        self.feeds = EvaluationFeeds(evaluations.store)

    def stop(self) -> None:
        self.feeds.close()


def fep_of(call: RequestContext) -> FepState:
    return call.server.resource(FepState)


async def evaluation_of(call: HttpRequest) -> Run:
    """The evaluation that the path names."""
    return await find_evaluation(call, call.run_id)


async def find_evaluation(call: RequestContext, id: str) -> Run:
    """An evaluation of the caller's tenant. Text that cannot be an id is answered like an unknown id."""
    call.target = id
    if not NAME.fullmatch(id):
        raise NotFound(f"there is no run {id[:128]!r}")
    return await call.server.executor.get(id, call.tenant, KIND)
