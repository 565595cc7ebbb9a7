"""Plans of checks that come again and again, by the bytes of their text, so that they are compiled once."""

from typing import Any, NamedTuple

import msgspec

from assay.checks.runner import ResultOptions
from assay.errors import InvalidRequest, Problem
from assay.fep.context import not_json, too_deep
from assay.fep.plan import Plan
from assay.fep.request import plan_of
from assay.fep.service import EvaluationService
from assay.protocol.cache import ByteCache
from assay.protocol.json_types import depth
from assay.workers import pool

CACHED = 64 << 20  # bytes of all plans that are remembered
LONGEST = 64 * 1024  # bytes of checks that are worth remembering
FACTOR = 40  # bytes of a plan for one of its text
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class CachedPlan(NamedTuple):
    plan: Plan
    checks: msgspec.Raw | None  # as they are kept with every run that has them


class PlanCache:
    def __init__(self, office: EvaluationService) -> None:
        self._office = office
        self._kept = ByteCache[CachedPlan](CACHED)

    def of(self, text: bytes, *, arguments: bool = True) -> CachedPlan:
        """The plan of these checks; of none, that of cases which bring their own. `arguments`: results say what checks were given."""
        owner, key = pool.owner.get(), text if arguments else b"-" + text
        found = self._kept.get(key, owner)
        if found is not None:
            return found
        given, office = self._given(text), self._office
        plan = plan_of(given, office.registry, office.services, ResultOptions(resolved_arguments=arguments))
        made = CachedPlan(plan, None if plan.checks is None else msgspec.Raw(_encode(plan.checks)))
        if plan.shared is not None and len(text) <= LONGEST:
            self._kept.put(key, made, FACTOR * len(text), owner)
        return made

    def _given(self, text: bytes) -> Any:
        if not text:
            return None
        try:
            document = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            raise InvalidRequest(Problem("checks", not_json(text, wrong))) from None
        limits = self._office.services.limits
        if depth(document) > limits.max_depth:
            raise InvalidRequest(Problem("checks", too_deep(limits)))
        return document
