"""`assay judge`: draw judged cases for people to label, and compare the labels with the judge."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay import settings
from assay.api.judge_source import JudgeQuery, JudgeSource, open_judge
from assay.cli.console.console import count_of, echo_json
from assay.cli.console.console_table import Page
from assay.comparison.labels import read_labels
from assay.errors import EnvironmentFailure, UsageError
from assay.fep.outputs.result_tables import encode_row
from assay.protocol.json_types import JSON
from assay.results.judge_check import (
    JudgedCases,
    JudgeReport,
)
from assay.results.judge_rows import judge_rows
from assay.results.judge_samples import draw_sample, record_sample

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


def _query(options: JudgeOptions) -> JudgeQuery:
    limits = settings.load().limits
    labels = tuple(read_labels(text, limits) for text in options.labels)
    return JudgeQuery(labels=labels, check=options.check, bar=options.bar, tenant=options.tenant)


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
    async with open_judge(options.reference, _query(options)) as source:
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
        raise UsageError(f"-o {name}: expected a new file, got one that exists, whose labels would be lost")


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
                file.write(encode_row(cells))
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
    async with open_judge(options.reference, _query(options)) as source:
        return source, await source.check(seed)


def _document(source: JudgeSource, members: JSON) -> bytes:
    return msgspec.json.encode({**members, "file" if source.stored is None else "run": source.name})
