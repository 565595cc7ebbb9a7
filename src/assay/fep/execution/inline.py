"""
Decides whether a plan may run inline on the event loop (linear-time checks, small input) or must go to a worker thread.

A pattern that backtracks or a path that searches may take a second (FEP-22). On the event loop it would block all other
requests.
"""

import math
import time
from collections.abc import Sequence
from itertools import islice
from typing import cast

from msgspec import UNSET

from assay.cache import memoize_on
from assay.checks.arguments import BoundCheck
from assay.checks.async_tasks import run_tasks_async
from assay.checks.checker import Checker
from assay.checks.standard.contains import SEARCH_LIMIT, Contains
from assay.checks.standard.exact_match import ExactMatch
from assay.checks.standard.exists import Exists
from assay.checks.standard.json_match import JsonMatch
from assay.checks.standard.regex import Flags, Regex, cached_pattern
from assay.checks.standard.threshold import Threshold
from assay.concurrency.threads import in_place, in_thread
from assay.fep.execution.execute import begin, tasks_of
from assay.fep.execution.inline_size import INLINE_CONTEXT_BYTES
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import PendingCase, ScoredCase, Scorer
from assay.inputs.context import Context
from assay.jsonpath import Query
from assay.jsonpath.query import stopping
from assay.results.tally import Tally

INLINE_BYTES = 512 * 1024  # limit of the bytes of all contexts
PARSED = 32 * 1024  # the same if a check parses texts
LINEAR: frozenset[type[Checker]] = frozenset({Contains, ExactMatch, Exists, JsonMatch, Threshold})
INLINE_STEPS = 4_000_000  # limit of the steps of all searches of a request
ONLY_BYTES = {bytes}
INLINE_CHECKS = 50_000  # limit of the estimated microseconds of all cases


async def score_contexts(
    plan: Plan,
    contexts: Sequence[Context],
    tally: Tally,
    first: int = 0,
    seconds: float = math.inf,
) -> list[bytes]:
    """Score cases whose checks do not wait. If cancelled or out of time, it stops after the current case."""
    sizes = [len(context.line) for context in contexts]
    size = sum(sizes)
    until = time.monotonic() + seconds
    inline = max(sizes, default=0) <= INLINE_CONTEXT_BYTES and all(
        size <= inline_limit(scorer) and len(contexts) * scorer.steps <= INLINE_CHECKS
        for scorer in (
            await in_place(lambda: scorers(plan, contexts, first)) if plan.shared is None else [plan.shared]
        )
    )
    if inline:
        if plan.shared is not None and all(context.checks is None for context in contexts):
            return await _complete(plan.shared.begin_all(contexts, tally), tally, until)
        begun = [one for _, one in begin(plan, contexts, tally, first)]
        return await _complete(begun, tally, until)
    stopped = False

    def late() -> bool:
        return stopped or time.monotonic() > until

    def score_all() -> list[ScoredCase | PendingCase]:
        stopping.set(late)
        begun: list[ScoredCase | PendingCase] = []
        for _, one in begin(plan, contexts, tally, first):
            begun.append(one)
            if late():
                break
        return begun

    try:
        begun = await in_thread(score_all)
        return await _complete(begun, tally, until)
    finally:
        stopped = True


async def _complete(
    cases: Sequence[bytes | ScoredCase | PendingCase], tally: Tally, deadline: float
) -> list[bytes]:
    """Wait for tasks of worker processes. Out of time: return the lines before the first incomplete case."""
    if set(map(type, cases)) <= ONLY_BYTES:
        return cast("list[bytes]", cases)
    tasks = tasks_of(cases)
    left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
    answers = iter(await run_tasks_async(tasks, left) if tasks else [])
    lines: list[bytes] = []
    for case in cases:
        if isinstance(case, bytes):
            lines.append(case)
            continue
        case_answers = list(islice(answers, len(case.tasks))) if isinstance(case, PendingCase) else []
        if None in case_answers:
            break
        scored = case.complete(case_answers) if isinstance(case, PendingCase) else case
        tally.count_case(scored.status)
        lines.append(scored.line)
    return lines


def any_waits(plan: Plan, contexts: Sequence[Context], first: int = 0) -> bool:
    if plan.shared is not None:
        return plan.shared.waits
    return any(scorer.waits for scorer in scorers(plan, contexts, first))


def scorers(plan: Plan, contexts: Sequence[Context], first: int = 0) -> set[Scorer]:
    """The distinct scorers of these cases."""
    if plan.shared is not None:
        return {plan.shared}
    return {plan.scorer_for(at, context) for at, context in enumerate(contexts, first)}


@memoize_on
def inline_limit(scorer: Scorer) -> int:
    """How many bytes of contexts this scorer may score on the event loop; 0: none."""
    return 0 if scorer.waits else min(map(_inline_limit, scorer.checks), default=INLINE_BYTES)


def _inline_limit(bound: BoundCheck) -> int:
    if not all(isinstance(path.query, Query) and path.query.singular for path in bound.paths):
        return 0
    if bound.checker is Contains:
        phrases = bound.literals.get("phrases")
        return 0 if phrases is None else min(INLINE_BYTES, SEARCH_LIMIT // len(phrases))
    if bound.checker in LINEAR:
        parses = any(path.field.name == "parse" for path in bound.paths)
        return PARSED if parses or bound.literals.get("parse", UNSET) is not UNSET else INLINE_BYTES
    return _regex_limit(bound) if bound.checker is Regex else 0


def _regex_limit(bound: BoundCheck) -> int:
    pattern, flags = bound.literals.get("pattern"), bound.literals.get("flags", Flags())
    if not isinstance(pattern, str) or not isinstance(flags, Flags):
        return 0
    found = cached_pattern(pattern, flags)
    if found is None:
        return 0  # a thread compiles it again
    search = found.search
    return (
        min(INLINE_BYTES, int(INLINE_STEPS / search.linear)) if search.longest >= INLINE_CONTEXT_BYTES else 0
    )
