"""Results from this process into their files, in order and soon."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing, suppress

from assay.cli.gathering import Inputs
from assay.cli.progress import ProgressLine
from assay.errors import RunTimeout
from assay.fep.execute import ExecutionOptions, score, stream
from assay.fep.plan import Plan
from assay.fep.scorer import ScoredCase
from assay.fep.sinks import Sink
from assay.fep.sources import planned
from assay.fep.tally import Tally

FLUSH = 0.5  # seconds that a result may wait in memory


def write_results(
    plan: Plan,
    gathered: Inputs,
    tally: Tally,
    sinks: list[Sink],
    how: ExecutionOptions,
    progress: ProgressLine,
) -> None:
    """Without a loop where no check waits."""
    if plan.shared is not None and not plan.shared.waits and not how.fail_fast:
        _at_once(score(plan, gathered.contexts, tally), gathered, tally, sinks, how, progress)
    else:
        asyncio.run(_waiting(plan, gathered, tally, sinks, how, progress))


def _at_once(
    results: Iterator[ScoredCase],
    gathered: Inputs,
    tally: Tally,
    sinks: list[Sink],
    how: ExecutionOptions,
    progress: ProgressLine,
) -> None:
    """The tight loop. Results go out in large pieces; a clock is looked at now and then."""
    writes = [sink.write for sink in sinks]
    flushed = time.monotonic()
    until = flushed + how.run_seconds
    for at, scored in enumerate(results):
        for write in writes:
            write(scored.line)
        if at % 64 == 0:
            progress(tally.cases, tally.error_cases, gathered.total, gathered.part)
            now = time.monotonic()
            if now > until:
                raise RunTimeout(how.run_seconds)
            if now - flushed > FLUSH:
                flush(sinks)
                flushed = now


async def _waiting(
    plan: Plan,
    gathered: Inputs,
    tally: Tally,
    sinks: list[Sink],
    how: ExecutionOptions,
    progress: ProgressLine,
) -> None:
    ticking = asyncio.create_task(_tick(gathered, tally, sinks, progress))
    try:
        async with (
            asyncio.timeout(how.run_seconds),
            aclosing(
                stream(plan, planned(gathered.contexts, gathered.source, plan, how.first), tally, how)
            ) as results,
        ):
            async for scored in results:
                for sink in sinks:
                    sink.write(scored.line)
                if ticking.done():
                    await ticking  # a file that can no longer be written
    except TimeoutError:
        raise RunTimeout(how.run_seconds) from None
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        await plan.services.close()


async def _tick(gathered: Inputs, tally: Tally, sinks: list[Sink], progress: ProgressLine) -> None:
    """What is done goes out even while everything waits."""
    while True:
        await asyncio.sleep(0.1)
        flush(sinks)
        progress(tally.cases, tally.error_cases, gathered.total, gathered.part)


def flush(sinks: list[Sink]) -> None:
    for sink in sinks:
        sink.flush()
