"""`assay evaluate --agent`: run an agent over a dataset, and score what comes back."""

import asyncio
import fcntl
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.api.agent_evaluation import AgentEvaluation, AgentRunSpec, CaseSpool, open_agent_evaluation
from assay.api.agents import agent_from
from assay.api.pack_refs import find_agent, names_pack_agent
from assay.checks.registry import Registry
from assay.cli.console.batches import bind_batches
from assay.cli.console.console import ProgressLine, distinct_cases, echo_err
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.inputs_outputs import Inputs, flush
from assay.errors import BadLine, EnvironmentFailure, Problem, UsageError
from assay.fep.agent_runs.agent_kind import is_complete
from assay.fep.agent_runs.agent_output import UNMEASURED
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.outputs.sinks import Sink
from assay.fep.planning.plan import Plan
from assay.fep.planning.sources import valid_contexts
from assay.fep.records.run_header import AgentRequest
from assay.host import parts
from assay.ports import LOCAL_TENANT, Run, Store
from assay.ports.agents import Agent
from assay.ports.batches import BatchOptions
from assay.results.tally import Tally
from assay.runs.provenance import NOTHING, provenance_of
from assay.settings import Settings

IN_MEMORY = 10_000  # trials of a run that is not stored; more are in a temporary database


NOT_ASKED = "not asked"  # a case of a run that stopped before it


class _Metadata(Struct, frozen=True):
    outcome: str = NOT_ASKED
    error: str = ""


class _Output(Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Context(Struct, frozen=True):
    output: _Output


class _Result(Struct, frozen=True):
    execution_context: _Context


_read = msgspec.json.Decoder(_Result).decode


def _find_agent(spec: str, settings: Settings) -> Agent:
    """The agent of the command line; the store is opened only for an id that may be of an installed pack."""
    if not names_pack_agent(spec, settings) or settings.database_url == "memory:":
        return agent_from(spec, settings)

    async def find() -> Agent:
        async with parts.store(settings, light=True) as store:
            return await find_agent(spec, settings, store, LOCAL_TENANT)

    return asyncio.run(find())


class AgentExecution:
    """
    Runs the agent of the command line over the inputs. `run` is the id of the run, `outcomes` says how its invocations
    ended.
    """

    def __init__(
        self, options: EvaluateOptions, settings: Settings, registry: Registry, batch: BatchOptions | None
    ) -> None:
        self._options, self._settings, self._registry, self._batch = options, settings, registry, batch
        assert options.agent is not None
        self.agent = _find_agent(options.agent, settings)
        self.run = ""
        self.planned: int | None = None  # results; None: a line of the input cannot be read
        self.outcomes: dict[str, int] = {}
        self.first_errors: dict[str, str] = {}
        card = self.agent.card
        self._request = AgentRequest(
            agent_id=card.agent_id,
            agent_version=card.version,
            spec=options.agent,
            trials=options.trials,
            seconds=options.timeout or settings.limits.task_seconds,
            max_cost=options.max_cost,
            fail_fast=options.fail_fast,
        )
        self._journal = _journal_of(options)
        self._interrupted = False
        self._done = False  # nothing is left for --resume

    def prepare(self, plan: Plan, inputs: Inputs, resources: ExitStack) -> None:
        """Read all cases. InvalidRequest: the agent's recorded answers do not cover them, and nothing has started."""
        if self._options.contexts is not None:
            echo_err(f"--agent replaces the outputs in {self._options.contexts}")
        self._spool = resources.enter_context(CaseSpool(self.agent))
        self._bad_line = self._read_cases(self._spool, plan, inputs)
        if self._bad_line is None:
            self.planned = self._spool.cases * self._options.trials
        if self._bad_line is None:  # else a record of a case after that line would be unknown
            self._spool.check_coverage(self._options.trials, self._options.max_cost)

    def execute(self, plan: Plan, inputs: Inputs, tally: Tally, sinks: list[Sink]) -> None:
        """Ask the agent. A Refusal says why the run did not end."""
        spool, options = self._spool, self._options
        if self._bad_line is not None and not spool.cases:
            raise self._bad_line
        progress = ProgressLine(quiet=options.json, noun="cases" if options.trials == 1 else "trials")
        try:
            interrupted = asyncio.run(self._conduct(spool, plan, inputs, tally, sinks, progress))
        except asyncio.CancelledError:  # before the run began, or for the second time
            raise KeyboardInterrupt from None
        finally:
            progress.clear()
        if interrupted:
            raise KeyboardInterrupt
        if self._bad_line is not None:
            raise self._bad_line

    def _read_cases(self, spool: CaseSpool, plan: Plan, inputs: Inputs) -> BadLine | None:
        """A line that is not a case stops the input there; the cases before it count (FEP-34)."""
        source = inputs.source
        assert source is not None

        def refuse(problems: list[Problem]) -> None:
            source.report_bad(problems)

        try:
            spool.fill(valid_contexts(inputs.contexts, source, plan), refuse)
        except BadLine as line:
            return line
        return None

    async def _conduct(
        self,
        spool: CaseSpool,
        plan: Plan,
        inputs: Inputs,
        tally: Tally,
        sinks: list[Sink],
        progress: ProgressLine,
    ) -> bool:
        """Whether it was interrupted. Results are written in the order of the cases while the run goes on."""
        options, settings = self._options, self._settings
        execution = ExecutionOptions(
            concurrency=settings.concurrency,
            seconds=options.timeout or settings.limits.check_seconds,
            run_seconds=settings.limits.run_seconds,
        )
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        total = spool.cases * options.trials
        batch = (
            self._batch if options.save or self._journal is not None else None
        )  # of a run that can be continued
        async with (
            self._store(total) as store,
            open_agent_evaluation(
                settings,
                store,
                plan,
                self._registry,
                self.agent,
                self._request,
                execution,
                keeps_answers=batch is not None,
            ) as evaluation,
        ):
            run = await self._start(evaluation, spool, inputs)
            bind_batches(batch, store, run)  # before its first case begins
            self.run, interrupted = run.id, False

            async def write() -> None:
                results = evaluation.results(run.id, tally, skipped=options.fail_fast)
                async with aclosing(results) as lines:
                    async for line in lines:
                        for sink in sinks:
                            sink.write(line)
                        self._count(line)
                        progress(tally.cases, tally.error_cases, total)
                flush(sinks)

            try:
                await write()
            except asyncio.CancelledError:
                task.uncancel()
                interrupted = True
                progress.clear()
                await evaluation.cancel(run.id)
                await write()
            ended = await store.run(run.id)
            assert ended is not None
            interrupted = interrupted and ended.status != "completed"  # it ended as the signal came
            self._interrupted = interrupted
            if not interrupted:
                self._finish(ended)
        return interrupted

    def _count(self, line: bytes) -> None:
        about = _read(line).execution_context.output.metadata
        self.outcomes[about.outcome] = self.outcomes.get(about.outcome, 0) + 1
        if about.error:
            self.first_errors.setdefault(about.outcome, about.error)

    async def _start(self, evaluation: AgentEvaluation, spool: CaseSpool, inputs: Inputs) -> Run:
        """A new run, or the one that is resumed."""
        options, request = self._options, self._request
        checks = None if inputs.checks is None else msgspec.to_builtins(inputs.checks)
        shown = list(evaluation.plan.options)
        digest = spool.digest(
            checks, evaluation.plan.versions, shown, request.agent_id, request.agent_version, request.trials
        )
        if options.resume:
            resumed = await evaluation.resume(digest, _report_wait, alone=self._journal is not None)
            if resumed is not None:
                done, total = (
                    resumed.metadata.get("summary", {}).get("total_test_cases", 0),
                    resumed.metadata["total"],
                )
                state = "is complete, nothing is asked again" if is_complete(resumed) else "goes on"
                echo_err(f"{resumed.id} {state}: {done:,} of {total:,} have a result")
                return resumed
            echo_err("--resume: there is no run of these cases, checks and agent; this is a new one")
        columns = inputs.columns(options)
        provenance = provenance_of(sys.argv[1:]) if options.save else NOTHING
        part = inputs.choice and inputs.choice.part(spool.cases)
        spec = AgentRunSpec(
            inputs.checks,
            inputs.experiment,
            request,
            options.tags,
            columns,
            provenance,
            options.data_digest,
            part,
        )
        return await evaluation.start(spool, spec, digest)

    def _finish(self, run: Run) -> None:
        """Keep the journal only if something is left to do; raise the reason if the run failed."""
        self._done = is_complete(run)
        if run.status == "failed":
            self._interrupted = True
            raise EnvironmentFailure(run.metadata.get("error", "the run failed"))

    def summary(self) -> dict[str, Any]:
        """The agent and the outcomes of its invocations, for `--json`."""
        card = self.agent.card
        about: dict[str, Any] = {"agentId": card.agent_id, "agentVersion": card.version}
        cases = distinct_cases(sum(self.outcomes.values()), self._options.trials)
        about |= {"cases": cases, "trials": self._options.trials, "outcomes": self.outcomes}
        return about | ({"data": {"first_errors": self.first_errors}} if self.first_errors else {})

    def lines(self) -> list[str]:
        """`agent local.shop.answer: 8 completed, 1 failed, 1 not measured`, and the first error of each outcome."""
        counts = [f"{count:,} {_label(outcome)}" for outcome, count in sorted(self.outcomes.items())]
        errors = [
            f"  {_label(outcome)}{', the first' if self.outcomes[outcome] > 1 else ''}: {' '.join(error.split())[:200]}"
            for outcome, error in sorted(self.first_errors.items())
        ]
        lines = [f"agent {self.agent.card.agent_id}: {', '.join(counts) or 'not asked'}", *errors]
        if self._journal or self._options.save:
            if self._interrupted:
                lines.append("  repeat the command with --resume to go on")
            elif not self._done:
                lines.append("  repeat the command with --resume for what was not measured")
        return lines

    @asynccontextmanager
    async def _store(self, total: int) -> AsyncGenerator[Store]:
        """
        The store of this host with --save; else a database beside the .jsonl file, in memory, or in a temporary folder.
        """
        from assay.backends.stores.open import open_store  # deferred import

        if self._options.save:
            async with parts.store(self._settings, light=True) as store:
                yield store
            return
        with tempfile.TemporaryDirectory() as folder, _exclusive(self._journal):
            database = self._journal
            if database is not None and not self._options.resume:
                _remove(database)
            if database is None and total > IN_MEMORY and find_spec("sqlalchemy") is not None:
                database = Path(folder) / "run.db"
            address = "memory:" if database is None else f"sqlite:///{database}"
            store = await open_store(address, cipher=parts.cipher(self._settings))
            try:
                yield store
            finally:
                await store.close()
            if self._journal is not None and self._done:
                _remove(self._journal)


def _journal_of(options: EvaluateOptions) -> Path | None:
    """The database beside the one .jsonl output, from which --resume continues. None: there is none."""
    if options.save:
        return None
    names = [name for name in options.to if name.endswith((".jsonl", ".ndjson"))]
    regular = [name for name in names if not Path(name).exists() or Path(name).is_file()]
    stored = find_spec("sqlalchemy") is not None
    if len(regular) == 1 and stored:
        path = Path(regular[0])
        return path.with_name(f".{path.name}.assay.db")
    if options.resume:
        if not stored:
            raise UsageError("--resume with --agent needs sqlalchemy: pip install 'openassay[store]'")
        raise UsageError("--resume: expected --save, or one .jsonl file that -o names, with --agent")
    return None


@contextmanager
def _exclusive(journal: Path | None) -> Generator[None]:
    """Hold a lock on the results, so that no two processes write one journal. It ends with the process."""
    if journal is None:
        yield
        return
    with journal.with_name(journal.name.removeprefix(".").removesuffix(".assay.db")).open("ab") as results:
        try:
            fcntl.flock(results, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{results.name}: expected a file that no process writes, got one that another process writes"
            ) from None
        yield


def _report_wait(run: Run) -> None:
    echo_err(f"{run.id} still belongs to another process; waiting until that process ends, or its lease does")


def _label(outcome: str) -> str:
    return "not measured" if outcome == UNMEASURED else outcome


def _remove(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            database.with_name(database.name + suffix).unlink()
