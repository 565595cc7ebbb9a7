"""`assay report`: a run or a comparison as one file, HTML or Markdown."""

from assay.api.report import ReportRequest, make_report
from assay.cli.console.console import echo
from assay.serve.overview.report import Report


def main(request: ReportRequest) -> None:
    """Write the file and print its name."""
    report, _ = make_report(request)
    echo(f"{_summary(report)} in {request.output}")


def _summary(report: Report) -> str:
    shown, total = sum(len(run.rows) for run in report.runs), sum(run.total for run in report.runs)
    results = f"{total:,}" if shown == total else f"{shown:,} of {total:,}"
    results += f" {'result' if total == 1 else 'results'}"
    if len(report.runs) > 1:
        results += f" of {len(report.runs)} runs"
    if shown < total:
        results += ", failures first,"
    return f"{results} without content" if report.redacted else results
