"""`assay judge`: draw judged cases for people to label, and compare the labels with the judge."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay import settings
from assay.agenteval.planning.run_header import KIND as AGENT_EVAL
from assay.agenteval.results.judge_labels import read_judged, read_panel
from assay.auth.audit import audit_read
from assay.checks import STANDARD
from assay.cli.console.console import count_of, echo_json
from assay.cli.console.console_table import Page
from assay.comparison.judged_results import ANNOTATIONS, JudgedResults
from assay.comparison.labels import LabelSource, corrections, is_absent, read_labels, read_verdict
from assay.comparison.result_files import is_file, lines_in
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.stored_runs import require_comparable, result_lines
from assay.errors import EnvironmentFailure, UsageError
from assay.fep.outputs.result_tables import encode_row, escape_cell
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import Limits, Run, Services, Store
from assay.protocol.json_types import JSON, preview
from assay.results.judge_check import (
    Category,
    JudgedCase,
    JudgedCases,
    JudgeReport,
    PanelReport,
    check_judge,
)
from assay.results.judge_rows import judge_rows
from assay.results.judge_samples import draw_sample, record_sample, recorded_sample
from assay.runs.annotations import annotations, case_corrections
from assay.runs.find_run import find_run

COLUMNS = (
    "test_case_id",
    "input",
    "expected",
    "output",
    "passed",
)  # of a file to label; the last one is empty


class JudgeOptions(Struct, frozen=True, kw_only=True):
    """The judge and its labels: a run or a result file, and what is read from it."""

    reference: str
    labels: tuple[str, ...] = ()
    check: str | None = None
    bar: float | None = None
    tenant: str | None = None


class JudgeSource:
    """The judged cases of a result file, or of a stored run."""

    def __init__(
        self, name: str, options: JudgeOptions, limits: Limits, stored: tuple[Store, Run] | None
    ) -> None:
        self.name, self._options, self._limits = name, options, limits
        self.stored = stored
        self.partial = ""  # why a file has not all results of its run

    @property
    def noun(self) -> str:
        return "task" if self._is_agent_eval else "case"

    @property
    def _is_agent_eval(self) -> bool:
        return self.stored is not None and self.stored[1].kind == AGENT_EVAL

    async def read(self, seed: int | None = None) -> tuple[JudgedCases, PanelReport | None]:
        """The judged cases with their labels and the recorded sample, and what a panel says."""
        sources = [read_labels(text, self._limits) for text in self._options.labels]
        if self.stored is None:
            return await self._read_results(sources, seed)
        store, run = self.stored
        if run.kind == AGENT_EVAL:
            judged = await read_judged(store, run)
            return _with_file_labels(judged, sources, self._options), await read_panel(store, run)
        notes = await annotations(store, run)
        sample = recorded_sample(notes)
        judged, panel = await self._read_results(
            sources or [corrections(ANNOTATIONS, case_corrections(notes))], seed if sample is None else None
        )
        return judged if sample is None else msgspec.structs.replace(judged, sample=sample), panel

    async def _read_results(
        self, sources: Sequence[LabelSource], seed: int | None
    ) -> tuple[JudgedCases, PanelReport | None]:
        results = JudgedResults(sources, check=self._options.check, bar=self._options.bar)
        async for place, line in self.lines():
            results.add(line, place)
        return results.judged(seed), results.panel()

    async def lines(self) -> AsyncIterator[tuple[str, bytes]]:
        if self.stored is not None:
            store, run = self.stored
            async for line in result_lines(
                EvaluationService(store, STANDARD, Services(limits=self._limits)), run
            ):
                yield self.name, line
            return
        scores = RunScores(self.name, ReadOptions())
        for place, line in lines_in(self.name, self._limits, scores):
            scores.add(line, place)
            yield place, line
        self.partial = scores.incomplete


@asynccontextmanager
async def _open(options: JudgeOptions) -> AsyncGenerator[JudgeSource]:
    """Open what the reference names: a result file, or a run of the store."""
    reference, config = options.reference, settings.load()
    if is_file(reference):
        yield JudgeSource(reference, options, config.limits, None)
        return
    async with parts.store(config, light=True) as store:
        run = await find_run(store, reference, tenant=options.tenant)
        require_comparable(run)
        await audit_read(store, run)
        yield JudgeSource(run.id, options, config.limits, (store, run))


def _with_file_labels(
    judged: JudgedCases, sources: Sequence[LabelSource], options: JudgeOptions
) -> JudgedCases:
    """The tasks of an agent eval with the labels of files instead of those that are stored with the run."""
    if options.check is not None:
        raise UsageError("--check: an agent eval has one judge, that of its rubrics")
    if not sources:
        return judged
    for source in sources:
        if source.by_id is None:
            raise UsageError(
                f"--labels {source.name}: a task has no members; "
                "expected a file with the ids of tasks, such as labels.csv"
            )
    cases = [
        msgspec.structs.replace(case, labels=_labels(case, sources, options.bar), human_score=None)
        for case in judged.cases
    ]
    ids = {case.id for case in cases}
    given = [id for source in sources for id, value in (source.by_id or {}).items() if not is_absent(value)]
    return msgspec.structs.replace(
        judged,
        cases=cases,
        annotators=tuple(source.name for source in sources),
        unmatched=sum(id not in ids for id in given),
    )


def _labels(
    case: JudgedCase, sources: Sequence[LabelSource], bar: float | None
) -> tuple[Category | None, ...]:
    values = [(source.name, (source.by_id or {}).get(case.id)) for source in sources]
    return tuple(
        None
        if is_absent(value)
        else read_verdict(value, bar, f"--labels {name}, the task {preview(case.id)}")
        for name, value in values
    )


# assay judge sample


def sample(options: JudgeOptions, *, count: int, seed: int, output: str | None, json: bool) -> None:
    """Draw, record and print the cases to label."""
    source, judged = asyncio.run(_sample(options, count, seed, output))
    drawn, record, noun = judged.sample_cases(), judged.sample, judged.noun
    assert record is not None
    if json:
        cases = [{f"{noun}Id": case.id, "labelled": case.is_labelled} for case in drawn]
        echo_json(_document(source, {**msgspec.to_builtins(record), f"{noun}s": cases}))
        return
    page = Page()
    page.put(
        f"{source.name}  {record.drawn} of {count_of(record.judged, f'judged {noun}')} drawn with the seed "
        f"{record.seed}, each with probability {record.probability:.3g}"
    )
    for case in drawn:
        page.put(f"  {case.id}{'  labelled' if case.is_labelled else ''}")
    if output is not None:
        page.put(f"label them in {output}: write pass or fail into the column passed")
        seeded = f" --seed {seed}" if source.stored is None else ""
        page.put(f"then: assay judge check {source.name} --labels {output}{seeded}")
    elif source.stored is None:
        page.put("label them in a file with the columns id and passed, such as labels.csv; -o writes one")
        page.put(f"then: assay judge check {source.name} --labels labels.csv --seed {seed}")
    else:
        page.put(
            f"label each of them: assay annotate {source.name} --{noun} ID --passed, --failed or --score X"
        )
        page.put(f"then: assay judge check {source.name}")


async def _sample(
    options: JudgeOptions, count: int, seed: int, output: str | None
) -> tuple[JudgeSource, JudgedCases]:
    if output is not None:
        _require_new(output)
    async with _open(options) as source:
        judged, _ = await source.read()
        if source.stored is None:
            judged = draw_sample(judged, count, seed)
        else:
            judged = await record_sample(*source.stored, judged, count, seed, datetime.now(UTC))
        if output is not None:
            await _write_file(source, judged, output)
        return source, judged


def _require_new(name: str) -> None:
    if not name.lower().endswith(".csv"):
        raise UsageError(f"-o {name}: expected a new .csv file")
    if Path(name).exists():
        raise UsageError(f"-o {name}: the file exists, and labels in it would be lost; name a new one")


async def _write_file(source: JudgeSource, judged: JudgedCases, name: str) -> None:
    """A table of the drawn cases for a person, in the order of the draw. What the judge said is not in it."""
    rows: dict[str, list[JSON]] = {case.id: [] for case in judged.sample_cases()}
    async for _, line in source.lines():
        context: JSON = msgspec.json.decode(line)["execution_context"]
        if (id := context["test_case"]["id"]) in rows:
            rows[id].append(context)
    _write_rows(name, rows)


def _write_rows(name: str, rows: Mapping[str, Sequence[JSON]]) -> None:
    """The contexts of the trials of each case, one row a case."""
    try:
        with Path(name).open("xb") as file:
            file.write(encode_row(COLUMNS))
            for id, contexts in rows.items():
                case: JSON = contexts[0]["test_case"]
                trials = "\n---\n".join(_text(context["output"].get("value")) for context in contexts)
                cells = (id, _text(case.get("input")), _text(case.get("expected")), trials, "")
                file.write(encode_row(map(escape_cell, cells)))
    except OSError as wrong:
        raise EnvironmentFailure(f"-o {name}: {wrong.strerror}") from None


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()


# assay judge check


def check(options: JudgeOptions, *, seed: int | None, json: bool) -> None:
    """Print what the labels say about the judge."""
    source, check = asyncio.run(_check(options, seed))
    if json:
        partial = {"partial": source.partial} if source.partial else {}
        echo_json(_document(source, msgspec.to_builtins(check) | partial))
        return
    page, noun = Page(), source.noun
    judge = f"{check.judge}: " if check.judge else ""
    page.put(
        f"{source.name}  {judge}{check.labelled} of {count_of(check.judged, f'judged {noun}')} labelled by people"
    )
    rows = list(judge_rows(check, noun, source.partial))
    if check.sample is None and check.uncorrected:
        rows.append(("", f"draw one: assay judge sample {source.name} -n {min(30, check.judged)}"))
        if source.stored is None:
            rows.append(("", "if `assay judge sample` drew the labelled cases, add --seed N with its seed"))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        page.put_indented(f"{label:<{max(width, 9)}}  ", text)


async def _check(options: JudgeOptions, seed: int | None) -> tuple[JudgeSource, JudgeReport]:
    async with _open(options) as source:
        if source.stored is None and not options.labels:
            raise UsageError(
                f"{source.name}: --labels NAME is needed for a file: "
                "a member of its cases, or a file such as labels.csv"
            )
        judged, panel = await source.read(seed)
        return source, check_judge(judged, panel)


def _document(source: JudgeSource, members: JSON) -> bytes:
    return msgspec.json.encode({"file" if source.stored is None else "run": source.name, **members})
