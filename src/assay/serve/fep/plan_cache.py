"""A cache of compiled plans by the bytes of their checks, so that checks sent repeatedly are compiled once."""

from typing import Any, NamedTuple

import msgspec

from assay.cache import ByteCache
from assay.checks.runner import ResultOptions
from assay.concurrency.workers import batch
from assay.errors import InvalidRequest, Problem
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import plan_of
from assay.fep.records.service import EvaluationService
from assay.inputs.context import not_json, too_deep
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import depth

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
        """
        The plan of these checks; for empty text, the plan of cases with their own checks. `arguments`: results include
        resolved arguments.
        """
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
