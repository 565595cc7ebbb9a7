"""The statistics of an evaluation, from its tally: the score of its cases, their outcomes, its cost and its latency."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from assay.cases.outcomes import RESULTS
from assay.cases.pages import all_blocks
from assay.cases.table import known_costs, measured_latencies, read_columns
from assay.concurrency.threads import LARGE, in_thread, off_loop
from assay.fep.planning.scorer import read_result
from assay.fep.records.run_header import REQUEST, TALLY, StoredRequest, read_request
from assay.ports import CLOSED, CaseBlock, Run, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED, CaseColumns
from assay.ports.kinds import EXTERNALLY_DRIVEN
from assay.protocol.results import TestCaseResult
from assay.results.check_names import result_label
from assay.results.spending import spending_of_all
from assay.results.statistics import Outcomes, Statistics
from assay.results.tally import Tally, TallyRecord
from assay.runs.log_reader import read_chunks
from assay.runs.run_statistics import (
    CaseCounts,
    Cost,
    CostParts,
    RunStatistics,
    Score,
    cost_parts,
    latency_of,
    named_score,
    stored_statistics,
)

CASES_PASSED = "case pass rate"
TOTAL = "statistics"  # a kind of evidence: the tally of the whole run, which has ended
FEW = 1_000  # results whose statistics are computed on the event loop
_record = msgspec.json.Decoder(TallyRecord).decode


class CaseNumbers:
    """What the statistics need of the table of cases: the latencies of measured results, and the known costs."""

    def __init__(self) -> None:
        self.milliseconds = array("d")
        self._system = self._judges = 0.0

    def add(self, columns: CaseColumns) -> None:
        self.milliseconds.extend(measured_latencies(columns))
        system, judges = known_costs(columns)
        self._system += system
        self._judges += judges

    @property
    def costs(self) -> CostParts | None:
        return cost_parts(self._system, self._judges)


def evaluation_statistics(
    tally: Tally, numbers: CaseNumbers, *, trials: int = 1, ended: bool = True
) -> RunStatistics:
    """
    The statistics so far. `numbers` are those of the results; each case has `trials` results.

    A case of whose trials some are missing counts as skipped when the run has ended, and not before.
    """
    statistics, outcomes = tally.measured()
    counts = case_counts(outcomes, trials, ended=ended)
    spending = tally.spending
    return RunStatistics(
        score=score_of(statistics),
        cases=counts.all,
        results=tally.cases,
        counts=counts,
        cost=Cost(known_usd=spending.known_cost_usd, unknown=spending.unknown_costs) if spending else None,
        parts=numbers.costs,
        latency=latency_of(numbers.milliseconds),
        pass_rate=statistics.pass_rate if statistics else None,
        pass_k=statistics.pass_k if statistics else {},
        pass_at_k=statistics.pass_at_k if statistics else {},
    )


def score_of(statistics: Statistics | None) -> Score | None:
    """
    The share of cases that passed; where no check says pass or fail, the mean of the first number, a `score` before
    others.
    """
    if statistics is None:
        return None
    if statistics.case_pass_rate is not None or statistics.pass_rate is not None:
        rate = statistics.case_pass_rate
        return None if rate is None else named_score(CASES_PASSED, rate)
    means = [
        (f"{label} {name}", mean)
        for label, check in statistics.checks.items()
        for name, mean in check.means.items()
    ]
    means.sort(key=lambda one: not one[0].endswith(" score"))
    return named_score(f"mean {means[0][0]}", means[0][1]) if means else None


def case_counts(outcomes: Outcomes, trials: int, *, ended: bool) -> CaseCounts:
    """The cases by outcome."""
    counts: dict[str, int] = dict.fromkeys((PASSED, FAILED, UNGRADED, ERROR, SKIPPED), 0)
    for (outcome, results), cases in outcomes.items():
        if results >= trials:
            counts[outcome] += cases
        elif ended:
            counts[ERROR if outcome == ERROR else SKIPPED] += cases
    return CaseCounts(
        passed=counts[PASSED],
        failed=counts[FAILED],
        ungraded=counts[UNGRADED],
        error=counts[ERROR],
        skipped=counts[SKIPPED],
    )


async def read_statistics(store: Store, run: Run) -> RunStatistics:
    """The recorded statistics of a run; of a run that has not ended, or that a crash ended, those of its records."""
    return stored_statistics(run) or (await read_totals(store, run, ended=run.status in CLOSED))[1]


async def read_totals(store: Store, run: Run, *, ended: bool) -> tuple[Tally, RunStatistics]:
    """The tally of a run, and its statistics, computed from the tallies of its units and its table of cases."""
    tally, blocks = await read_tally(store, run), await all_blocks(store, run.id)
    trials = int(run.metadata.get("trials", 1))

    def compute() -> RunStatistics:
        return evaluation_statistics(tally, block_numbers(blocks), trials=trials, ended=ended)

    return tally, await in_thread(compute) if tally.cases > FEW else compute()


def block_numbers(blocks: Iterable[CaseBlock]) -> CaseNumbers:
    found = CaseNumbers()
    for block in blocks:
        found.add(read_columns(block.data))
    return found


async def read_tally(store: Store, run: Run, request: StoredRequest | None = None) -> Tally:
    """
    The tally of a run: that of the whole run if it is stored, else added up from its units. An erased run has none.
    """
    tally = Tally()
    if request is None and await store.chunk_infos(run.id, REQUEST, limit=1):
        request = await read_request(store, run.id)
    if request is not None and request.tally is not UNSET:
        tally.add(request.tally)
        return tally
    if chunks := await store.chunks(run.id, TOTAL, limit=1):
        _add(tally, [chunks[0].data])
        return tally
    start = 0
    while chunks := await store.chunks(run.id, TALLY, start=start, limit=100):
        records = [chunk.data for chunk in chunks]
        if sum(map(len, records)) > LARGE:
            await in_thread(lambda records=records: _add(tally, records))
        else:
            _add(tally, records)
        start = chunks[-1].last + 1
    if not start and run.metadata.get(EXTERNALLY_DRIVEN):  # a command is at work, or was killed
        async for chunk in read_chunks(store, run.id, RESULTS, limit=2):
            lines = chunk.lines()
            await off_loop(len(chunk.data), lambda lines=lines: count_lines(tally, lines))
    return tally


def _add(tally: Tally, records: Sequence[bytes]) -> None:
    for record in records:
        tally.add(_record(record))


# Counts result lines, as the scheduler counted them when they were scored.


def count_lines(tally: Tally, lines: Iterable[bytes | str]) -> None:
    for line in lines:
        result = read_result(line)
        id = str(result.execution_context.test_case.get("id", ""))
        answers, code = tally.answers(_labels(result)), 0
        for number, check in enumerate(result.check_results):
            message = check.error.message if check.error else ""
            code |= answers.record(number, check.status, check.results, id, message)
        answers.close(id, code)
        tally.count_case(result.status, spending_of_all(result.check_results))
    tally.fold()


def _labels(result: TestCaseResult) -> tuple[str, ...]:
    """The rows of the checks, as `results/check_names.py` numbers them: `contains #2`."""
    names = [
        result_label({"check_type": check.check_type, "metadata": check.metadata or {}})
        for check in result.check_results
    ]
    total, seen = Counter(names), Counter[str]()
    labels: list[str] = []
    for name in names:
        seen[name] += 1
        labels.append(f"{name} #{seen[name]}" if total[name] > 1 else name)
    return tuple(labels)
