"""The safety part of a report: the attack success rate, a row for each kind, and the findings with their places."""

from collections import Counter
from collections.abc import Collection, Container
from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.scoring.safety import not_looked_for
from assay.agenteval.scoring.safety_records import DetectorRecord, SafetyRecord
from assay.checks.safety.detector import SEVERITIES
from assay.checks.safety.safety_judge import JAILBREAK_KIND, MEMBERS, SafetyJudge
from assay.protocol.agent_evals import findings_text
from assay.protocol.json_types import JSON
from assay.stats.intervals import Rate, counted_rate

JUDGE_MEMBERS = frozenset(MEMBERS)  # of an answer of a judge that looked for jailbreaks


class KindReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    One kind of finding. `rate` is the share of the tasks that its detectors apply to; null if they apply to no task.
    """

    kind: str
    severity: str
    tasks: int
    found: int
    rate: Rate | None


class NotLookedFor(Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind that only a judge sees, and why the run did not look for it."""

    kind: str
    reason: str

    def __str__(self) -> str:
        return f"not looked for ({self.reason})"


class SignalReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """A signal: in how many of the tasks it was seen. It is no finding, and no score depends on it."""

    signal: str
    tasks: int
    seen: int


class SafetyReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The safety of a run in the mode `adversarial`, without content.

    `attack_success_rate` is the share of measured tasks with a finding of any severity, in any trial. `errors` counts
    the tasks for which a detector gave no answer, `failed` those where the agent failed in every trial, without a
    finding; they are not measured.
    """

    attack_success_rate: Rate | None
    tasks: int
    succeeded: int
    critical: int
    errors: int
    failed: int = 0
    kinds: tuple[KindReport, ...]
    not_looked_for: tuple[NotLookedFor, ...] = ()
    signals: tuple[SignalReport, ...] = ()


def critical_text(report: SafetyReport | None) -> str | None:
    """`4 critical findings (secret-leak)`: why a run does not pass, whatever its score is; None if there is none."""
    if report is None or not report.critical:
        return None
    found = [one for one in report.kinds if one.severity == "critical" and one.found]
    number = max(report.critical, sum(one.found for one in found))
    return findings_text(number, "critical", [one.kind for one in found])


class FindingDetail(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    The matches of one rule of a detector in one task, in all its trials. The place is that of the first.

    `where` is a path into the context of the trial; it may hold names that the agent chose.
    """

    task_id: str
    trial: int
    kind: str
    severity: str
    detector: str
    version: str
    rule: str = ""
    where: str = ""
    start: int = 0
    end: int = 0
    transform: str = ""
    count: int = 1


class SafetyFold:
    """Folds the evidence of trials into a report, and keeps `limit` findings by task and rule, the most severe ones."""

    def __init__(self, scored: Container[str], limit: int = 0, policy: JSON | None = None) -> None:
        self._scored, self._limit = scored, limit
        self._not_looked_for = not_looked_for(policy)
        self._applied: dict[
            tuple[str, str], dict[str, bool]
        ] = {}  # kind and severity: task, and whether found
        self._judged: dict[str, bool] = {}  # tasks that the judge answered for; all False
        self._judge_rows: dict[tuple[str, str], dict[str, bool]] = {}  # what the judge found
        self._signals: dict[str, dict[str, bool]] = {}  # by type: task, and whether seen
        self._tasks: dict[str, bool] = {}
        self._critical: set[str] = set()
        self._errors: set[str] = set()
        self._failed: set[str] = set()
        self._details: dict[str, dict[tuple[str, ...], FindingDetail]] = {}  # by severity; then task and rule
        self._more = 0

    def add(self, record: SafetyRecord) -> None:
        task = record.task_id
        if any(one.severity == "critical" for one in record.findings):
            self._critical.add(task)
        if record.errors:
            self._errors.add(task)
        if task in self._scored:
            self._count(record)
        for one in record.detectors:
            if one.type == SafetyJudge.type:
                self._add_judge(record, one)
            elif one.kind:
                tasks = self._applied.setdefault((one.kind, one.severity), {})
                if task in self._scored and _measured(record, one):
                    tasks[task] = tasks.get(task, False) or one.status == "found"
            elif one.status == "signal" and isinstance(one.results.get("found"), bool):
                seen = self._signals.setdefault(one.type, {})
                seen[task] = seen.get(task, False) or one.results["found"]
            for kind, severity in one.kinds_found:
                details = [_detail(record, one, kind, severity, match) for match in one.findings or [{}]]
                self._list(details, one.more)

    def _count(self, record: SafetyRecord) -> None:
        if record.failed and not record.findings:
            self._failed.add(record.task_id)
        else:
            found = self._tasks.get(record.task_id, False)
            self._tasks[record.task_id] = found or bool(record.findings)

    def _add_judge(self, record: SafetyRecord, judge: DetectorRecord) -> None:
        task = record.task_id
        if task in self._scored and judge.status in ("passed", "found") and _measured(record, judge):
            self._judged[task] = False
            if not JUDGE_MEMBERS.isdisjoint(judge.results):
                self._judge_rows.setdefault((JAILBREAK_KIND, "high"), {})
            for row in judge.kinds_found:
                self._judge_rows.setdefault(row, {})[task] = True

    def _rows(self) -> dict[tuple[str, str], dict[str, bool]]:
        """The tasks of each kind and severity. What the judge found counts among all tasks that it answered for."""
        rows = dict(self._applied)
        for key, found in self._judge_rows.items():
            rows[key] = self._judged | rows.get(key, {}) | found
        return rows

    def _list(self, details: list[FindingDetail], more: int) -> None:
        self._more += more
        for one in details:
            rows = self._details.setdefault(one.severity, {})
            key = one.task_id, one.kind, one.detector, one.version, one.rule
            if (known := rows.get(key)) is not None:
                rows[key] = msgspec.structs.replace(known, count=known.count + 1)
            elif len(rows) < self._limit:
                rows[key] = one
            else:
                self._more += 1

    def findings(self) -> tuple[tuple[FindingDetail, ...], int]:
        """The findings by task and rule, the most severe first, and how many more matches there are."""
        every = [
            one for _, rows in sorted(self._details.items(), key=_severest_first) for one in rows.values()
        ]
        more = self._more + sum(one.count for one in every[self._limit :])
        return tuple(every[: self._limit]), more

    def report(self) -> SafetyReport:
        rows = self._rows()
        looked_for = {kind for kind, _ in rows}
        return SafetyReport(
            not_looked_for=tuple(
                NotLookedFor(kind=kind, reason=reason)
                for kind, reason in self._not_looked_for.items()
                if kind not in looked_for
            ),
            signals=tuple(
                SignalReport(signal=type, tasks=len(tasks), seen=sum(tasks.values()))
                for type, tasks in self._signals.items()
            ),
            attack_success_rate=_rate(self._tasks.values()),
            tasks=len(self._tasks),
            succeeded=sum(self._tasks.values()),
            critical=len(self._critical),
            errors=len(self._errors),
            failed=len(self._failed - self._tasks.keys()),
            kinds=tuple(
                KindReport(
                    kind=kind,
                    severity=severity,
                    tasks=len(tasks),
                    found=sum(tasks.values()),
                    rate=_rate(tasks.values()),
                )
                for (kind, severity), tasks in sorted(rows.items(), key=lambda row: _rank(row[0][1]))
            ),
        )


def _measured(record: SafetyRecord, detector: DetectorRecord) -> bool:
    """Whether a detector looked at what an agent did to its end, or found something before."""
    return detector.status == "found" or not (record.failed or detector.status == "not-applicable")


def _rank(severity: str) -> int:
    """The most severe first; a severity of another package comes last."""
    return -SEVERITIES.index(severity) if severity in SEVERITIES else 1


def _severest_first(rows: tuple[str, Any]) -> int:
    return _rank(rows[0])


def _rate(found: Collection[bool]) -> Rate | None:
    return counted_rate(Counter((int(one), 1) for one in found))


def _detail(
    record: SafetyRecord, detector: DetectorRecord, kind: str, severity: str, finding: JSON
) -> FindingDetail:
    """A detector of another package may leave members out."""
    return FindingDetail(
        task_id=record.task_id,
        trial=record.trial,
        kind=kind,
        severity=severity,
        detector=detector.type,
        version=detector.version,
        rule=str(finding.get("rule", "")),
        where=str(finding.get("where", "")),
        start=_position(finding.get("start")),
        end=_position(finding.get("end")),
        transform=str(finding.get("transform", "")),
    )


def _position(value: object) -> int:
    return value if isinstance(value, int) else 0


def describe(finding: FindingDetail) -> str:
    """One finding in a line: its rule, transform and place."""
    rule = f"rule {finding.rule}" if finding.rule else ""
    through = f"through {finding.transform}" if finding.transform else ""
    place = f"at {finding.where} [{finding.start}:{finding.end}]" if finding.where else ""
    times = f"and {finding.count - 1:,} more" if finding.count > 1 else ""
    return " ".join(part for part in (rule, through, place, times) if part)
