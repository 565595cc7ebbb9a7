"""
Whether checks surely answer in no time: those an event loop may run where it stands; others go to a thread.

A pattern that backtracks or a path that searches may take its whole second (decision 22), and meanwhile nobody else is served.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from assay.checks.arguments import Bound
from assay.checks.backtracking import longest_safe_text
from assay.checks.checker import Checker
from assay.checks.contains import Contains
from assay.checks.exact_match import ExactMatch
from assay.checks.exists import Exists
from assay.checks.json_match import JsonMatch
from assay.checks.regex import Flags, Regex
from assay.checks.threshold import Threshold
from assay.fep.compiled import Told
from assay.fep.context import Context
from assay.fep.execute import score
from assay.fep.plan import Plan
from assay.fep.sheet import Sheet
from assay.fep.tally import Tally
from assay.paths import Query

LONGEST = 32 * 1024  # bytes of a context
MOST = 512 * 1024  # bytes of all
LINEAR: frozenset[type[Checker]] = frozenset({Contains, ExactMatch, Exists, JsonMatch, Threshold})
THREADS = 8


async def scored(
    plan: Plan,
    contexts: Sequence[Context],
    tally: Tally,
    first: int = 0,
    seconds: float = math.inf,
    told: list[Told | None] | None = None,
) -> list[bytes]:
    """The results of cases of which no check waits. Cancelled, or out of time, it ends after the case it is at."""
    sizes = [len(context.line) for context in contexts]
    size = sum(sizes)
    small = size <= LONGEST or (size <= MOST and max(sizes) <= LONGEST)
    if small and all(map(prompt, sheets(plan, contexts, first))):
        if plan.shared is not None and all(context.checks is None for context in contexts):
            return plan.shared.lines(contexts, tally, told)
        return [one.line for one in score(plan, contexts, tally, first, told)]
    stopped, until = False, time.monotonic() + seconds

    def work() -> list[bytes]:
        lines: list[bytes] = []
        for one in score(plan, contexts, tally, first, told):
            lines.append(one.line)
            if stopped or time.monotonic() > until:
                break
        return lines

    try:
        return await asyncio.get_running_loop().run_in_executor(_threads(), work)
    finally:
        stopped = True


def waits(plan: Plan, contexts: Sequence[Context], first: int = 0) -> bool:
    if plan.shared is not None:
        return plan.shared.waits
    return any(sheet.waits for sheet in sheets(plan, contexts, first))


def sheets(plan: Plan, contexts: Sequence[Context], first: int = 0) -> set[Sheet]:
    """The different ones that these cases are put to."""
    if plan.shared is not None:
        return {plan.shared}
    return {plan.sheet(at, context) for at, context in enumerate(contexts, first)}


@lru_cache(maxsize=1024)
def prompt(sheet: Sheet) -> bool:
    return not sheet.waits and all(map(_prompt, sheet.bounds))


def _prompt(bound: Bound) -> bool:
    if not all(isinstance(path.query, Query) and path.query.singular for path in bound.paths):
        return False
    if bound.checker in LINEAR:
        return True
    return bound.checker is Regex and _safe(bound)


def _safe(bound: Bound) -> bool:
    pattern, flags = bound.literals.get("pattern"), bound.literals.get("flags", Flags())
    return isinstance(pattern, str) and isinstance(flags, Flags) and _longest(pattern, flags) >= LONGEST


@lru_cache(maxsize=1024)
def _longest(pattern: str, flags: Flags) -> int:
    return longest_safe_text(pattern, 0)


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="assay-checks")
