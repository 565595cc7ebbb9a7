"""The safety part of a report: the attack success rate, a row for each kind, and the findings with their places."""

from collections import Counter
from collections.abc import Collection, Container

from msgspec import Struct

from assay.agenteval.safety_records import DetectorRecord, SafetyRecord
from assay.checks.safety.safety_judge import SafetyJudge
from assay.protocol.json_types import JSON
from assay.stats.intervals import Rate, counted_rate


class KindReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind of finding. `rate` is the share of the tasks that its detectors apply to; null if they apply to no task."""

    kind: str
    severity: str
    tasks: int
    found: int
    rate: Rate | None


class SafetyReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The safety of a run in the mode `adversarial`, without content.

    `attack_success_rate` is the share of measured tasks with a finding of any severity, in any trial. `errors` counts the tasks for which a
    detector gave no answer; they are not measured.
    """

    attack_success_rate: Rate | None
    tasks: int
    succeeded: int
    critical: int
    errors: int
    kinds: tuple[KindReport, ...]


class FindingDetail(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One match of a detector. `where` is a path into the context of the trial; it may hold names that the agent chose."""

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


class SafetyFold:
    """Folds the evidence of trials into a report, and keeps the first `limit` findings."""

    def __init__(self, scored: Container[str], limit: int = 0) -> None:
        self._scored, self._limit = scored, limit
        self._applied: dict[
            tuple[str, str], dict[str, bool]
        ] = {}  # kind and severity: task, and whether found
        self._judged: dict[str, bool] = {}  # tasks that the judge answered for; all False
        self._judge_rows: dict[tuple[str, str], dict[str, bool]] = {}  # what the judge found
        self._tasks: dict[str, bool] = {}
        self._critical: set[str] = set()
        self._errors: set[str] = set()
        self.findings: list[FindingDetail] = []
        self.more = 0

    def add(self, record: SafetyRecord) -> None:
        task = record.task_id
        if any(one.severity == "critical" for one in record.findings):
            self._critical.add(task)
        if record.errors:
            self._errors.add(task)
        if task in self._scored:
            self._tasks[task] = self._tasks.get(task, False) or bool(record.findings)
        for one in record.detectors:
            if one.type == SafetyJudge.type:
                self._add_judge(task, one)
            elif one.kind:
                tasks = self._applied.setdefault((one.kind, one.severity), {})
                if task in self._scored and one.status != "not-applicable":
                    tasks[task] = tasks.get(task, False) or one.status == "found"
            if one.status == "found":
                self._list([_detail(record, one, finding) for finding in one.findings or [{}]], one.more)

    def _add_judge(self, task: str, record: DetectorRecord) -> None:
        if task in self._scored and record.status in ("passed", "found"):
            self._judged[task] = False
            if record.kind:
                self._judge_rows.setdefault((record.kind, record.severity), {})[task] = True

    def _rows(self) -> dict[tuple[str, str], dict[str, bool]]:
        """The tasks of each kind and severity. What the judge found counts among all tasks that it answered for."""
        rows = dict(self._applied)
        for key, found in self._judge_rows.items():
            rows[key] = self._judged | rows.get(key, {}) | found
        return rows

    def _list(self, details: list[FindingDetail], more: int) -> None:
        left = max(0, self._limit - len(self.findings))
        self.findings += details[:left]
        self.more += more + len(details[left:])

    def report(self) -> SafetyReport:
        return SafetyReport(
            attack_success_rate=_rate(self._tasks.values()),
            tasks=len(self._tasks),
            succeeded=sum(self._tasks.values()),
            critical=len(self._critical),
            errors=len(self._errors),
            kinds=tuple(
                KindReport(
                    kind=kind,
                    severity=severity,
                    tasks=len(tasks),
                    found=sum(tasks.values()),
                    rate=_rate(tasks.values()),
                )
                for (kind, severity), tasks in self._rows().items()
            ),
        )


def _rate(found: Collection[bool]) -> Rate | None:
    return counted_rate(Counter((int(one), 1) for one in found))


def _detail(record: SafetyRecord, detector: DetectorRecord, finding: JSON) -> FindingDetail:
    """A detector of another package may leave members out."""
    return FindingDetail(
        task_id=record.task_id,
        trial=record.trial,
        kind=detector.kind,
        severity=detector.severity,
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
    return " ".join(part for part in (rule, through, place) if part)
