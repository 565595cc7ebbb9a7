"""One evaluation of the command: what it reads, what it runs, and where its results go."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, nullcontext
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry, function_checks
from assay.checks.runner import ResultOptions, call
from assay.cli.console.batches import WINDOW as BATCH_WINDOW
from assay.cli.console.batches import batch_options, first_signal_cancels
from assay.cli.console.check_modules import note_unused
from assay.cli.console.console import ProgressLine, stdout_to_stderr
from assay.cli.evaluate.bars import read_bars, slice_sink, with_check_names
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.inputs_outputs import BadLines, flush, open_inputs, open_sinks
from assay.cli.evaluate.shard import begin_part, require_shared, validate_shard
from assay.cli.evaluate.table_input import require_expected
from assay.cli.evaluate.until_options import validate_until
from assay.cli.render.repeats import validate_ks
from assay.concurrency.garbage import gc_rare
from assay.concurrency.interrupts import Interrupts
from assay.errors import InvalidRequest, RunTimeout, UsageError
from assay.fep.execution.execute import WINDOW, Execution, ExecutionOptions
from assay.fep.outputs.failing_cases import FailingCases
from assay.fep.outputs.sinks import Sink
from assay.fep.planning.plan import Plan, ProblemCollector
from assay.fep.planning.request import own_problems, plan_of, scorers_of
from assay.fep.planning.scorer import ScoredCase
from assay.fep.planning.sources import valid_contexts, with_file_name
from assay.host import parts
from assay.inputs.context import Context
from assay.ports.batches import BatchOptions
from assay.results.tally import Tally
from assay.runs.intake import new_id
from assay.runs.provenance import check_tags, provenance_of
from assay.settings import Settings, load

if TYPE_CHECKING:
    from assay.cli.evaluate.agent_dataset import AgentExecution
    from assay.cli.evaluate.baseline_results import BaselineSink
    from assay.cli.evaluate.until_decided import UntilDecided
    from assay.cli.stored_runs.send import Target

FLUSH_SECONDS = 0.5  # a result stays in memory this long at most
EVERY = 64  # cases between two looks at the clock


@runtime_checkable
class CaseSink(Sink, Protocol):
    """A sink that can write a case without the JSON of its result."""

    def write_case(self, case: ScoredCase) -> None: ...


class Evaluation:
    """
    The plan of a run, its cases, its counts and its sinks. The constructor refuses what is wrong with the options and
    the inputs; nothing has run then.
    """

    def __init__(self, options: EvaluateOptions, resources: ExitStack, counters: Sequence[Sink] = ()) -> None:
        """`counters` receive every result, beside the files and the store."""
        self.options, self.settings = options, load(concurrency=options.concurrency)
        self.interrupts = Interrupts(foreign=[call.__code__])
        _validate(options)
        self.targets, self._counters = _targets(options), counters
        bars = read_bars(options.bars, options.by)
        validate_until(options, bars.overall, other_bars=any(one.target for one in bars.bars))
        self.check_seconds = options.timeout or self.settings.limits.check_seconds
        self._batch = batch_options(
            self.settings,
            batch=options.batch,
            hours=options.batch_hours,
            max_cost=options.max_cost,
        )
        self.services = parts.services(
            self.settings,
            ProviderPolicy(seconds=self.check_seconds),
            cache=options.cache,
            batch=self._batch,
        )
        self.bad_lines = BadLines()
        self.inputs = open_inputs(options, self.settings, self.bad_lines)
        self.agent: AgentExecution | None = None
        with stdout_to_stderr():
            registry = parts.registry(self.settings, options.modules)
            written = self.inputs.checks
            self.plan = self._plan(registry)
            require_expected(options, written, self.settings.limits)
            if options.agent is not None:
                self.agent = _agent_execution(options, self.settings, registry, self._batch)
                self.agent.prepare(self.plan, self.inputs, resources)
        self.began, self.started = time.perf_counter(), self.services.clock.now()
        self.tally, self.failing, self.run = Tally(), FailingCases(), new_id("eval_")
        self.bars = with_check_names(bars, self.plan.label_types, options.by)
        self.slices = slice_sink(self.bars, self.inputs.columns(options))
        self.until = _until_sink(options, self.bars.overall, self.tally)
        self.baseline = _baseline_sink(options) if self.until is None else None
        begin_part(options)
        self.sinks = self._open_sinks()
        self.progress = ProgressLine(quiet=options.json)
        self._until = time.monotonic() + self.settings.limits.run_seconds

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def timeout(self) -> RunTimeout:
        return RunTimeout(self.settings.limits.run_seconds)

    def _plan(self, registry: Registry) -> Plan:
        """The plan, or everything that is wrong with the checks and with the request file."""
        options, inputs = self.options, self.inputs
        if inputs.checks is None and options.request is None:
            inputs.checks = function_checks(options.modules)
        shown = ResultOptions(resolved_arguments=options.resolved_arguments, timings=options.timings)
        collector, parsed = ProblemCollector(), inputs.request_contexts
        plan = collector.read(lambda: plan_of(inputs.checks, registry, self.services, shown))
        source = (
            options.checks
            or options.request
            or ("--check-module" if options.modules else options.contexts or "".join(options.traces[:1]))
        )
        problems = inputs.problems + with_file_name(source or str(options.cases), collector.problems)
        if parsed is not None:
            own = ProblemCollector()
            if plan is None:
                own.problems += own_problems(parsed, Plan(None, registry, self.services))
            else:
                own.read(lambda: scorers_of(plan, parsed))
            problems += with_file_name(str(options.request), own.problems)
        if problems or plan is None:
            raise InvalidRequest(problems)
        require_shared(plan, options)
        inputs.checks = plan.checks
        if options.checks is not None:
            note_unused(options.modules, plan, options.checks)
        return plan

    def _open_sinks(self) -> list[Sink]:
        counters = [one for one in (self.slices, self.baseline, self.until) if one is not None]
        sinks = open_sinks(self.options, self.plan, self.inputs, self.tally, [*counters, *self._counters])
        if self.agent is None and self.options.save:
            from assay.fep.records.save import StoreSink  # deferred import: most runs are not stored

            store, inputs = parts.store(self.settings, light=True), self.inputs
            saved = StoreSink(
                store,
                inputs.checks,
                inputs.experiment,
                self.tally,
                self.services.clock,
                tags=self.options.tags,
                columns=inputs.columns(self.options),
                provenance=provenance_of(sys.argv[1:]),
                data=self.options.data_digest,
                news=self.until.metadata if self.until else dict,
            )
            sinks.append(saved)
            self.run = saved.run
        return sinks

    def score(self, contexts: Iterator[Context]) -> None:
        """Score cases in this process and write their results in order; on an event loop only if a case needs one."""
        options, first = self.options, self.tally.cases
        if self._batch is not None:  # what an interrupted run spent counts
            budget = self._batch.budget
            budget.spent = max(budget.spent, self.tally.spending.known_cost_usd)
        execution = Execution(
            self.plan,
            valid_contexts(contexts, self.inputs.source, self.plan, first),
            self.tally,
            ExecutionOptions(
                concurrency=self.settings.concurrency,
                seconds=self.check_seconds,
                run_seconds=math.inf,  # `timeout` says that the time is up; nothing is skipped
                fail_fast=options.fail_fast,
                first=first,
                max_cost=options.max_cost,
                window=BATCH_WINDOW if self._batch else WINDOW,
                deferred=any(isinstance(sink, CaseSink) for sink in self.sinks),
            ),
            self.interrupts,
        )
        write, flushed = self._writer(), time.monotonic()
        for at, case in enumerate(execution.score_in_place()):
            write(case)
            if at % EVERY == 0:
                self._show_progress()
                now = time.monotonic()
                if now > self._until:
                    raise self.timeout()
                if now - flushed > FLUSH_SECONDS:
                    flush(self.sinks)
                    flushed = now
        if not execution.is_complete:
            import asyncio  # deferred import, with TLS and sockets: most runs need no event loop

            try:
                with gc_rare():
                    asyncio.run(self._score_on_loop(execution, write))
            except asyncio.CancelledError:  # `first_signal_cancels`
                raise KeyboardInterrupt from None

    async def _score_on_loop(self, execution: Execution, write: Callable[[ScoredCase], None]) -> None:
        """Score the cases that `score` left."""
        import asyncio  # deferred import, as in `score`

        from assay.fep.execution.stream import stream  # deferred import

        async def flush_often() -> None:
            """Write results even while every check waits."""
            while True:
                await asyncio.sleep(0.1)
                with self.interrupts:
                    flush(self.sinks)
                self._show_progress()

        ticker = asyncio.create_task(flush_often())
        with nullcontext() if self._batch is None else first_signal_cancels():
            try:
                async with asyncio.timeout(self.remaining_seconds), aclosing(stream(execution)) as cases:
                    async for case in cases:
                        write(case)
                        if ticker.done():
                            await ticker  # raises: a file can no longer be written
            except TimeoutError:
                raise self.timeout() from None
            finally:
                ticker.cancel()
                await asyncio.wait((ticker,))
                await self.services.close()
                failure = None if ticker.cancelled() else ticker.exception()
                if isinstance(failure, Exception):  # an interrupt in it has left the event loop already
                    raise failure

    def _writer(self) -> Callable[[ScoredCase], None]:
        """The function that gives a case to every sink. The line of a case is made only for a sink that takes it."""
        line_writes = [sink.write for sink in self.sinks if not isinstance(sink, CaseSink)]
        case_writes = [sink.write_case for sink in self.sinks if isinstance(sink, CaseSink)]
        note = self.failing.note_case

        def write(case: ScoredCase) -> None:
            line = b""
            if line_writes:
                line = case.line
                for write_line in line_writes:
                    write_line(line)
            for write_case in case_writes:
                write_case(case)
            note(case, line)

        return write

    def _show_progress(self) -> None:
        self.progress(self.tally.cases, self.tally.error_cases, self.inputs.total, self.inputs.part)


def _validate(options: EvaluateOptions) -> None:
    _validate_agent(options)
    validate_shard(options)
    check_tags(options.own_tags)
    if options.timeout == math.inf:
        raise UsageError("--timeout: expected a number of seconds, got inf")
    if options.max_cost is not None and not options.max_cost > 0:
        raise UsageError(f"--max-cost: expected a number above 0, got {options.max_cost:g}")


def _validate_agent(options: EvaluateOptions) -> None:
    """Refuse options that contradict --agent, or that need it."""
    if options.agent is None:
        if options.trials != 1:
            raise UsageError(
                "--trials: expected --agent with it; without an agent there is nothing to repeat"
            )
        return
    validate_ks(options.ks, options.trials)
    if options.request is not None:
        raise UsageError(
            f"--agent: expected --cases F, got {options.request}, a request with outputs;"
            f" use --cases {options.request}, with --checks"
        )
    if options.traces:
        raise UsageError("--agent and --traces: expected one of them, got both; traces have answers")
    if options.outputs is not None:
        raise UsageError("--agent and --outputs: expected one source of outputs, got both")
    if (options.cases is None) == (options.contexts is None):
        got = "both" if options.cases else "none"
        raise UsageError(f"--agent: expected --cases F, or --contexts F whose outputs it replaces; got {got}")
    if (options.jobs or 1) > 1:
        raise UsageError("--jobs and --agent: expected one of them, got both; with --agent use --concurrency")


def _agent_execution(
    options: EvaluateOptions, settings: Settings, registry: Registry, batch: BatchOptions | None
) -> "AgentExecution":
    from assay.cli.evaluate.agent_dataset import AgentExecution  # deferred import

    return AgentExecution(options, settings, registry, batch)


def _targets(options: EvaluateOptions) -> "list[Target]":
    if not options.send:
        return []
    from assay.cli.stored_runs.send import read_targets  # deferred import: most runs send nothing

    return read_targets(options.send)


def _until_sink(options: EvaluateOptions, bar: float | None, tally: Tally) -> "UntilDecided | None":
    if options.until is None:
        return None
    from assay.cli.evaluate.until_decided import UntilDecided  # deferred import

    return UntilDecided(options, bar, tally)


def _baseline_sink(options: EvaluateOptions) -> "BaselineSink | None":
    if options.baseline is None:
        if options.standardize_by is not None:
            raise UsageError(
                "--standardize-by: expected --baseline, or --traces twice; there is nothing to compare with"
            )
        return None
    from assay.cli.evaluate.baseline_results import BaselineSink  # deferred import
    from assay.comparison.sources import CompareOptions, read_options

    return BaselineSink(options.baseline, read_options(CompareOptions(standardize_by=options.standardize_by)))
