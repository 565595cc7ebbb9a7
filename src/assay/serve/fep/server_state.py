"""A cache of compiled plans by the bytes of their checks, so that checks sent repeatedly are compiled once."""

from typing import Any, NamedTuple

import msgspec

from assay.cache import ByteCache
from assay.checks.runner import ResultOptions
from assay.concurrency.workers import batch
from assay.errors import InvalidRequest, NotFound, Problem
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import plan_of
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.inputs.context import not_json, too_deep
from assay.ports import Run
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import depth
from assay.serve.fep.comparison_cache import ComparisonCache
from assay.serve.fep.events_feed import EvaluationFeeds
from assay.serve.web.request import NAME, HttpRequest, RequestContext

CACHED = 32 << 20  # bytes of all cached plans
LONGEST = 64 * 1024  # bytes of checks that are cached
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class CachedPlan(NamedTuple):
    plan: Plan
    checks: msgspec.Raw | None  # as they are stored with every run


class PlanCache:
    def __init__(self, evaluations: EvaluationService) -> None:
        self._evaluations = evaluations
        self._cache = ByteCache[CachedPlan](CACHED)

    def get(self, text: bytes, *, arguments: bool = True) -> CachedPlan:
        """The plan of these checks; for empty text, of cases with their own. `arguments`: results include them."""
        owner, key = batch.owner.get(), text if arguments else b"-" + text
        cached = self._cache.get(key, owner)
        if cached is not None:
            return cached
        document, evaluations = self._decode(text), self._evaluations
        plan = plan_of(
            document, evaluations.registry, evaluations.services, ResultOptions(resolved_arguments=arguments)
        )
        made = CachedPlan(plan, None if plan.checks is None else msgspec.Raw(_encode(plan.checks)))
        if plan.shared is not None and len(text) <= LONGEST:
            self._cache.put(key, made, plan.size(len(text)), owner)
        return made

    def _decode(self, text: bytes) -> Any:
        if not text:
            return None
        try:
            document = _decode(text)
            twice = duplicate_member(text, document, "checks")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            raise InvalidRequest(Problem("checks", not_json(text, wrong))) from None
        if twice is not None:
            raise InvalidRequest(Problem(twice, TWICE))
        limits = self._evaluations.services.limits
        if depth(document) > limits.max_depth:
            raise InvalidRequest(Problem("checks", too_deep(limits)))
        return document


# What FEP's routes share on a server, over HTTP and gRPC: the evaluation service, caches and the event feeds.


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
