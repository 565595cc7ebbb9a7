"""A sink that stores an evaluation while it runs: `assay list` shows it, and a crash loses little of it."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from assay.cases.fold import CaseFold
from assay.cases.outcomes import IDS, RESULTS, ResultSummary, summarized
from assay.concurrency.event_loop import run_guarded
from assay.errors import EnvironmentFailure
from assay.fep.planning.plan import Checks
from assay.fep.records.evaluation_statistics import CaseNumbers, evaluation_statistics
from assay.fep.records.run_header import (
    KIND,
    SHARD,
    TALLY,
    EvaluationEnded,
    ShardCompleted,
    StoredRequest,
    add_summaries,
    lines_chunk,
    request_chunk,
)
from assay.inputs.places import NO_PLACES, Places
from assay.ports import (
    LOCAL_TENANT,
    Clock,
    CreateRun,
    Event,
    EvidenceChunk,
    RunStatus,
    RunUpdate,
    Store,
    SystemClock,
    Transaction,
)
from assay.ports.audit import audit_entry as audited
from assay.ports.kinds import EXTERNALLY_DRIVEN
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import JSON, is_list, is_object
from assay.protocol.redaction import UNKNOWN, redact_checks, safe_name
from assay.protocol.results import EvaluationSummary, Status, TestCaseSummary
from assay.results.check_names import result_labels
from assay.results.run_end import RunEnd, RunFooter
from assay.results.run_part import DATA, RunPart
from assay.results.run_part import MEMBER as PART
from assay.results.spending import NOTHING, Spending
from assay.results.tally import Tally
from assay.runs.intake import new_id
from assay.runs.provenance import NOTHING as NOTHING_KNOWN
from assay.runs.provenance import Provenance
from assay.runs.run_names import name_documents
from assay.runs.run_statistics import facts_of, statistics_metadata

LEASE = 30.0
MAX_MODELS = 5  # in the metadata of a run
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


class _Result(ResultSummary, kw_only=True, gc=False):
    summary: TestCaseSummary


_read = msgspec.json.Decoder(_Result).decode


class StoreSink:
    """
    A sink that writes to a store. It opens the store on an event loop in a thread of its own, as results come from any
    thread.
    """

    name = "the store"

    def __init__(
        self,
        store: AbstractAsyncContextManager[Store],
        checks: Checks,
        experiment: ExperimentMetadata | None,
        tally: Tally,
        clock: Clock,
        run: str | None = None,
        tags: Sequence[str] = (),
        columns: Places = NO_PLACES,
        provenance: Provenance = NOTHING_KNOWN,
        data: str = "",
        news: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """
        `columns`: those of the table that the cases come from. `data`: the digest of the names of its files. `news`:
        metadata that changes while the run goes on.
        """
        self.run = run or new_id("eval_")
        self._tally, self._clock, self._news = tally, clock, news
        self._about: dict[str, Any] = ({"tags": list(tags)} if tags else {}) | provenance.metadata
        self._models: dict[str, str] = {}
        self._about |= {DATA: data} if data else {}
        self._lines: list[bytes] = []
        self._first = self._unit = 0
        self._summary = Tally().summary()  # of the results that are stored
        self._table, self._spent, self._numbers = CaseFold(), NOTHING, CaseNumbers()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="assay-store", daemon=True)
        self._thread.start()
        self._store_context = store
        with ExitStack() as undo:
            undo.callback(self._stop)
            self._store = self._run(self._open())
            undo.pop_all()
        request = StoredRequest(
            checks=None if checks is None else redact_checks(msgspec.to_builtins(checks)),
            experiment=experiment,
            total=0,
            columns=dict(columns),
            command=provenance.command,
        )
        name = experiment.name if experiment and experiment.name else ""
        opening = RunUpdate(
            run=self.run,
            opens=CreateRun(tenant=LOCAL_TENANT, kind=KIND, name=name, holder=self.run, seconds=LEASE),
            status="running",
            metadata={"total": 0, EXTERNALLY_DRIVEN: True, **self._about},
            events=[Event("evaluation.started", b"{}", clock.now())],
            evidence=[request_chunk(request)],
        )
        named = name_documents(LOCAL_TENANT, self.run, self._about)
        lines = [audited(LOCAL_TENANT, "run.start", self.run)]
        self._run(self._store.commit(Transaction(entries=[opening], documents=named, lines=lines)))
        self._heartbeat = asyncio.run_coroutine_threadsafe(self._renew_lease(), self._loop)

    def write(self, line: bytes) -> None:
        self._lines.append(line)
        if len(self._lines) >= SHARD:
            self.flush()

    def flush(self) -> None:
        """Commit the results so far and their event in one transaction."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        results, total = [_read(line) for line in lines], self._first + len(lines)
        summary = _summary([(result.status, result.summary) for result in results])
        self._summary = add_summaries(self._summary, summary)
        shard = ShardCompleted(unit=self._unit, first=self._first, last=total - 1, summary=summary)
        outcomes = summarized(results, self._spending())
        self._numbers.add(outcomes.columns)
        self._note_models(results)
        cases = self._table.add(self._first, outcomes)
        ids = EvidenceChunk(
            kind=IDS, first=self._first, last=total - 1, data=_encode([result.id for result in results])
        )
        metadata = {"total": total, "summary": msgspec.to_builtins(self._summary), **self._table.metadata}
        entry = RunUpdate(
            run=self.run,
            holder=self.run,
            metadata=metadata | self._about | self._news() | {EXTERNALLY_DRIVEN: True},
            events=[Event("evaluation.shard", _encode(shard), self._clock.now())],
            evidence=[lines_chunk(RESULTS, self._first, lines), ids],
            cases=cases,
        )
        self._first, self._unit = total, self._unit + 1
        self._run(self._store.commit(Transaction(entries=[entry])))

    def _note_models(self, results: Sequence[_Result]) -> None:
        """Keep the first models that outputs name in their metadata."""
        for result in results:
            metadata = result.execution_context.output.metadata
            found = metadata.get("model") if is_object(metadata) else None
            for model in found if is_list(found) else [found]:
                if isinstance(model, str) and model not in self._models and len(self._models) < MAX_MODELS:
                    self._models[model] = safe_name(model)
        if names := [name for name in dict.fromkeys(self._models.values()) if name != UNKNOWN]:
            self._about["models"] = names

    def _spending(self) -> Spending:
        """What was spent since the last call."""
        before, now = self._spent, self._tally.spending
        self._spent = now
        known = now.known_cost_usd - before.known_cost_usd
        return Spending(known_cost_usd=known, unknown_costs=now.unknown_costs - before.unknown_costs)

    def close(self, footer: RunFooter) -> None:
        """End the run as completed, or as failed if `closing.trouble` says why; then close the store."""
        try:
            self.flush()
            status: RunStatus = "failed" if footer.error else "completed"
            ended = EvaluationEnded(status=footer.status, summary=footer.summary)
            statistics = evaluation_statistics(self._tally, self._numbers)
            part = UNSET if footer.end is None else footer.end.part
            metadata = {
                "total": self._first,
                **({} if part is UNSET else {PART: msgspec.to_builtins(part)}),
                "planned": None if footer.end is None else footer.end.planned,
                "summary": msgspec.to_builtins(footer.summary),
                "status": footer.status,
                **self._table.metadata,
                **statistics_metadata(statistics),
            }
            entry = RunUpdate(
                run=self.run,
                holder=self.run,
                status=status,
                metadata=metadata
                | self._about
                | self._news()
                | ({"error": footer.error} if footer.error else {}),
                facts=facts_of(statistics),
                events=[Event(f"evaluation.{status}", _encode(ended), self._clock.now())],
                evidence=[
                    EvidenceChunk(
                        kind=TALLY, last=max(self._first - 1, 0), data=_encode(self._tally.record(final=True))
                    )
                ],
            )
            self._run(self._store.commit(Transaction(entries=[entry])))
        finally:
            self._heartbeat.cancel()
            self._run(self._close())
            self._stop()

    async def _renew_lease(self) -> None:
        while True:
            await asyncio.sleep(LEASE / 5)
            await run_guarded(
                "heartbeat", self._store.renew(self.run, seconds=LEASE), EnvironmentFailure
            )  # if it fails, the next commit reports it

    def _stop(self) -> None:
        """End the thread and its event loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> Store:
        return await self._store_context.__aenter__()

    async def _close(self) -> None:
        await self._store_context.__aexit__(None, None, None)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def save_results(
    store: Store,
    name: str,
    lines: Sequence[bytes],
    incomplete: str,
    run: str | None = None,
    columns: Places = NO_PLACES,
    part: RunPart | None = None,
) -> str:
    """
    Store results that have been scored elsewhere, as a run. `incomplete` says what is missing. Returns its id: `run`,
    or a new one. `columns`: those of the table that the cases come from. `part`: which cases these are, if not all.

    Raises msgspec.ValidationError for a line that is not a TestCaseResult.
    """
    tally, clock = Tally(), SystemClock()
    experiment = ExperimentMetadata(name=name) if name else None
    sink = StoreSink(nullcontext(store), None, experiment, tally, clock, run, columns=columns)
    complete = part is None and not incomplete
    end, now = RunEnd(planned=None, results=len(lines), complete=complete, part=part or UNSET), clock.now()
    try:
        for line in lines:
            document = _whole(msgspec.json.decode(line), clock)
            _count_result(tally, document)
            sink.write(_encode(document))
        sink.flush()
        tally.fold()
    except msgspec.ValidationError as wrong:
        incomplete = str(wrong)
        raise
    finally:
        sink.close(RunFooter(sink.run, now, now, tally.status, tally.summary(), error=incomplete, end=end))
    return sink.run


def _whole(result: JSON, clock: Clock) -> JSON:
    """A result with the members that a table does not have: its summary, and when its checks were evaluated."""
    checks = [{"evaluated_at": clock.now(), **check} for check in result["check_results"]]
    for check in checks:
        if check["status"] != "error":
            check.pop("error", None)
    counts = Counter(check["status"] for check in checks)
    summary = TestCaseSummary(
        total_checks=len(checks),
        completed_checks=counts["completed"],
        error_checks=counts["error"],
        skipped_checks=counts["skip"],
    )
    return {**result, "check_results": checks, "summary": summary}


def _summary(cases: list[tuple[Status, TestCaseSummary]]) -> EvaluationSummary:
    counts = {"completed": 0, "error": 0, "skip": 0}
    for status, _ in cases:
        counts[status] += 1
    return EvaluationSummary(
        total_test_cases=len(cases),
        completed_test_cases=counts["completed"],
        error_test_cases=counts["error"],
        skipped_test_cases=counts["skip"],
        total_checks=sum(summary.total_checks for _, summary in cases),
        completed_checks=sum(summary.completed_checks for _, summary in cases),
        error_checks=sum(summary.error_checks for _, summary in cases),
        skipped_checks=sum(summary.skipped_checks for _, summary in cases),
    )


def _count_result(tally: Tally, result: JSON) -> None:
    """Add one TestCaseResult to a tally."""
    id, checks, code = result["execution_context"]["test_case"]["id"], result["check_results"], 0
    answers = tally.answers(tuple(result_labels(checks)))
    for at, check in enumerate(checks):
        error = check.get("error")
        message = str(error.get("message", "")) if is_object(error) else ""
        code |= answers.record(at, check["status"], check["results"], id, message)
    answers.close(id, code)
    metadata = result.get("metadata")
    tally.count_case(result["status"], msgspec.convert(metadata if is_object(metadata) else {}, Spending))
