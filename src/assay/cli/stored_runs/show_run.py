"""
`assay show`: why a run is as it is. Each case with its content and reasons, each agent's task with its trajectory.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay.agenteval.planning.run_header import REQUEST, TASKS_OF_SUITE, read_request
from assay.agenteval.results.detail import EvalDetail, detail_of
from assay.agenteval.results.eval_statistics import read_statistics
from assay.agenteval.results.report import read_summary
from assay.agenteval.results.safety_report import critical_text
from assay.cases.pages import all_blocks
from assay.cli.console.console import case_count, echo_json
from assay.cli.console.console_table import Page
from assay.cli.render import check_table, scorecard
from assay.cli.render.case import LABEL, case_lines, headline
from assay.cli.render.failing_cases import CASES as FAILING_CASES
from assay.cli.render.failing_cases import MAX_BYTES, FailingCases, bounded, case_command, failing_case
from assay.cli.render.findings import put_findings, put_safety
from assay.cli.render.run_documents import EvaluationDocument
from assay.cli.render.scorecard import checks_document
from assay.comparison.views.shown_cases import ShownCase, add_trajectories, case_of, trials_of
from assay.errors import UsageError
from assay.errors.nearest import did_you_mean
from assay.fep.records.corrections import CorrectedRun, corrected_run
from assay.fep.records.run_header import read_request as read_evaluation
from assay.fep.records.service import EvaluationService
from assay.fep.trace_windows.window import TRACES, window_in, window_line
from assay.ports import Run, Store
from assay.protocol.json_types import JSON
from assay.results.check_names import AGENT_ANSWERED, result_label
from assay.results.reasons import is_failing
from assay.results.run_part import MEMBER as PART
from assay.results.run_part import part_in
from assay.results.tally import Tally
from assay.runs.annotations import annotations, effective
from assay.runs.provenance import about_lines, about_run
from assay.runs.run_names import title_of
from assay.runs.run_statistics import RunStatistics, planned_cases
from assay.stats.number_text import score_text, value_text

# Which cases of a run `assay show` prints, and the refusal of a case or a check that the run does not have.

CASES = 5  # that are shown without --limit
NAMES = 10  # ids that a refusal lists
MAX_IDS = 1_000  # that are searched for one that is spelled alike


class ShowOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay show`."""

    failing: bool = False
    case: str | None = None  # the id of a case or of a task
    check: str | None = None  # the name or the type of a check
    limit: int | None = None
    max_bytes: int | None = None
    ks: tuple[int, ...] = ()  # --k
    json: bool = False

    @property
    def bounded(self) -> bool:
        """The document of failing cases, within a number of bytes."""
        return self.json and self.failing

    @property
    def selects(self) -> bool:
        return self.failing or self.case is not None or self.check is not None or bool(self.ks)


class Selection:
    """
    The cases to show: those that did not pass first, then the others, each in the order of the run, up to the limit.
    """

    def __init__(self, options: ShowOptions) -> None:
        self._options = options
        self._limit = options.limit or (FAILING_CASES if options.bounded else CASES)
        self._failing: list[ShownCase] = []
        self._others: list[ShownCase] = []
        self.total = 0
        self._matching = {True: 0, False: 0}
        self._labels: dict[str, None] = {}
        self._types: set[str] = set()
        self._ids: dict[str, None] = {}
        self._exists = False

    def add(self, case: ShownCase) -> None:
        options = self._options
        checks: list[JSON] = [*case.result["check_results"], *case.beside] if case.result else []
        self.total += 1
        for check in checks:
            if (label := result_label(check)) != AGENT_ANSWERED:
                self._labels.setdefault(label)
            self._types.add(check["check_type"])
        if len(self._ids) < MAX_IDS:
            self._ids.setdefault(case.id)
        if options.case is not None and case.id != options.case:
            return
        self._exists = True
        failing = case.failing
        if options.check is not None:
            named = [check for check in checks if options.check in (result_label(check), check["check_type"])]
            if not named:
                return
            failing = any(map(is_failing, named))
        if options.failing and not failing:
            return
        self._matching[failing] += 1
        cases = self._failing if failing else self._others
        if len(cases) < self._limit:
            cases.append(case)

    @property
    def cases(self) -> list[ShownCase]:
        return [*self._failing, *self._others][: self._limit]

    @property
    def more(self) -> tuple[int, int]:
        """How many cases that match are not shown: those that did not pass, and the others."""
        failing = min(len(self._failing), self._limit)
        return self._matching[True] - failing, self._matching[False] - (len(self.cases) - failing)

    def refuse_unknown(self, run: str, noun: str) -> None:
        """Refuse a case or a check that the run does not have, and say what it has."""
        case, check = self._options.case, self._options.check
        if case is not None and not self._exists:
            more = " …" if len(self._ids) > NAMES else ""
            ids = f"its {noun}s: {', '.join(list(self._ids)[:NAMES])}{more}" if self._ids else "it has none"
            raise UsageError(f"{run} has no {noun} {case!r}; {did_you_mean(case, self._ids) or ids}")
        if check is not None and check not in self._types and check not in self._labels:
            names = f"its checks: {', '.join(self._labels)}" if self._labels else "it has none"
            raise UsageError(f"{run} has no check {check!r}; {names}")


FINDINGS = 10_000  # that are listed
ERASED = "the content of this run was erased; its log remains"


async def show_evaluation(
    evaluations: EvaluationService, run: Run, tally: Tally, options: ShowOptions
) -> None:
    """Print the cases of an evaluation."""
    selection = Selection(options)
    async for line in evaluations.results(run):
        selection.add(case_of(msgspec.json.decode(line)))
    selection.refuse_unknown(run.id, "case")
    store = evaluations.store
    erased = not await store.chunk_infos(run.id, REQUEST, limit=1)
    statistics = await read_statistics(store, run) or RunStatistics()
    if options.bounded:
        _print_failing(run, selection, options, counts_line(run, statistics, "case"))
        return
    command = "" if erased else (await read_evaluation(store, run.id)).command
    notes = await annotations(store, run)
    corrected = await corrected_run(store, run, notes, statistics, await all_blocks(store, run.id))
    if options.json:
        members = msgspec.to_builtins(evaluations.operation(run)) | check_table.summary_of(tally, options.ks)
        _print_evaluation(
            run, members | about_run(run.metadata, command), corrected, selection, erased=erased
        )
        return
    repeated, page = check_table.repeat_lines(tally.statistics(), options.ks), Page()
    page.put(
        f"{title_of(run)}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}{f'  {run.name}' if run.name else ''}"
    )
    for line in about_lines(run.metadata, command):
        page.put(line)
    if "error" in run.metadata:
        page.put(f"the run failed: {run.metadata['error']}", "yellow")
    for line in (*_part_lines(run), *_corrections(corrected, statistics)):
        page.put(line)
    for line in repeated:
        page.put(line)
    if (spending := check_table.cost(tally.spending)) is not None:
        page.put(spending)
    if (window := window_in(run)) is not None:
        page.put(window_line(window))
    _put_cases(page, selection, options, counts_line(run, statistics, "case"), ERASED if erased else "")


def _part_lines(run: Run) -> Iterator[str]:
    if (part := part_in(run.metadata)) is not None:
        yield f"a part of its data: {part.text()}; nothing is known of the others"


def _print_evaluation(
    run: Run, members: dict[str, Any], corrected: CorrectedRun | None, selection: Selection, *, erased: bool
) -> None:
    """The JSON of an evaluation."""
    members |= {name: run.metadata[name] for name in (TRACES, PART) if name in run.metadata}
    cases: list[Any] = [case.document for case in selection.cases]
    document = EvaluationDocument(**members, cases=cases, more=sum(selection.more))
    document.effective = UNSET if corrected is None else corrected
    document.erased = True if erased else UNSET
    echo_json(msgspec.json.encode(document))


def _corrections(corrected: CorrectedRun | None, statistics: RunStatistics) -> Iterator[str]:
    """The recorded score, and below it the one with the corrections of annotations."""
    if corrected is None:
        return
    if corrected.score is None or statistics.score is None:
        yield scorecard.with_corrections(corrected.corrected)
        return
    name, scale = statistics.score.name, statistics.score.scale
    yield f"{name} {statistics.score.text} as recorded"
    yield scorecard.with_corrections(corrected.corrected, f"{name} {value_text(corrected.score, scale)}")


async def show_eval(store: Store, run: Run, options: ShowOptions) -> None:
    """Print the tasks of an eval run, each trial with its trajectory."""
    erased = not await store.chunk_infos(run.id, REQUEST, limit=1)
    if erased:
        Page().put(f"{title_of(run)}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
        Page().put(ERASED, "yellow")
        return
    request = await read_request(store, run)
    corrections = effective(await annotations(store, run))
    card = await detail_of(store, run, corrections, max_reasons=0, max_findings=FINDINGS)
    selection = Selection(options)
    async for case in trials_of(store, run, request, card):
        selection.add(case)
    selection.refuse_unknown(run.id, "task")
    await add_trajectories(store, run, request, selection.cases)
    card = msgspec.structs.replace(card, report=scorecard.with_ks(card.report, options.ks))
    card = _of_task(card, options.case)
    if options.json:
        members = about_run(run.metadata, request.provenance.command)
        await _print_eval(store, run, card, selection, options, members)
        return
    report, page = card.report, Page()
    page.put(f"{title_of(run)}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
    page.put(f"{report.suite_id} {report.suite_version} · {report.agent_id} · {', '.join(report.modes)}")
    source = scorecard.provenance(card)
    about = about_lines(run.metadata, request.provenance.command)
    for line in (*([] if source is None else [source]), *about):
        page.put(line)
    if report.part:
        part = report.part if report.selection is UNSET else report.selection.text(TASKS_OF_SUITE)
        page.put(f"a part of the suite: {part}, so there is no verdict on the suite", "yellow")
    if card.effective is UNSET:
        page.put(scorecard.headline(report))
    else:
        page.put(f"score {score_text(report.score)} as recorded")
        page.put(scorecard.correction_line(card.effective))
    for line in scorecard.repeat_lines(report, options.ks):
        page.put(line)
    if card.status != "completed":
        page.put(scorecard.incomplete(card), "yellow")
    if (critical := critical_text(report.safety)) is not None:
        page.put(f"not passed: {critical}", "bold red")
    (put_safety if options.case is None else put_findings)(page, card, FINDINGS)
    _put_cases(page, selection, options, counts_line(run, await read_statistics(store, run), "task"), "")


async def _print_eval(
    store: Store, run: Run, card: EvalDetail, selection: Selection, options: ShowOptions, about: JSON
) -> None:
    """The JSON of an eval run."""
    if options.bounded:
        _print_failing(run, selection, options, counts_line(run, await read_statistics(store, run), "task"))
        return
    document = scorecard.document_of(card, await read_summary(store, run))
    document.checks = await checks_document(store, run) or UNSET
    for name, value in about.items():
        setattr(document, name, value)
    cases: list[Any] = [case.document for case in selection.cases]
    document.cases, document.more = cases, sum(selection.more)
    echo_json(msgspec.json.encode(document))


def _of_task(card: EvalDetail, task: str | None) -> EvalDetail:
    """The card with the findings of one task alone."""
    if task is None:
        return card
    own = tuple(one for one in card.findings if one.task_id == task)
    return msgspec.structs.replace(card, findings=own, more_findings=0)


def counts_line(run: Run, statistics: RunStatistics | None, noun: str) -> str:
    """`3 cases, 6 trials: 2 passed, 1 failed, 0 not measured`: the cases of a run by outcome."""
    found = statistics or RunStatistics()
    counts, total = found.counts, run.metadata.get("total", 0)
    if noun == "case":
        total = planned_cases(run, found, trials=run.metadata.get("trials", 1)) or 0
    never = max(0, total - counts.all)
    ungraded = f"{counts.ungraded:,} without a verdict, " if counts.ungraded else ""
    return (
        f"{case_count(max(total, counts.all), max(found.results, total), noun)}: {counts.passed:,} "
        f"passed, {counts.failed:,} failed,"
        f" {ungraded}{counts.error + counts.skipped + never:,} not measured"
    )


def _put_cases(page: Page, selection: Selection, options: ShowOptions, count: str, note: str) -> None:
    page.put(count)
    if note:
        page.put(note, "yellow")
    cases = selection.cases
    for case in cases:
        page.put("")
        page.put(headline(case), "red" if case.failing else "green")
        for label, text in case_lines(case, options.check):
            step = text[8:10] == "  " and text[:8].endswith((" ms", "        "))  # a time before its text
            page.put(f"  {label:<{LABEL - 2}}{text}", indent=" " * (LABEL + 10 * step))
    if not cases:
        page.put("nothing matches" if selection.total and options.selects else "there is nothing to show")
    failing, others = selection.more
    if failing or others:
        parts = [
            f"{failing:,} more did not pass" if failing else "",
            f"{others:,} more passed" if others else "",
        ]
        page.put("")
        page.put(f"{' and '.join(filter(None, parts))}: --limit N shows more, assay export writes all")


def _print_failing(run: Run, selection: Selection, options: ShowOptions, count: str) -> None:
    """The failing cases as JSON, within a number of bytes."""
    cases = [failing_case(case, case_command(run.id), options.check) for case in selection.cases]
    document = FailingCases(run.id, run.status, count, cases=cases, more=sum(selection.more))
    document.next = f"assay export {run.id} -o results.jsonl"
    echo_json(bounded(document, options.max_bytes or MAX_BYTES))
