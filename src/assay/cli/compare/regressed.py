"""`assay compare --regressed`: each case that got worse, with its content in both runs."""

import shlex
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.planning.run_header import read_request
from assay.agenteval.results.detail import detail_of
from assay.api.compare import names_of
from assay.api.sources import open_sources
from assay.cli.console.console import echo_json
from assay.cli.console.console_table import Page
from assay.cli.render.case import LABEL, case_lines, headline
from assay.cli.render.failing_cases import (
    MAX_BYTES,
    CaseData,
    RegressedCases,
    bounded,
    case_command,
    data_of,
    failing_case,
)
from assay.comparison.compare import CaseDifference, RunComparison
from assay.comparison.result_line import read_line
from assay.comparison.sources import CompareOptions, RunSource, StoredSource, compare_sources, read_options
from assay.comparison.views.shown_cases import ShownCase, add_trajectories, case_of, trials_of
from assay.comparison.wording import counts_line, verdict_line
from assay.concurrency.event_loop import run_to_end
from assay.errors import UsageError
from assay.protocol.json_types import JSON
from assay.stats.number_text import case_value

MOST_BYTES = 2_000_000  # of the command that shows a case of files whole


class WorseCase(Struct):
    """A case that got worse: its values, and itself in both runs. None: a file has no content of it."""

    change: CaseDifference
    before: ShownCase | None
    after: ShownCase | None


class Regressions(Struct):
    """The comparison, and the cases that got worse, the worst first."""

    compared: RunComparison
    cases: list[WorseCase]
    stored: bool  # `assay show` shows a case of the run


def main(
    runs: Sequence[str],
    options: CompareOptions,
    *,
    max_bytes: int | None,
    tenant: str | None,
    json: bool,
) -> None:
    """Print the cases that got worse."""
    if len(runs) != 2:
        raise UsageError(f"--regressed: expected two runs or result files, got {len(runs)}")
    found = regressions(runs, options, tenant)
    if json:
        echo_json(bounded(document_of(found, runs), max_bytes or MAX_BYTES))
    else:
        _show(found)


def regressions(runs: Sequence[str], options: CompareOptions, tenant: str | None) -> Regressions:
    """Compare two runs, and read the cases that got worse in both."""
    read = read_options(options)

    async def work() -> Regressions:
        async with open_sources(runs, names_of(len(runs)), tenant) as sources:
            scores = [await source.scores(read) for source in sources]
            compared = await compare_sources(sources, scores, options.margin, options.limit)
            worse = [one for one in compared.comparisons[0].changes if not one.better]
            ids = {one.id for one in worse}
            before, after = [await _cases_of(source, ids) for source in sources]
            cases = [
                WorseCase(one, _best(before.get(one.id, [])), _worst(after.get(one.id, []))) for one in worse
            ]
            return Regressions(compared, cases, isinstance(sources[1], StoredSource))

    return run_to_end(work)


async def _cases_of(source: RunSource, ids: set[str]) -> dict[str, list[ShownCase]]:
    """The trials of these cases, in order."""
    found: dict[str, list[ShownCase]] = {}
    if not ids:
        return found
    if isinstance(source, StoredSource) and source.run.kind == EVAL:
        store, run = source.store, source.run
        request = await read_request(store, run)
        card = await detail_of(store, run, {}, max_reasons=0)
        shown = [case async for case in trials_of(store, run, request, card) if case.id in ids]
        await add_trajectories(store, run, request, shown)
        for case in shown:
            found.setdefault(case.id, []).append(case)
        return found
    async for place, raw in source.lines():
        line = read_line(raw, place)
        if line.case["id"] not in ids or line.is_beside:
            continue
        result: JSON = msgspec.json.decode(raw)
        found.setdefault(line.case["id"], []).append(case_of(result))
    return found


def _worst(trials: Sequence[ShownCase]) -> ShownCase | None:
    """The first trial that did not pass, else the first."""
    return next((one for one in trials if one.failing), next(iter(trials), None))


def _best(trials: Sequence[ShownCase]) -> ShownCase | None:
    """The first trial that passed, else the first."""
    return next((one for one in trials if not one.failing), next(iter(trials), None))


def document_of(found: Regressions, runs: Sequence[str]) -> RegressedCases:
    """The comparison as a document for a program. Ids and content stand under `data`."""
    pair = found.compared.comparisons[0]
    again = shlex.join(["assay", "compare", *runs, "--regressed", "--json"])
    whole = case_command(pair.run) if found.stored else f"{again} --max-bytes {MOST_BYTES}"
    document = RegressedCases(
        baseline=pair.baseline,
        run=pair.run,
        verdict=pair.verdict,
        difference=verdict_line(pair.result),
        count=counts_line(pair, found.compared),
        unmeasured=pair.unmeasured.count,
        unknown=pair.only_in_baseline.count + pair.only_in_run.count,
        part=pair.part,
        more=max(0, pair.worse - len(found.cases)),
    )
    for one in found.cases:
        after = one.after or ShownCase(id=one.change.id, failing=True, result=None, reason=NO_CONTENT)
        case = failing_case(after, whole)
        case.before, case.after = one.change.before, one.change.after
        case.data.before = _before(one.before)
        document.cases.append(case)
    if document.more:
        document.next = f"{again} --limit {min(1_000, pair.worse)}"
    return document


NO_CONTENT = "the file has no content of this case"


def _before(case: ShownCase | None) -> CaseData:
    """What the case was in the baseline, without the input, which both runs have."""
    if case is None or case.result is None:
        return CaseData(error=NO_CONTENT)
    data = data_of(case, case.result["check_results"])
    return CaseData(got=data.got, error=data.error, reasons=data.reasons, steps=data.steps)


def _show(found: Regressions) -> None:
    page, pair = Page(), found.compared.comparisons[0]
    page.put(verdict_line(pair.result))
    page.put(counts_line(pair, found.compared))
    if not found.cases:
        page.put("no case got worse")
    for one in found.cases:
        page.put("")
        change = f"{case_value(one.change.before)} → {case_value(one.change.after)}"
        if one.after is None:
            page.put(f"✗ {one.change.id}  {change}", "red")
            page.put(f"  {NO_CONTENT}")
            continue
        page.put(f"{headline(one.after)}  {change}", "red")
        _put_case(page, "  ", one.after)
        if one.before is not None:
            page.put("  before:")
            _put_case(page, "    ", one.before, content=False)
    if more := pair.worse - len(found.cases):
        page.put("")
        page.put(f"{more:,} more got worse: --limit N shows more")


def _put_case(page: Page, indent: str, case: ShownCase, *, content: bool = True) -> None:
    """The lines of a case; without its input and what was expected, which both runs share."""
    hidden = False
    for label, text in case_lines(case):
        if label:
            hidden = not content and label in ("input", "expected")
        if not hidden:
            page.put(f"{indent}{label:<{LABEL - 2}}{text}", indent=" " * (LABEL + len(indent)))
