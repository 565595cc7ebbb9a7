"""What `assay evaluate` does, in the order it happens: gather, plan, execute, record, report."""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay import app
from assay.checks.run import Options
from assay.cli.progress import Progress
from assay.errors import BadLine, Broken, InvalidRequest, Refusal, WrongUsage
from assay.fep.context import Context
from assay.fep.execute import Conduct, score, stream
from assay.fep.plan import Checks, Plan
from assay.fep.project import new_id
from assay.fep.request import sheets_of
from assay.fep.sheet import Scored
from assay.fep.sinks import Closing, Sink, sink_for
from assay.fep.sources import Source, checks_in, from_contexts, from_pair, from_request
from assay.fep.tally import Tally
from assay.protocol.evaluation import ExperimentMetadata
from assay.settings import Settings, load

LISTED = 10  # bad lines named one by one
FLUSH = 0.5  # seconds that a result may wait in memory


class Asked(Struct, frozen=True, kw_only=True):
    """The command line."""

    request: str | None = None
    contexts: str | None = None
    cases: str | None = None
    outputs: str | None = None
    checks: str | None = None
    to: list[str] = []
    modules: list[str] = []
    bar: float | None = None
    allow_errors: bool = False
    resolved_arguments: bool = True
    timings: bool = False
    skip_bad_lines: bool = False
    limit: int | None = None
    experiment: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    fail_fast: bool = False
    json: bool = False


class Gathered(Struct):
    """What the run is about: the cases, how many if that is known, and the checks."""

    contexts: Iterator[Context]
    checks: Checks
    experiment: ExperimentMetadata | None = None
    total: int | None = None
    source: Source | None = None
    size: int = 0
    whole: list[Context] | None = None  # all there, so that everything can be refused before it runs


class Bad:
    """Lines that were no contexts: counted, and the first of them named."""

    def __init__(self) -> None:
        self.many = 0

    def __call__(self, bad: BadLine) -> None:
        self.many += 1
        if self.many <= LISTED:
            for problem in bad.problems:
                _say(f"skipped {problem}")


def carry_out(asked: Asked) -> int:
    settings = load(concurrency=asked.concurrency)
    services = app.services(settings)
    bad = Bad()
    gathered = gather(asked, settings, bad)
    options = Options(resolved_arguments=asked.resolved_arguments, timings=asked.timings)
    plan = Plan(gathered.checks, app.registry(settings, asked.modules), services, options)
    if gathered.whole is not None:
        sheets_of(plan, gathered.whole)
    sinks = [sink_for(name) for name in asked.to]
    began, started = time.perf_counter(), services.clock.now()
    tally, trouble = Tally(), None
    try:
        with _terminable():
            _execute(plan, gathered, tally, sinks, asked, settings)
    except (BadLine, Broken, InvalidRequest) as refusal:
        trouble = refusal
    except KeyboardInterrupt:
        trouble = Broken(f"interrupted: {tally.cases:,} cases are done, the rest was not measured")
    closing = Closing(
        evaluation_id=new_id(),
        started_at=started,
        completed_at=services.clock.now(),
        status="error" if trouble or bad.many else tally.status,
        summary=tally.summary(),
        experiment=gathered.experiment,
    )
    trouble = _close(sinks, closing, trouble)
    _report(asked, tally, bad, closing, time.perf_counter() - began, trouble)
    return _exit_code(asked, tally, bad, trouble)


def gather(asked: Asked, settings: Settings, bad: Bad) -> Gathered:
    """The one way in that was chosen; the others must be absent."""
    ways = {
        "REQUEST": asked.request,
        "--contexts": asked.contexts,
        "--cases and --outputs": asked.cases or asked.outputs,
    }
    given = [name for name, value in ways.items() if value]
    if len(given) != 1:
        raise WrongUsage(f"wanted one of {', '.join(ways)}; got {' and '.join(given) or 'none'}")
    if (asked.cases is None) != (asked.outputs is None):
        raise WrongUsage("--cases and --outputs go together, and one is missing")
    limits = settings.limits
    checks = checks_in(asked.checks, limits) if asked.checks else None
    named = ExperimentMetadata(name=asked.experiment) if asked.experiment else None
    if asked.request:
        contexts, theirs, experiment = from_request(asked.request, limits)
        if checks is not None and theirs is not None:
            raise WrongUsage(
                f"{asked.request} has checks, and so has --checks {asked.checks}: give one of them"
            )
        whole = contexts[: asked.limit]
        return Gathered(
            iter(whole), theirs if checks is None else checks, named or experiment, len(whole), whole=whole
        )
    on_bad = bad if asked.skip_bad_lines else None
    if asked.contexts:
        source = from_contexts(asked.contexts, limits, on_bad)
        name = asked.contexts
    else:
        assert asked.cases is not None
        assert asked.outputs is not None
        source, name = from_pair(asked.cases, asked.outputs, limits, on_bad), asked.cases
    size = 0 if name == "-" or name.endswith(".gz") or not Path(name).exists() else Path(name).stat().st_size
    return Gathered(
        islice(iter(source), asked.limit), checks, named, source=source, size=0 if asked.limit else size
    )


def _execute(
    plan: Plan, gathered: Gathered, tally: Tally, sinks: list[Sink], asked: Asked, settings: Settings
) -> None:
    progress = Progress(quiet=asked.json)
    contexts = _placed(gathered)
    try:
        if plan.shared is not None and not plan.shared.waits and not asked.fail_fast:
            _record(score(plan, contexts, tally), gathered, tally, sinks, progress)
        else:
            how = Conduct(
                concurrency=settings.concurrency,
                seconds=asked.timeout or settings.limits.check_seconds,
                run_seconds=settings.limits.run_seconds,
                fail_fast=asked.fail_fast,
            )
            asyncio.run(_record_async(plan, contexts, how, gathered, tally, sinks, progress))
    finally:
        progress.clear()


def _placed(gathered: Gathered) -> Iterator[Context]:
    return gathered.contexts


def _record(
    results: Iterator[Scored], gathered: Gathered, tally: Tally, sinks: list[Sink], progress: Progress
) -> None:
    """The tight loop. Results go out in large pieces; a clock is looked at now and then."""
    writes = [sink.write for sink in sinks]
    flushed = time.monotonic()
    for at, scored in enumerate(results):
        for write in writes:
            write(scored.line)
        if at % 64 == 0 and time.monotonic() - flushed > FLUSH:
            _flush(sinks)
            flushed = time.monotonic()
            progress(tally.cases, tally.error_cases, gathered.total, _part(gathered))


async def _record_async(
    plan: Plan,
    contexts: Iterator[Context],
    how: Conduct,
    gathered: Gathered,
    tally: Tally,
    sinks: list[Sink],
    progress: Progress,
) -> None:
    results = stream(plan, contexts, tally, how)
    ticking = asyncio.create_task(_tick(gathered, tally, sinks, progress))
    try:
        async for scored in results:
            for sink in sinks:
                sink.write(scored.line)
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        await _closed(results)


async def _tick(gathered: Gathered, tally: Tally, sinks: list[Sink], progress: Progress) -> None:
    while True:
        await asyncio.sleep(0.1)
        _flush(sinks)
        progress(tally.cases, tally.error_cases, gathered.total, _part(gathered))


async def _closed(results: AsyncIterator[Any]) -> None:
    close = getattr(results, "aclose", None)
    if close is not None:
        await close()


def _part(gathered: Gathered) -> float | None:
    return gathered.source.read / gathered.size if gathered.source and gathered.size else None


def _flush(sinks: list[Sink]) -> None:
    for sink in sinks:
        sink.flush()


def _close(sinks: list[Sink], closing: Closing, trouble: Refusal | None) -> Refusal | None:
    """Every file is left whole; the first trouble is the one that is told."""
    for sink in sinks:
        try:
            sink.close(closing)
        except Broken as broken:
            trouble = trouble or broken
    return trouble


def _report(
    asked: Asked, tally: Tally, bad: Bad, closing: Closing, seconds: float, trouble: Refusal | None
) -> None:
    from assay.cli import report  # rich takes a while to load: only when there is something to show

    if asked.json:
        told = {"evaluation_id": closing.evaluation_id, **report.summary_of(tally), "outputs": asked.to}
        told |= {"status": closing.status, "seconds": round(seconds, 3), "bad_lines": bad.many}
        told |= {"error": str(trouble)} if trouble else {}
        print(msgspec.json.encode(told).decode(), file=_out(asked))
    elif "-" not in asked.to:
        name = closing.experiment.name if closing.experiment and closing.experiment.name else None
        report.show(tally, bar=asked.bar, seconds=seconds, experiment=name)
        for written in asked.to:
            print(f"results in {written}")  # noqa: T201
    _report_trouble(tally, bad, trouble)


def _report_trouble(tally: Tally, bad: Bad, trouble: Refusal | None) -> None:
    if bad.many:
        _say(f"{bad.many:,} lines were no contexts, and were not measured")
    if trouble is None:
        if not tally.cases:
            _say("there was nothing to evaluate: no test cases")
        return
    for problem in trouble.problems if isinstance(trouble, InvalidRequest) else [trouble]:
        _say(str(problem))
    if tally.cases and not isinstance(trouble, Broken):
        _say(f"stopped there: {tally.cases:,} cases are done, the rest was not measured")


def _out(asked: Asked) -> Any:
    return sys.stderr if "-" in asked.to else sys.stdout


def _exit_code(asked: Asked, tally: Tally, bad: Bad, trouble: Refusal | None) -> int:
    from assay.cli.report import overall

    measured = not (tally.error_cases or tally.skipped_cases or bad.many)
    rows = tally.rows.values()
    nothing = not tally.cases or (rows and not any(row.completed for row in rows))
    if trouble or nothing or not (measured or asked.allow_errors):
        return 1
    if asked.bar is None:
        return 0
    share = overall(tally)
    if share is None:
        _say("--min-pass-rate: no check answered pass or fail, so there is no rate")
        return 1
    return 0 if share >= asked.bar else 3


@contextmanager
def _terminable() -> Generator[None]:
    """A polite kill is an interrupt: what is done is written first."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str) -> None:
    print(f"assay: {text}".encode("utf-8", "replace").decode(), file=sys.stderr)  # noqa: T201
