"""The verdicts of a result about the span that it judges (`gen_ai.evaluation.result`)."""

import hashlib
from datetime import datetime
from typing import Any

from assay.checks import JUDGE_TYPES
from assay.ports.verdicts import Verdict
from assay.protocol.json_types import JSON, is_list, is_object
from assay.protocol.redaction import redact_text
from assay.results.check_names import result_labels
from assay.results.reasons import passed_of, reason_of, score_of

MAX_TEXT = 8_000  # characters of an explanation
MAX_ID = 256  # of the id of a response, which the sender of a trace chose
SKIPPED = "skipped"  # the error type of a check that did not run


def verdicts_of(result: JSON, run: str, ordinal: int, *, explanations: bool) -> list[Verdict]:
    """
    One verdict for each check of a result; none if its output is not of a trace. `ordinal`: its number in the run.

    The parent is the span whose answer was judged, else the span of the agent.
    """
    context: JSON = result["execution_context"]
    metadata = context["output"].get("metadata")
    trace = metadata.get("trace") if is_object(metadata) else None
    if not is_object(trace):
        return []
    ids, span = trace.get("trace_ids"), trace.get("judged_span_id") or trace.get("span_id")
    if not (is_list(ids) and ids and _is_id(ids[-1], 32) and _is_id(span, 16)):
        return []
    response = trace.get("response_id")
    checks: list[JSON] = result["check_results"]
    found: list[Verdict] = []
    for at, (check, name) in enumerate(zip(checks, result_labels(checks), strict=True)):
        moment = str(check["evaluated_at"])
        passed, status = passed_of(check), check["status"]
        found.append(
            Verdict(
                uid=hashlib.sha256(f"{run}\0{ordinal}\0{at}\0{moment}".encode()).hexdigest()[:32],
                run=run,
                trace_id=ids[-1],
                span_id=str(span),
                name=name,
                time=int(datetime.fromisoformat(moment).timestamp() * 1_000_000) * 1_000,
                by_model=_asks_model(check),
                label=None if passed is None else "pass" if passed else "fail",
                score=score_of(check) if status == "completed" else None,
                explanation=_explanation(check, context) if explanations else None,
                response_id=response[:MAX_ID] if isinstance(response, str) and response else None,
                error_type=_error_type(check) if status != "completed" else None,
            )
        )
    return found


def _asks_model(check: JSON) -> bool:
    """Whether a model gave the verdict of a check, or of a part of it."""
    parts: list[JSON] = (
        check.get("results", {}).get("parts", []) if check["check_type"] == "combination" else []
    )
    return check["check_type"] in JUDGE_TYPES or any(map(_asks_model, parts))


def traces_of(result: JSON) -> list[str]:
    """The traces that a result is about."""
    metadata = result["execution_context"]["output"].get("metadata")
    trace = metadata.get("trace") if is_object(metadata) else None
    ids = trace.get("trace_ids") if is_object(trace) else None
    return [one for one in ids if isinstance(one, str)] if is_list(ids) else []


def _explanation(check: JSON, context: JSON) -> str:
    return redact_text(reason_of(check, context["test_case"]))[:MAX_TEXT]


def _error_type(check: JSON) -> str:
    error = check.get("error")
    return str(error["type"]) if is_object(error) and "type" in error else SKIPPED


def _is_id(value: Any, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and not value.strip("0123456789abcdef")
