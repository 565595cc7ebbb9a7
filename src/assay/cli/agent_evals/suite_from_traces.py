"""`assay suite from-traces`: write a suite from recorded traces."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.agenteval.suites.from_traces import SuiteFromTraces, suite_of_traces
from assay.agenteval.suites.suite import suite_as_json, suite_as_yaml
from assay.api.kept_traces import read_kept
from assay.api.sources import open_sources
from assay.cli.agent_evals.suite_attack import SUITE_ID, validate_output
from assay.cli.console.console import count_of, echo, echo_err, echo_text
from assay.comparison.sources import StoredSource
from assay.concurrency.event_loop import run_to_end
from assay.errors import BadLine, InvalidRequest, UsageError
from assay.fep.records.corrections import is_passed
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list
from assay.results.reasons import is_failing
from assay.runs.annotations import annotations, case_corrections
from assay.settings import load
from assay.traces.trace_files import files_of, trace_items
from assay.traces.verdicts import traces_of

FAILING, TAG = "failing", "tag:"
DRAFT = "  # a draft: what was recorded. Check it, and delete this comment"
LISTED = 10  # traces that are left out, one by one


class ScoredRun(NamedTuple):
    """
    What an evaluation of the traces says: the cases that did not pass, and the verdicts of people.

    `cases` has the cases by trace: in a window of traces a case has the id of its trace, in a file that of its
    conversation.
    """

    failing: frozenset[str]
    verdicts: dict[str, bool]
    cases: dict[str, str]

    def has_failed(self, context: JSON) -> bool:
        """Whether the case of these traces did not pass. A verdict of a person about it is noted under its id."""
        case, traces = context["test_case"]["id"], context["output"]["metadata"]["trace"]["trace_ids"]
        there = dict.fromkeys([case, *(self.cases[one] for one in traces if one in self.cases)])
        for one in there if len(there) == 2 else ():
            if one in self.verdicts:
                self.verdicts.setdefault(case, self.verdicts[one])
        return any(one in self.failing for one in there)


def from_traces(
    *,
    files: list[str],
    output: str | None,
    force: bool,
    only: list[str],
    run: str | None,
    name: str | None,
    limit: int | None,
) -> None:
    """Write the suite to a file or to standard output. Notes go to standard error."""
    suite_id = _suite_id(name, files[0])
    files = files_of(files)
    validate_output(output, force=force)
    if FAILING in only and run is None:
        raise UsageError(
            "--only failing: expected --run with an evaluation of these traces: a run or a file of results"
        )
    scored = ScoredRun(frozenset(), {}, {}) if run is None else run_to_end(lambda: _read_run(run))
    contexts = _chosen(files, load().limits, only, scored)
    made = suite_of_traces(contexts, scored.verdicts, limit)
    _report(made, scored)
    if not made.tasks:
        raise InvalidRequest("no trace became a task; nothing is written")
    suite = made.suite(suite_id)
    text = (
        suite_as_json(suite)
        if output is not None and output.endswith(".json")
        else _yaml(suite_as_yaml(suite), made)
    )
    if output is None:
        echo_text(text)
        return
    Path(output).write_text(text, encoding="utf-8")
    command = f"assay run {shlex.quote(output)} --agent module:function"
    echo(f"wrote {output}: {count_of(len(made.tasks), 'task')}; next: {command}")


async def _read_run(reference: str) -> ScoredRun:
    failing: set[str] = set()
    verdicts: dict[str, bool] = {}
    cases: dict[str, str] = {}
    async with open_sources([reference], [reference], None) as sources:
        (source,) = sources
        async for _, line in source.lines():
            result = msgspec.json.decode(line)
            case: str = result["execution_context"]["test_case"]["id"]
            cases |= dict.fromkeys(traces_of(result), case)
            if any(map(is_failing, result["check_results"])):
                failing.add(case)
        if isinstance(source, StoredSource):
            corrections = case_corrections(await annotations(source.store, source.run))
            verdicts = {
                case: is_passed(one.whole) for case, one in corrections.items() if one.whole is not None
            }
    right = {case for case, passed in verdicts.items() if passed}
    return ScoredRun(frozenset(failing - right), verdicts, cases)


def _chosen(files: list[str], limits: Limits, only: list[str], scored: ScoredRun) -> Iterator[JSON]:
    """The contexts of the traces that --only names; all without it."""
    ids = {one for one in only if one != FAILING and not one.startswith(TAG)}
    tags = {one.removeprefix(TAG) for one in only if one.startswith(TAG)}
    there: set[str] = set()
    for item in trace_items(files, limits, read_kept=read_kept):
        if item.problems:
            raise BadLine(item.location, item.problems)
        context = msgspec.json.decode(item.raw)
        case = context["test_case"]
        found = case.get("metadata", {}).get("tags", [])
        own = set(found) if is_list(found) else {found}
        there |= {case["id"], *(f"{TAG}{tag}" for tag in own)}
        failed = scored.has_failed(context) and FAILING in only
        if not only or failed or case["id"] in ids or tags & own:
            yield context
    if unknown := sorted({one for one in only if one != FAILING} - there):
        raise UsageError(
            f"--only {unknown[0][:100]!r}: no trace has this id; expected failing, tag:NAME or the id of a trace"
        )


def _suite_id(name: str | None, file: str) -> str:
    if name is not None:
        if not SUITE_ID.fullmatch(name) or "@" in name:
            raise UsageError(f"--id {name!r}: expected <scope>.<org>.evals.<name> in small letters")
        return name
    stem = re.sub(r"[^a-z0-9]+", "-", Path(file).name.lower().split(".")[0]).strip("-")
    return f"local.traces.evals.{stem or 'recorded'}"


def _yaml(text: str, made: SuiteFromTraces) -> str:
    """The YAML, with a comment at each expected answer that nobody has checked."""
    drafts = set(made.drafts)
    lines: list[str] = []
    current = ""
    for line in text.splitlines():
        if line.startswith("  - taskId: "):
            current = line.removeprefix("  - taskId: ").strip("\"'")
        is_draft = line.strip() == "expected:" and current in drafts
        lines.append(line + (DRAFT if is_draft else ""))
    return "\n".join(lines) + "\n"


def _report(made: SuiteFromTraces, scored: ScoredRun) -> None:
    for case, reason in made.left_out[:LISTED]:
        echo_err(f"left out: {case[:100]}: {reason}")
    if (more := len(made.left_out) - LISTED) > 0:
        echo_err(f"left out: {more:,} more")
    if made.redacted:
        listed = ", ".join(f"{count:,} {rule}" for rule, count in sorted(made.redacted.items()))
        echo_err(f"redacted: {listed}")
    if made.drafts:
        echo_err(
            f"the expected answers of {count_of(len(made.drafts), 'task')} are drafts: what was recorded"
        )
    wrong = [one for one in made.drafts if scored.verdicts.get(made.cases[one]) is False]
    for task in wrong[:LISTED]:
        echo_err(f"{task}: a person says that the recorded answer is wrong")
