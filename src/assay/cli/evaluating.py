"""What `assay evaluate` does, in the order it happens: gather, plan, execute, record, report."""

import math
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from assay import app
from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry
from assay.checks.run import Options
from assay.cli.aside import prints_aside
from assay.cli.asked import EvaluateOptions
from assay.cli.gathering import BadLines, Inputs, open_inputs
from assay.cli.progress import ProgressLine
from assay.cli.recording import flush, write_results
from assay.cli.say import give, say, tell
from assay.errors import EnvironmentFailure, InvalidRequest, Refusal, UsageError
from assay.fep import resume
from assay.fep.execute import ExecutionOptions
from assay.fep.plan import Plan
from assay.fep.problems import ProblemCollector
from assay.fep.request import own_problems, plan_of, sheets_of
from assay.fep.results import metadata_of
from assay.fep.sinks import JsonlSink, RunFooter, Sink, sink_for
from assay.fep.sources import placed
from assay.fep.tally import Tally
from assay.ports import Services
from assay.runs.ids import new_id
from assay.settings import Settings, load

PASSED, BROKEN, NOT_PASSED = 0, 1, 3


def carry_out(asked: EvaluateOptions) -> int:
    settings = load(concurrency=asked.concurrency)
    _sensible(asked)
    policy = ProviderPolicy(seconds=asked.timeout or settings.limits.check_seconds)
    services = app.services(settings, policy, cache=asked.cache)
    bad = BadLines()
    gathered = open_inputs(asked, settings, bad)
    options = Options(resolved_arguments=asked.resolved_arguments, timings=asked.timings)
    with prints_aside():
        plan = _planned(asked, gathered, app.registry(settings, asked.modules), services, options)
    began, started = time.perf_counter(), services.clock.now()
    tally, trouble = Tally(), None
    sinks = _open(asked, plan, gathered, options, tally)
    run = new_id("eval_")
    if asked.save:
        from assay.cli.saving import StoreSink  # a lazy door: most runs keep no record

        saved = StoreSink(settings, gathered.checks, gathered.experiment, tally, services.clock)
        sinks.append(saved)
        run = saved.run
    try:
        with _terminable(), prints_aside(), _flushed(sinks):
            _execute(plan, gathered, tally, sinks, asked, settings, bad)
    except (EnvironmentFailure, InvalidRequest) as refusal:
        trouble = refusal
    except KeyboardInterrupt:
        trouble = EnvironmentFailure(
            f"interrupted: {tally.cases:,} cases are done, the rest was not measured"
        )
    closing = RunFooter(
        evaluation_id=run,
        started_at=started,
        completed_at=services.clock.now(),
        status="error" if trouble or bad.many else tally.status,
        summary=tally.summary(),
        experiment=gathered.experiment,
        metadata=metadata_of(tally) or None,
        trouble=str(trouble or ""),
    )
    trouble = _close(sinks, closing, trouble)
    _report(asked, tally, bad, closing, time.perf_counter() - began, trouble)
    return _exit_code(asked, tally, bad, trouble)


def _planned(
    asked: EvaluateOptions, gathered: Inputs, registry: Registry, services: Services, options: Options
) -> Plan:
    """The plan, or all that is wrong with the checks and with the file of a request."""
    gathering, found = ProblemCollector(), gathered.found
    plan = gathering.read(lambda: plan_of(gathered.checks, registry, services, options))
    problems = gathered.problems + placed(asked.checks or str(asked.request), gathering.problems)
    if found is not None:
        own = ProblemCollector()
        if plan is None:
            own.problems += own_problems(found, Plan(None, registry, services))
        else:
            own.read(lambda: sheets_of(plan, found))
        problems += placed(str(asked.request), own.problems)
    if problems or plan is None:
        raise InvalidRequest(problems)
    gathered.checks = plan.checks
    return plan


def _sensible(asked: EvaluateOptions) -> None:
    if asked.timeout == math.inf:
        raise UsageError("--timeout: expected a number of seconds, got inf")
    if asked.max_cost is not None and not asked.max_cost > 0:
        raise UsageError(f"--max-cost: expected a number above 0, got {asked.max_cost:g}")
    if asked.bar is not None and not 0 <= asked.bar <= 1:
        meant = f"; did you mean {asked.bar / 100:g}?" if 1 < asked.bar <= 100 else ""
        raise UsageError(
            f"--min-pass-rate: expected a fraction between 0 and 1, such as 0.9, got {asked.bar:g}{meant}"
        )


def _open(asked: EvaluateOptions, plan: Plan, gathered: Inputs, options: Options, tally: Tally) -> list[Sink]:
    """The files results go to. Resumed, one `.jsonl` is continued and the others are made again from it."""
    _apart(asked)
    if asked.save and asked.resume:
        raise UsageError(
            "--save keeps a whole run, and --resume goes on with a part of one: give one of them"
        )
    lines = [name for name in asked.to if name.endswith((".jsonl", ".ndjson"))]
    regular = [name for name in lines if not Path(name).exists() or Path(name).is_file()]
    if not asked.resume:
        sinks = [sink_for(name) for name in asked.to]
        for name in regular:
            resume.write_fingerprint(name, resume.fingerprint(plan, gathered.checks, options, asked.inputs))
        return sinks
    if len(regular) != 1:
        raise UsageError(f"--resume continues one .jsonl file given with -o; got {len(regular)}")
    (name,) = regular
    how = resume.fingerprint(plan, gathered.checks, options, asked.inputs)
    if Path(name).exists() and Path(name).stat().st_size:
        resume.check_fingerprint(name, how)
    others = [sink_for(other) for other in asked.to if other != name]
    for line in resume.read_existing(name, gathered.contexts, plan, tally):
        for sink in others:
            sink.write(line)
    if tally.cases:
        say(f"{name} holds {tally.cases:,} results already")
    sink = JsonlSink(name, append=True)
    resume.write_fingerprint(name, how)
    return [sink, *others]


def _apart(asked: EvaluateOptions) -> None:
    """An output may not be an input, nor another output: one would destroy the other."""
    taken = {
        Path(name).resolve(): f"the input {name}"
        for name in (*asked.inputs, asked.checks)
        if name and name != "-"
    }
    for name in asked.to:
        place = Path(name).resolve()
        if not (place.exists() and not place.is_file()):  # a device takes what it is given
            if place in taken:
                raise UsageError(f"-o {name} is {taken[place]}: one would destroy the other")
            taken[place] = f"given twice, as {name}"


def _execute(
    plan: Plan,
    gathered: Inputs,
    tally: Tally,
    sinks: list[Sink],
    asked: EvaluateOptions,
    settings: Settings,
    bad: BadLines,
) -> None:
    progress = ProgressLine(quiet=asked.json)
    how = ExecutionOptions(
        concurrency=settings.concurrency,
        seconds=asked.timeout or settings.limits.check_seconds,
        run_seconds=settings.limits.run_seconds,
        fail_fast=asked.fail_fast,
        first=tally.cases,
        max_cost=asked.max_cost,
    )
    try:
        if asked.jobs > 1:
            from assay.cli.shards import shard  # a lazy door: most runs take one process

            why_not = shard(plan, gathered, tally, sinks, asked, settings, how, bad, progress)
            if why_not is None:
                return
            say(f"--jobs {asked.jobs}: {why_not}, so one process does it all")
        write_results(plan, gathered, tally, sinks, how, progress)
    finally:
        progress.clear()


def _close(sinks: list[Sink], closing: RunFooter, trouble: Refusal | None) -> Refusal | None:
    """Every file is left whole; the first trouble is the one that is told."""
    for sink in sinks:
        try:
            sink.close(closing)
        except EnvironmentFailure as broken:
            trouble = trouble or broken
    return trouble


def _report(
    asked: EvaluateOptions,
    tally: Tally,
    bad: BadLines,
    closing: RunFooter,
    seconds: float,
    trouble: Refusal | None,
) -> None:
    from assay.cli import report  # rich takes a while to load: only when there is something to show

    if asked.json:
        told = {"evaluation_id": closing.evaluation_id, **report.summary_of(tally), "outputs": asked.to}
        told |= {"status": closing.status, "seconds": round(seconds, 3), "bad_lines": bad.many}
        told |= {"error": str(trouble)} if trouble else {}
        out = sys.stderr if "-" in asked.to else sys.stdout
        give(msgspec.json.encode(told), out)
    elif "-" not in asked.to:
        name = closing.experiment.name if closing.experiment and closing.experiment.name else None
        report.show(tally, bar=asked.bar, seconds=seconds, experiment=name)
        if asked.save:
            tell(f"kept as {closing.evaluation_id}: assay show {closing.evaluation_id}")
        for written in asked.to:
            tell(f"results in {written}")
    else:
        for told in report.shortfalls(tally, asked.bar):
            say(told)
    if asked.max_cost is not None and (unknown := tally.spending.unknown_costs):
        say(
            f"--max-cost: nobody knows what {unknown:,} of {tally.spending.calls:,} answers cost, and they do not count"
        )
    _report_trouble(tally, bad, trouble)


def _report_trouble(tally: Tally, bad: BadLines, trouble: Refusal | None) -> None:
    if bad.many:
        say(f"{bad.many:,} lines were no contexts, and were not measured")
    if trouble is None:
        if not tally.cases:
            say("there was nothing to evaluate: no test cases")
        elif not tally.rows:
            say("there are no checks, so nothing was asked of any case")
        return
    for line in trouble.lines:
        say(line)
    if tally.cases and not isinstance(trouble, EnvironmentFailure):
        say(f"stopped there: {tally.cases:,} cases are done, the rest was not measured")


def _exit_code(asked: EvaluateOptions, tally: Tally, bad: BadLines, trouble: Refusal | None) -> int:
    from assay.cli.report import overall  # loaded already, to show the table

    measured = not (tally.error_cases or tally.skipped_cases or bad.many)
    rows = tally.rows.values()
    nothing = not tally.cases or (rows and not any(row.completed for row in rows))
    if trouble or nothing or not (measured or asked.allow_errors):
        return BROKEN
    if asked.bar is None:
        return PASSED
    share = overall(tally)
    if share is None:
        say("--min-pass-rate: no check answered pass or fail, so there is no rate")
        return BROKEN
    return PASSED if share >= asked.bar else NOT_PASSED


@contextmanager
def _flushed(sinks: list[Sink]) -> Generator[None]:
    """Whatever happens, what is done is kept."""
    try:
        yield
    except BaseException:  # said again at once: only the results come first
        with suppress(EnvironmentFailure):
            flush(sinks)
        raise


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
