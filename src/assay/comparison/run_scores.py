"""
The numbers of one run, by case, in columns: about 40 bytes for each trial, however large its content is.

Ids are compared by their 64-bit hashes, as in `results/columns.py`.
"""

from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import isfinite, isnan, nan
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.comparison.metric import EVERY, PASSED, SCORE, Metric
from assay.comparison.result_line import BESIDE, CheckLine, ResultLine, read_line
from assay.concurrency.loop_budget import paced
from assay.errors import InvalidRequest, Problem
from assay.errors.door import hint_of, place_of
from assay.protocol.json_types import is_list, is_object
from assay.results.check_names import AGENT_ANSWERED
from assay.results.run_part import CASES_OF_DATA, RunPart
from assay.results.slices import (
    LONGEST,
    MAX_SLICES,
    NONE,
    Columns,
    Dimension,
    note_members,
    read_dimension,
    too_many_slices,
)
from assay.traces.sampling import SampledTraces

Grouping = Literal["check", "criterion"]
GROUPINGS: tuple[Grouping, ...] = ("check", "criterion")
FIRST_CRITERIA = 200  # rows in which criteria of judges are looked for
MAX_CHECK_METRICS = 30  # checks of a table of all metrics
Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
UNKNOWN_SEVERITY: Severity = "critical"  # counts a finding with another severity: a gate must not overlook it
_TAGS = read_dimension("tag")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


class ReadOptions(Struct, frozen=True):
    """What is read from each line. Without a metric, `passed` and `score` are read, and the results decide."""

    metric: Metric | None = None
    dimensions: tuple[Dimension, ...] = ()
    groupings: tuple[Grouping, ...] = ()
    with_passed: bool = False  # `passed` is read beside the metric
    standard: Dimension | None = (
        None  # the grouping whose mix a comparison of different cases is standardized to
    )
    every_metric: bool = False  # what a table of all metrics needs is read beside the metric

    @property
    def every_dimension(self) -> tuple[Dimension, ...]:
        """What the slices of each case are read by."""
        extra = self.standard is not None and all(self.standard.name != one.name for one in self.dimensions)
        return (*self.dimensions, self.standard) if self.standard is not None and extra else self.dimensions

    @property
    def metrics(self) -> tuple[Metric, ...]:
        if self.every_metric:
            own = () if self.metric is None or self.metric in EVERY else (self.metric,)
            return (*EVERY, *own)
        if self.metric is None:
            return PASSED, SCORE
        return (self.metric, PASSED) if self.with_passed and self.metric != PASSED else (self.metric,)


class Series:
    """The values of some rows: of a metric, of a check or of a criterion. NaN: it was not measured."""

    __slots__ = ("rows", "unmeasured", "values")

    def __init__(self) -> None:
        self.rows, self.values = array("I"), array("d")
        self.unmeasured = 0

    def add(self, row: int, value: float) -> None:
        self.rows.append(row)
        self.values.append(value)
        self.unmeasured += isnan(value)

    @property
    def measured(self) -> int:
        return len(self.rows) - self.unmeasured


class RunScores:
    """Collects the numbers of a run line by line."""

    def __init__(self, name: str, options: ReadOptions, *, is_eval: bool = False) -> None:
        self.name, self.options = name, options  # the id of a stored run, or the name of a file
        self.given_name = ""  # that a user gave to the run
        self.about: dict[str, str] = {}  # what tells it apart from other runs
        self.columns: Columns = {}  # of the table that the cases come from
        self._dimensions = options.every_dimension
        self.is_eval = is_eval  # the scores come from a report, not from the lines
        self.own_verdict: bool | None = None  # of the scorecard of an eval run
        self.incomplete = ""  # why the run is not complete; empty: it is, as far as is known
        self.chosen: RunPart | None = None
        self.part = ""  # which cases it has, if it was asked for some of them
        self.by_outcome = False  # those of the part were chosen because they did not pass before
        self.sampling = SampledTraces()
        self.unknown_end = False  # nothing says whether the run is complete
        self.not_looked_for: tuple[str, ...] = ()  # kinds of findings, each with the reason
        self.hashes, self.inputs = array("q"), array("q")
        self.trials, self.trials_passed = array("I"), array("I")  # the latter of tasks alone
        self.metrics = {metric.name: Series() for metric in options.metrics}
        self.groups: dict[tuple[str, str], Series] = {}  # by grouping and name
        self.check_scores: dict[str, Series] = {}  # by label, for a table of all metrics
        self.slices: dict[str, array[int]] = {one.name: array("I") for one in options.every_dimension}
        self.slice_sets: dict[str, dict[tuple[str, ...], int]] = {
            one.name: {} for one in options.every_dimension
        }
        self.members: dict[str, None] = {}  # of the cases, if slices or all metrics are read
        self.has_tags = self.has_criteria = False  # of the cases; of the checks of the first of them
        self.checks: dict[str, None] = {}
        self.graded: set[str] = set()  # names and types of checks that have a score, beside pass and fail
        self.findings: dict[
            str, dict[tuple[str, str], int]
        ] = {}  # by severity, case and kind; a thousand of each severity
        self.finding_counts: dict[str, int] = {}  # by severity; all of them
        self.finding_kinds: dict[tuple[str, str], int] = {}  # by severity and kind
        self.tasks = 0  # the row of the first task of a scorecard; the rows before it are of lines
        self._ids, self._ends = bytearray(), array("Q")

    def use_columns(self, columns: Columns) -> None:
        """Slices by the columns of the table that the cases come from, too. Call it before lines are added."""
        self.columns = columns
        self._dimensions = tuple(one.in_table(columns) for one in self.options.every_dimension)

    def note_part(self, part: RunPart, whole: str = CASES_OF_DATA) -> None:
        """Note that the run has only these cases: nothing is known of the others."""
        self.chosen, self.part, self.by_outcome = part, f"it has {part.text(whole)}", part.by_outcome

    @property
    def title(self) -> str:
        """What a text for people calls the run: the name that it was given, else its id or its file."""
        return self.given_name or self.name

    @property
    def rows(self) -> int:
        return len(self.hashes)

    def id_of(self, row: int) -> str:
        start = self._ends[row - 1] if row else 0
        return self._ids[start : self._ends[row]].decode()

    def rows_of(self, ids: Iterable[str]) -> list[int]:
        """The rows of these cases, and perhaps of others with the same hash."""
        hashes = {hash(id) for id in ids}
        return [row for row, one in enumerate(paced(self.hashes)) if one in hashes]

    def add(self, raw: bytes, location: str) -> ResultLine:
        """Add one line of results."""
        line = read_line(raw, location)
        case = line.case
        row = self._add_row(case["id"], _input_hash(case.get("input")))
        self.tasks = row + 1
        self.sampling.add(line.execution_context.output.metadata)
        if self._dimensions or self.options.every_metric:
            note_members(case, self.members)
            if not self.has_tags:
                self.has_tags = _TAGS.slices_of({"test_case": case}) != [NONE]
        for dimension in self._dimensions:
            context = (
                _decode(raw)["execution_context"] if dimension.query is not None else {"test_case": case}
            )
            self._add_slices(dimension, context)
        if not self.is_eval:
            for metric in self.options.metrics:
                self._add_value(self.metrics[metric.name], row, metric.value(line), location)
        else:
            for metric in self.options.metrics:
                if metric.kind in ("check", "output"):
                    self._add_value(self.metrics[metric.name], row, metric.value(line), location)
        self._add_groups(line, row, location)
        if self.options.every_metric and row < FIRST_CRITERIA and not self.has_criteria:
            self.has_criteria = any(True for check in line.check_results for _ in line.criteria(check))
        return line

    def add_score(
        self, id: str, score: float | None, passed: bool | None, trials: int = 1, trials_passed: int = 0
    ) -> None:
        """Add a task of a scorecard. None: it was not measured."""
        row = self._add_row(id, 0, trials)
        self.trials_passed[row] = trials_passed
        values = {"score": score, "passed": None if passed is None else float(passed)}
        for name, value in values.items():
            if name in self.metrics:
                self.metrics[name].add(row, nan if value is None else value)

    def _add_row(self, id: str, input: int, trials: int = 1) -> int:
        row = len(self.hashes)
        self.hashes.append(hash(id))
        self.inputs.append(input)
        self.trials.append(trials)
        self.trials_passed.append(0)
        self._ids += id.encode()
        self._ends.append(len(self._ids))
        for name in self.slices:
            self.slices[name].append(0)  # 0: not known from this row
        return row

    def _add_slices(self, dimension: Dimension, context: dict[str, Any]) -> None:
        sets = self.slice_sets[dimension.name]
        names = tuple(dimension.slices_of(context))
        if names not in sets and len(sets) >= MAX_SLICES:
            raise too_many_slices(dimension.name)
        self.slices[dimension.name][-1] = sets.setdefault(names, len(sets) + 1)

    def _add_value(self, series: Series, row: int, value: float | None, location: str) -> None:
        if value is None:
            return
        if not isfinite(value) and not isnan(value):
            raise InvalidRequest(Problem(location, f"expected a finite number, got {value}"))
        series.add(row, value)

    def _add_groups(self, line: ResultLine, row: int, location: str) -> None:
        for check in line.check_results:
            label = check.label
            if label == AGENT_ANSWERED:
                continue
            self._note_check(label, check)
            if check.results.get("passed") is False and "severity" in check.results:
                self._read_findings(line.case["id"], check.results)
            if not self.options.groupings and not self.options.every_metric:
                continue
            value = nan if check.status != "completed" else line.score(check)
            if self.options.every_metric:
                self._add_check(label.removeprefix(BESIDE), row, value, location)
            if "check" in self.options.groupings:
                self._add_value(self._group("check", label.removeprefix(BESIDE)), row, value, location)
            if "criterion" in self.options.groupings:
                for text, met, _ in line.criteria(check):
                    self._group("criterion", text).add(row, float(met))

    def _note_check(self, label: str, check: CheckLine) -> None:
        if label not in self.checks and len(self.checks) < MAX_SLICES:
            self.checks[label] = None
        if check.status == "completed" and not check.has_verdict_alone and len(self.graded) < MAX_SLICES:
            self.graded.update((label.removeprefix(BESIDE), check.check_type))

    def _add_check(self, label: str, row: int, value: float | None, location: str) -> None:
        """Add the score of a check to its own series; of very many checks, the first have one."""
        if label not in self.check_scores and len(self.check_scores) < MAX_CHECK_METRICS:
            self.check_scores[label] = Series()
        if label in self.check_scores:
            self._add_value(self.check_scores[label], row, value, location)

    def _read_findings(self, id: str, results: dict[str, Any]) -> None:
        """That of a detector, or all that a judge lists in `found`."""
        found = results.get("found")
        for one in found if is_list(found) and found and all(map(is_object, found)) else [results]:
            kind, severity = one.get("kind"), one.get("severity")
            if isinstance(kind, str) and isinstance(severity, str):
                self.add_finding(id, kind, severity if severity in SEVERITIES else UNKNOWN_SEVERITY)

    def add_finding(self, id: str, kind: str, severity: str) -> None:
        """Count a safety finding. The list is bounded; the counts that a gate decides by are not."""
        self.finding_counts[severity] = self.finding_counts.get(severity, 0) + 1
        _count(self.finding_kinds, (severity, kind))
        _count(self.findings.setdefault(severity, {}), (id, kind))

    def _group(self, grouping: str, name: str) -> Series:
        name = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        found = self.groups.get((grouping, name))
        if found is None:
            if len(self.groups) >= MAX_SLICES:
                raise InvalidRequest(Problem(place_of("by", grouping), f"more than {MAX_SLICES:,} of them"))
            found = self.groups[grouping, name] = Series()
        return found


def _input_hash(value: Any) -> int:
    """0: there is no input to compare. A table has each input as a text, so the texts are compared."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(msgspec.DecodeError, RecursionError):
            value = _decode(value)
    text = value if isinstance(value, str) else "" if value is None else _encode(value).decode()
    return hash(text)  # that of an empty text is 0


MAX_NAMES = 500  # characters of a list of checks


def _count(counts: dict[tuple[str, str], int], key: tuple[str, str]) -> None:
    """Count a key in a table of bounded size."""
    if key in counts or len(counts) < MAX_SLICES:
        counts[key] = counts.get(key, 0) + 1


def check_metric(runs: Sequence[RunScores], metric: Metric) -> Metric:
    """The metric of a check. Where it only passes or fails in all runs, its mean is a share."""
    if metric.kind != "check" or metric.member:
        return metric
    return msgspec.structs.replace(metric, by_verdict=all(metric.check not in run.graded for run in runs))


def chosen_metric(runs: Sequence[RunScores]) -> Metric:
    """The metric of the options; else `score` for scorecards and scored cases without a pass; else `passed`."""
    for run in runs:
        if not run.rows:
            raise InvalidRequest(f"nothing can be compared: {run.name} has no results")
    given = runs[0].options.metric
    if given is not None:
        if not any(run.metrics[given.name].rows for run in runs):
            raise InvalidRequest(Problem(place_of("metric"), _no_metric(given, runs)))
        return check_metric(runs, given)
    passed, score = (sum(len(run.metrics[name].rows) for run in runs) for name in ("passed", "score"))
    if passed == score == 0:
        names = ", ".join(dict.fromkeys(label for run in runs for label in run.checks)) or "none"
        raise InvalidRequest(
            "no check of these runs passed, failed or has a score;"
            f" {hint_of('metric', 'CHECK:NUMBER')} names another number,"
            f" and the checks are {names[:MAX_NAMES]}"
        )
    return SCORE if score > passed or any(run.is_eval for run in runs) else PASSED


def _no_metric(metric: Metric, runs: Sequence[RunScores]) -> str:
    if metric.kind == "output":
        return f"no output of these runs has the number {metric.member} in its metadata"
    names = list(dict.fromkeys(label for run in runs for label in run.checks))[:20]
    checks = f"the checks are {', '.join(names)}" if names else "the runs have no checks"
    if metric.member and any(metric.check == name for name in names):
        return f"the check {metric.check!r} has no number {metric.member!r} in its results"
    return (
        f"no check is called {metric.check!r}; {checks}"
        if metric.kind == "check"
        else f"no result has it; {checks}"
    )
