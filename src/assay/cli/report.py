"""`assay report`: a run or a comparison as one file, HTML or Markdown."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay import settings
from assay.checks import STANDARD
from assay.cli.console import echo
from assay.cli.find_run import find_run
from assay.cli.render_report import markdown
from assay.errors import EnvironmentFailure, UsageError
from assay.extras import require
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import Run, Services
from assay.serve.fep.comparison import MAX_RUNS
from assay.serve.overview.report_data import Report, ReportOptions, read_report
from assay.serve.page.built_files import page_folder

TEMPLATE = "report.html"
PLACE = b"__ASSAY_REPORT__"  # of the data in the template


class ReportRequest(NamedTuple):
    """What a command line asks for."""

    runs: tuple[str, ...]
    output: str
    tenant: str | None
    redact: bool
    limit: int


def main(request: ReportRequest) -> None:
    """Write the file and print its name."""
    ending = Path(request.output).suffix.lower()
    if ending not in (".html", ".md"):
        raise UsageError(f"-o {request.output}: expected a file that ends with .html or .md")
    if len(request.runs) > MAX_RUNS:
        raise UsageError(f"expected at most {MAX_RUNS} runs, got {len(request.runs)}")
    template = b"" if ending == ".md" else _template()
    if len(request.runs) > 1:
        require("a comparison", "compare")
    report = asyncio.run(_read(request, details=ending == ".html"))
    data = html(template, report) if template else markdown(report).encode()
    Path(request.output).write_bytes(data)
    echo(f"{_summary(report)} in {request.output}")


def _template() -> bytes:
    try:
        return (page_folder() / TEMPLATE).read_bytes()
    except FileNotFoundError:
        raise EnvironmentFailure(
            "the page is not built here; run `make web` in a clone of the repository, or install a wheel."
            " A report in Markdown (-o report.md) works without it"
        ) from None


async def _read(request: ReportRequest, *, details: bool) -> Report:
    chosen = settings.load()
    async with parts.store(chosen, light=True) as store:
        evaluations = EvaluationService(store, STANDARD, Services(limits=chosen.limits))
        runs: list[Run] = []
        for reference in request.runs:
            run = await find_run(store, reference, tenant=request.tenant)
            if run.id in [one.id for one in runs]:
                raise UsageError(f"{reference}: {run.id} is named twice")
            if runs and run.tenant != runs[0].tenant:
                raise UsageError(f"{run.id} and {runs[0].id} are of different tenants")
            runs.append(run)
        options = ReportOptions(redact=request.redact, limit=request.limit, details=details)
        return await read_report(evaluations, runs, datetime.now(UTC), options)


def html(template: bytes, report: Report) -> bytes:
    """The template with the data. No text of the data can end the element that holds it."""
    data = msgspec.json.encode(report)
    for active in (b"<", b">", b"&"):
        data = data.replace(active, b"\\u%04x" % ord(active))
    before, _, after = template.partition(PLACE)
    return before + data + after


def _summary(report: Report) -> str:
    shown, total = sum(len(run.rows) for run in report.runs), sum(run.total for run in report.runs)
    cases = f"{total:,} cases" if shown == total else f"{shown:,} of {total:,} cases, failures first,"
    return f"{cases} without content" if report.redacted else cases
