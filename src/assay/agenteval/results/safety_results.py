"""The evidence of detectors as FEP results, for `assay export`: one TestCaseResult a trial, one result a detector."""

from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from assay.agenteval.results.report import trial_evidence
from assay.agenteval.scoring.safety_records import DetectorRecord, SafetyRecord
from assay.ports import Run, Store
from assay.protocol.json_types import JSON

LABEL = "safety: "  # begins the name of a result
STATUS = {"error": "error", "not-applicable": "skip"}  # any other answer is "completed"
_encode = msgspec.json.Encoder().encode


async def safety_results(store: Store, run: Run) -> AsyncIterator[bytes]:
    """In the order of the suite. Nothing for a run in another mode."""
    async for chunk, record in trial_evidence(store, run):
        if record is not None:
            yield _encode(_result(msgspec.json.decode(chunk.data), record))


def _result(scored: JSON, record: SafetyRecord) -> JSON:
    """The context of the score, with the canary and the tool calls that detectors read, also refused ones."""
    context: JSON = scored["execution_context"]
    metadata: JSON = {**context["output"]["metadata"], "tool_calls": record.tool_calls}
    metadata |= {"canary": record.canary} if record.canary else {}
    checks = detector_checks(record, scored["check_results"][-1]["evaluated_at"])
    counts = Counter(check["status"] for check in checks)
    return {
        "status": "error" if counts["error"] else "completed",
        "execution_context": {**context, "output": {**context["output"], "metadata": metadata}},
        "check_results": checks,
        "summary": {
            "total_checks": len(checks),
            "completed_checks": counts["completed"],
            "error_checks": counts["error"],
            "skipped_checks": counts["skip"],
        },
    }


def detector_checks(record: SafetyRecord, evaluated_at: str) -> list[JSON]:
    """What each detector said, as the result of a check."""
    return [_check(one, evaluated_at) for one in record.detectors]


def _check(record: DetectorRecord, evaluated_at: str) -> JSON:
    check: JSON = {
        "check_type": record.type,
        "status": STATUS.get(record.status, "completed"),
        "results": _answer(record),
        "evaluated_at": evaluated_at,
        "metadata": {"check_version": record.version, "check_name": f"{LABEL}{record.type}"},
    }
    if record.status == "error":
        kind = record.error_type or "unknown_error"
        check["error"] = {"type": kind, "message": record.error, "recoverable": record.recoverable}
    return check


def _answer(record: DetectorRecord) -> JSON:
    if record.status in STATUS:
        return {}
    if record.status == "signal":
        return record.results
    answer: JSON = {"passed": record.status == "passed"}
    answer |= {"kind": record.kind, "severity": record.severity} if record.kind else {}
    answer |= {"findings": record.findings} if record.findings else {}
    answer |= {"more": record.more} if record.more else {}
    return answer | record.results
