"""
Decides whether a plan may run inline on the event loop (linear-time checks, small input) or must go to a worker thread.

A pattern that backtracks or a path that searches may take a second (FEP-22). On the event loop it would block all other
requests.
"""

from collections.abc import Sequence

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
from assay.fep.execution.execute import Execution, ExecutionOptions
from assay.fep.execution.scheduler import INLINE_CONTEXT_BYTES
from assay.fep.execution.stream import stream
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import OpenCase, ScoredCase, Scorer
from assay.inputs.context import Context
from assay.jsonpath import Query
from assay.jsonpath.query import stopping
from assay.results.tally import Tally

INLINE_BYTES = 512 * 1024  # limit of the bytes of all contexts
PARSED = 32 * 1024  # the same if a check parses texts
LINEAR: frozenset[type[Checker]] = frozenset({Contains, ExactMatch, Exists, JsonMatch, Threshold})
INLINE_STEPS = 4_000_000  # limit of the steps of all searches of a request
INLINE_CHECKS = 50_000  # limit of the estimated microseconds of all cases


async def score_contexts(
    plan: Plan, contexts: Sequence[Context], tally: Tally, options: ExecutionOptions | None = None
) -> list[bytes]:
    """
    The lines of the results of some cases. If cancelled or out of time, it stops after the current case, unless a check
    waits.
    """
    options = options or ExecutionOptions()
    execution = Execution(plan, contexts, tally, options)
    distinct = (
        await in_place(lambda: scorers(plan, contexts, options.first))
        if plan.shared is None
        else {plan.shared}
    )
    if any(scorer.waits for scorer in distinct):
        return [case.line async for case in stream(execution)]
    sizes = [len(context.line) for context in contexts]
    size = sum(sizes)
    if max(sizes, default=0) <= INLINE_CONTEXT_BYTES and all(
        size <= inline_limit(scorer) and len(contexts) * scorer.steps <= INLINE_CHECKS for scorer in distinct
    ):
        return await _complete([execution.begin(context) for context in contexts], execution)
    stopped = False

    def late() -> bool:
        return stopped or not execution.remaining_seconds

    def begin_all() -> list[ScoredCase | OpenCase]:
        stopping.set(late)
        open_cases: list[ScoredCase | OpenCase] = []
        for context in contexts:
            open_cases.append(execution.begin(context))
            if late():
                break
        return open_cases

    try:
        return await _complete(await in_thread(begin_all), execution)
    finally:
        stopped = True


async def _complete(cases: Sequence[ScoredCase | OpenCase], execution: Execution) -> list[bytes]:
    """Wait for tasks of worker processes. Out of time: return the lines before the first incomplete case."""
    tasks = [one.task for case in cases if isinstance(case, OpenCase) for one in case.tasks.values()]
    answers = iter(await run_tasks_async(tasks, execution.remaining_seconds) if tasks else ())
    lines: list[bytes] = []
    for case in cases:
        if isinstance(case, OpenCase):
            for at, (check, _) in case.tasks.items():
                if (answer := next(answers)) is None:
                    return lines
                case.set_result(at, case.scorer.to_result(check, answer))
        scored = case.result() if isinstance(case, OpenCase) else case
        execution.tally.count_case(scored.status)
        lines.append(scored.line)
    return lines


def any_waits(plan: Plan, contexts: Sequence[Context], first: int = 0) -> bool:
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
