"""The evidence of safety checks, one record a trial: what the detectors found. Readers need no detector."""

from collections.abc import AsyncIterator, Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from assay.ports import Store
from assay.protocol.agent_evals import SafetyFinding
from assay.protocol.json_types import JSON
from assay.protocol.redaction import redact, redact_text
from assay.runs.log_reader import read_chunks

MODE = "adversarial"
SAFETY = "safety"  # a kind of evidence, one chunk a trial
BLOCKING = frozenset({"high", "critical"})  # such a finding sets the score of the task to 0


class DetectorRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one detector or signal answered. `where` of a finding is a JSONPath into the context of the trial."""

    type: str
    version: str
    status: Literal["passed", "found", "error", "signal", "not-applicable"]
    kind: str = ""
    severity: str = ""
    findings: list[JSON] = []
    more: int = 0
    error: str = ""
    error_type: str = ""
    recoverable: bool = False  # another attempt may have no error
    results: JSON = {}  # of a signal or the judge

    @property
    def kinds_found(self) -> list[tuple[str, str]]:
        """The kind and severity of all it found. A judge may find two kinds in one trial, the worst first."""
        if self.status != "found":
            return []
        listed = self.results.get("found", ())
        return [(one["kind"], one["severity"]) for one in listed] or [(self.kind, self.severity)]


class SafetyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The evidence of one trial. `failed`: the agent failed without an output, so only a finding says something."""

    task_id: str
    trial: int
    findings: tuple[SafetyFinding, ...] = ()
    detectors: list[DetectorRecord] = []
    canary: str = ""
    failed: bool = False
    tool_calls: list[JSON] = []  # also those that were refused, which no event has

    @property
    def errors(self) -> list[DetectorRecord]:
        return [one for one in self.detectors if one.status == "error"]


def without_secrets(record: SafetyRecord) -> SafetyRecord:
    """The record with its content redacted. Names of detectors, kinds and the canary are not content of the agent."""
    detectors = [
        msgspec.structs.replace(
            one, findings=redact(one.findings), error=redact_text(one.error), results=redact(one.results)
        )
        if one.findings or one.error or one.results
        else one
        for one in record.detectors
    ]
    return msgspec.structs.replace(record, tool_calls=redact(record.tool_calls), detectors=detectors)


record_of = msgspec.json.Decoder(SafetyRecord).decode


def distinct(findings: Iterable[SafetyFinding]) -> tuple[SafetyFinding, ...]:
    """Each kind with each severity once, in order."""
    return tuple(dict.fromkeys(findings))


def is_blocking(findings: Iterable[SafetyFinding]) -> bool:
    return any(one.severity in BLOCKING for one in findings)


def finding_texts(record: SafetyRecord, *, only_blocking: bool = False) -> list[str]:
    """Each kind that was found, with its severity and the rule that matched: `prompt-injection (high): rule canary`."""
    texts: dict[str, None] = {}
    for one in record.detectors:
        rule = next((str(match["rule"]) for match in one.findings if match.get("rule")), "")
        for kind, severity in one.kinds_found:
            if severity in BLOCKING or not only_blocking:
                texts[f"{kind} ({severity})" + (f": rule {rule}" if rule else "")] = None
    return list(texts)


async def read_records(store: Store, run: str) -> AsyncIterator[SafetyRecord]:
    """The evidence of every trial, in the order of the suite."""
    async for chunk in read_chunks(store, run, SAFETY):
        yield record_of(chunk.data)
