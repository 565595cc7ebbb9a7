"""`assay diff`: where two stored runs part ways, task by task: another tool, other arguments, another answer."""

import msgspec

from assay.auth.audit import audit_read
from assay.cli.console.console import count_of, echo_json
from assay.cli.console.console_table import Page
from assay.cli.stored_runs.run_list import with_evaluations
from assay.comparison.divergence import compared_steps
from assay.comparison.views.partings import (
    STEPS,
    WORDS,
    DiffResult,
    Parting,
    answer_line,
    diff_document,
    outcome_text,
    read_partings,
    step_line,
)
from assay.fep.records.service import EvaluationService
from assay.ports import Run
from assay.protocol.json_types import is_object
from assay.runs.find_run import find_run
from assay.runs.run_names import title_of
from assay.stats.number_text import trial_text


def main(*, a: str, b: str, task: str | None, limit: int, tenant: str | None, json: bool) -> None:
    """Print where the two runs part ways."""

    async def compare(evaluations: EvaluationService) -> DiffResult:
        one, two = [await find_run(evaluations.store, name, tenant=tenant) for name in (a, b)]
        for run in (one, two):
            await audit_read(evaluations.store, run, content=True)
        return await read_partings(evaluations, one, two, task)

    result = with_evaluations(compare)
    if json:
        echo_json(msgspec.json.encode(diff_document(result, limit)))
    else:
        _show(result, limit)


def _show(result: DiffResult, limit: int) -> None:
    page = Page()
    page.put(f"A  {_headline(result.a)}")
    page.put(f"B  {_headline(result.b)}")
    both = result.same + len(result.partings)
    page.put(
        f"{count_of(both, result.noun)} in both: {result.same:,} the same, {len(result.partings):,} part ways"
    )
    for name, ids in (("A", result.only_a), ("B", result.only_b)):
        if ids:
            more = f" and {len(ids) - STEPS:,} more" if len(ids) > STEPS else ""
            page.put(f"only in {name}: {', '.join(ids[:STEPS])}{more}")
    for parting in result.partings[:limit]:
        _put_parting(page, parting)
    if len(result.partings) > limit:
        page.put("")
        page.put(f"{len(result.partings) - limit:,} more: --limit N shows more, --task ID one of them")


def _headline(run: Run) -> str:
    agent = run.metadata.get("agentId", "")
    version = run.metadata.get("agentVersion", "")
    parts = [
        title_of(run),
        run.status,
        f"{run.created:%Y-%m-%d %H:%M}",
        run.name,
        f"{agent} {version}".strip(),
    ]
    return "  ".join(part for part in parts if part)


def _put_parting(page: Page, parting: Parting) -> None:
    trial = "" if parting.trial is None else f" ({trial_text(parting.trial)})"
    divergence = parting.divergence
    page.put("")
    outcome = f"{outcome_text(parting.a)} → {outcome_text(parting.b)}"
    page.put(f"{parting.id}{trial}  {outcome}: {WORDS[divergence.kind]}", "bold")
    same = compared_steps(parting.a)[: divergence.same]
    skipped = len(same) - STEPS
    if skipped > 0:
        page.put(f"    … {count_of(skipped, 'step')} the same")
    for step in same[-STEPS:]:
        page.put_indented("  = ", step_line(step), "dim")
    for mark, path, style in (("A", parting.a, "red"), ("B", parting.b, "green")):
        step = divergence.a if mark == "A" else divergence.b
        other = parting.b if mark == "A" else parting.a
        page.put_indented(
            f"  {mark} ", step_line(step) if is_object(step) else answer_line(path, other), style
        )
