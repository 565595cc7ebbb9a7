"""Builds the result of a run from its tally and result lines (FEP 4.2)."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.fep.outputs.data_frames import data_frame
from assay.fep.outputs.failing_cases import FailingCase, every_failing_case
from assay.inputs.places import NO_PLACES, Places
from assay.ports import Run
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import is_object
from assay.protocol.results import CheckResult, EvaluationRunResult, EvaluationSummary, Status, TestCaseResult
from assay.results.check_names import result_labels
from assay.results.notebook_html import page, paragraph, table
from assay.results.pass_rate import PassRate, Slice, slices_of
from assay.results.reasons import passed_of
from assay.results.tally import Tally
from assay.stats.intervals import Rate
from assay.stats.number_text import percent, trial_text
from assay.terminal import one_line

MAX_ROWS, MAX_IDS, MAX_LINE = 8, 5, 160  # checks, failed cases and columns of a repr
WORDS = ("passed", "failed", "error", "skip", "other")


def metadata_of(tally: Tally) -> dict[str, Any]:
    """The metadata of a run: its cost, and its rates and means with intervals (FEP-31, FEP-46)."""
    statistics = tally.statistics()
    metadata: dict[str, Any] = msgspec.to_builtins(tally.spending) if tally.spending else {}
    return metadata if statistics is None else {**metadata, "statistics": msgspec.to_builtins(statistics)}


class RunResult(EvaluationRunResult, frozen=True, kw_only=True):
    """An EvaluationRunResult of the library, with what a person asks first: how good, what failed, and a table."""

    @property
    def pass_rate(self) -> PassRate | None:
        """
        The mean over cases of the share of their checks that passed, with its interval, as in the table of the command;
        None if no check passed or failed.
        """
        return _rate(self._statistics.get("pass_rate"))

    @property
    def case_pass_rate(self) -> PassRate | None:
        """The share of cases that passed all their checks, over the cases that were measured; None if there is none."""
        return _rate(self._statistics.get("case_pass_rate"))

    @property
    def _columns(self) -> Places:
        return (self.metadata or {}).get("columns", NO_PLACES)

    @property
    def _statistics(self) -> dict[str, Any]:
        return (self.metadata.get("statistics") if self.metadata else None) or {}

    def slices(self, *by: str | list[str] | tuple[str, ...]) -> list[Slice]:
        """
        The pass rates by `tag`, by a member of the case or its metadata, or by a path, as `assay evaluate --by`.

            for one in result.slices("topic"):
                print(one.name, one.case_pass_rate)
        """
        names = [name for one in by for name in (one if isinstance(one, list | tuple) else [one])]
        return slices_of(self.results, names, self._columns)

    @property
    def failing(self) -> list[FailingCase]:
        """The cases that did not pass or were not measured, each with the reasons of its checks in words."""
        return every_failing_case(self.results)

    @property
    def failed(self) -> list[TestCaseResult]:
        """The cases with a check that failed. Cases that were not measured are in `unmeasured`."""
        return [case for case in self.results if any(_passed(check) is False for check in case.check_results)]

    @property
    def unmeasured(self) -> list[TestCaseResult]:
        """The cases with a check that has an error or was skipped."""
        return [case for case in self.results if case.status != "completed"]

    def to_pandas(self) -> Any:
        """
        A `pandas.DataFrame` with one row for each check: the columns of the table that was given, then input, output,
        expected, reason and score, then what else the cases have. It needs the extra `tables`.
        """
        return data_frame(self.results, self._columns)

    def _repr_html_(self) -> str:
        """What a notebook shows: rates with intervals, checks, and what did not pass."""
        rate, cases, failing = self.pass_rate, self.case_pass_rate, self.failing
        counts = self._counts()
        checks: dict[str, Any] = self._statistics.get("checks") or {}
        names = dict.fromkeys(name for name, _ in counts)
        rates = {name: _rate(checks.get(name, {}).get("pass_rate")) for name in names}
        rows = [
            (name, *(counts[name, word] for word in WORDS), "–" if rated is None else repr(rated))
            for name, rated in rates.items()
        ]
        reasons = [
            (f"{one.id}{_trials(one.trials)}", check.check, check.reason)
            for one in failing
            for check in one.checks
        ]
        parts = [paragraph(repr(self).partition("\n")[0].split(", pass rate")[0], strong=True)]
        parts += [] if rate is None else [paragraph(f"pass rate {rate!r} over {rate.cases:,} cases")]
        parts += [] if cases is None else [paragraph(f"cases that passed all their checks: {cases!r}")]
        parts += [table(("check", *WORDS, "pass rate (95%)"), rows, len(rows))]
        parts += [paragraph(f"did not pass: {len(failing):,}", strong=True)] if failing else []
        return page([*parts, table(("case", "check", "reason"), reasons, len(reasons))])

    def _counts(self) -> Counter[tuple[str, str]]:
        """How many answers of each check have which outcome."""
        return Counter(
            (label, _word(check))
            for case in self.results
            for label, check in zip(_labels(case.check_results), case.check_results, strict=True)
        )

    def __repr__(self) -> str:
        """A summary that fits a screen."""
        summary, rate = self.summary, self.pass_rate
        rated = "" if rate is None else f", pass rate {percent(rate)}"
        ids = {str(case.execution_context.test_case.get("id", "")) for case in self.results}
        counts = f"{len(ids):,} case{'' if len(ids) == 1 else 's'}"
        counts += f", {summary.total_test_cases:,} trials" if summary.total_test_cases > len(ids) else ""
        lines = [f"RunResult {self.evaluation_id}: {self.status}, {counts}{rated}"]
        rows = self._counts()
        if self.results and not rows:
            lines.append("  nothing was measured: there are no checks")
        names = list(dict.fromkeys(name for name, _ in rows))
        for name in names[:MAX_ROWS]:
            counts = ", ".join(f"{rows[name, word]:,} {word}" for word in WORDS if rows[name, word])
            lines.append(f"  {name}: {counts}")
        lines += [f"  … {len(names) - MAX_ROWS} more checks"] if len(names) > MAX_ROWS else []
        for title, cases in (("failed", self.failed), ("not measured", self.unmeasured)):
            ids = [_name(case) for case in cases[:MAX_IDS]]
            more = f" and {len(cases) - MAX_IDS:,} more" if len(cases) > MAX_IDS else ""
            lines += [f"  {title}: {', '.join(ids)}{more}"] if cases else []
        return "\n".join(
            one_line(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…") for line in lines
        )


def _rate(document: Any) -> PassRate | None:
    return PassRate.of(msgspec.convert(document, Rate)) if document else None


def _trials(numbers: Sequence[int]) -> str:
    return f" (trial {', '.join(str(number + 1) for number in numbers[:MAX_IDS])})" if numbers else ""


def _trial(case: TestCaseResult) -> int | None:
    """The number of the trial, if the output has one."""
    metadata = case.execution_context.output.get("metadata")
    trial = metadata.get("trial") if is_object(metadata) else None
    return trial if type(trial) is int else None


def _name(case: TestCaseResult) -> str:
    id, trial = str(case.execution_context.test_case.get("id", "")), _trial(case)
    return id if trial is None else f"{id} ({trial_text(trial)})"


def _passed(check: CheckResult) -> bool | None:
    return passed_of({"results": check.results})


def _labels(checks: Sequence[CheckResult]) -> list[str]:
    """The labels of the checks of a case, as the table of the command has them."""
    return result_labels(
        [
            {"check_type": one.check_type, "metadata": None if one.metadata is UNSET else one.metadata}
            for one in checks
        ]
    )


def _word(check: CheckResult) -> str:
    if check.status != "completed":
        return check.status
    return {True: "passed", False: "failed", None: "other"}[_passed(check)]


def run_result(
    evaluation_id: str,
    started_at: datetime,
    completed_at: datetime,
    tally: Tally,
    results: list[TestCaseResult],
    experiment: ExperimentMetadata | None,
    columns: Places = NO_PLACES,
) -> RunResult:
    """`columns`: those of the table that the cases come from, each with the place of its cells in a context."""
    metadata = metadata_of(tally) | ({"columns": dict(columns)} if columns else {})
    return RunResult(
        evaluation_id=evaluation_id,
        started_at=started_at,
        completed_at=completed_at,
        status=tally.status,
        experiment=experiment or UNSET,
        summary=tally.summary(),
        results=results,
        metadata=metadata or UNSET,
    )


# The JSON of a run's result: its header, and the whole of it if its results are in memory.

_encode = msgspec.json.Encoder().encode


def result_json(
    run: Run, experiment: ExperimentMetadata | None, lines: Sequence[bytes], metadata: dict[str, Any]
) -> bytes:
    """The EvaluationRunResult of a run whose results are in memory, equal to the stream of `stream_result`."""
    header = result_header(run, experiment, (run.started, run.ended))
    end = b'],"metadata":' + _encode(metadata) + b"}" if metadata else b"]}"
    if not lines:
        return header + end
    parts = [*lines]  # each line but the first and the last is copied once
    parts[0] = header + parts[0]
    parts[-1] += end
    return b",".join(parts)


class ResultHeader(Struct, frozen=True):
    """The members of an EvaluationRunResult before its results."""

    evaluation_id: str
    started_at: datetime
    completed_at: datetime | None
    status: Status
    summary: dict[str, Any] | EvaluationSummary
    experiment: ExperimentMetadata | UnsetType = UNSET


def result_header(
    run: Run,
    experiment: ExperimentMetadata | None,
    when: tuple[datetime | None, datetime | None] | None = None,
) -> bytes:
    """An EvaluationRunResult up to its results."""
    started, ended = when or times_of(run)
    status, summary = run.metadata.get("status", "error"), run.metadata.get("summary") or summary_of(run)
    header = ResultHeader(run.id, started or run.created, ended, status, summary, experiment or UNSET)
    return _encode(header)[:-1] + b',"results":['


def times_of(run: Run) -> tuple[datetime | None, datetime | None]:
    """Start and end of a run. An inline run has the clock of the process that scored it."""
    if moments := run.metadata.get("moments"):
        started, ended = moments
        return datetime.fromisoformat(started), datetime.fromisoformat(ended)
    return run.started, run.ended


def summary_of(run: Run) -> EvaluationSummary:
    return msgspec.convert(run.metadata.get("summary", Tally().summary()), EvaluationSummary)
