"""Deadlines of invocations (FEP-32)."""

import asyncio
import math
from collections.abc import Awaitable

from assay.foreign_code import detach_task
from assay.ports.agents import AgentContext
from assay.protocol.agents import InvocationResult

MOMENT = 0.5  # seconds to clean up after a deadline


async def with_deadline(
    context: AgentContext, seconds: float | None, work: Awaitable[InvocationResult]
) -> InvocationResult:
    """
    Await an invocation; at its deadline the result is `failed`. A task that ignores its cancellation is left behind.
    """
    left = min(context.remaining_seconds, math.inf if seconds is None else seconds)
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=None if left == math.inf else max(0.0, left))
        if done:
            return task.result()
        task.cancel()
        await asyncio.wait([task], timeout=MOMENT)
        return InvocationResult(outcome="failed", error=f"no result within {left:.3g} s")
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=MOMENT)
        if not task.done():
            detach_task(task)
        elif not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
