"""Results of promptfoo: each row is a test with a prompt and a provider, its output, and what promptfoo said of it."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.interchange.imported import Imported, ImportReport, listed, members, recorded, without_nulls
from assay.interchange.promptfoo_prompts import messages_of
from assay.interchange.promptfoo_tests import TestChecks
from assay.protocol.json_types import JSON, is_object

COMPONENTS = 100  # recorded verdicts of one output


class PromptfooResults:
    """Rows of results: a test with a prompt and a provider, its output, and what promptfoo said of it."""

    def __init__(self, name: str, report: ImportReport) -> None:
        self._name, self._report = name, report
        self._checks = TestChecks(report, None)

    def case(self, row: Any, place: str) -> Iterator[Imported]:
        if not is_object(row) or not is_object(row.get("testCase") or row.get("vars")):
            self._report.leave(place, "a result", "it is no object with a test")
            return
        test = members(row, "testCase")
        variables = members(row, "vars") or members(test, "vars")
        checks, judges = self._checks.of(
            variables, (f"{place}.testCase", test.get("assert")), threshold=test.get("threshold")
        )
        prompt, provider = members(row, "prompt"), row.get("provider")
        system = (provider.get("label") or provider.get("id")) if is_object(provider) else provider
        label = str(prompt.get("label") or prompt.get("raw") or "")
        metadata = members(test, "metadata") | {"vars": variables, "prompt": label}
        if isinstance(test.get("description"), str):
            metadata["description"] = test["description"]
        case = {
            "id": _id_of(row, variables),
            "input": messages_of(str(prompt.get("raw", ""))),
            "metadata": metadata,
        }
        column = row.get("promptIdx")
        variant = f"{system} {label}".strip() + (f" #{column + 1}" if isinstance(column, int) else "")
        self._report.carry("recorded outputs")
        yield Imported(case, _output_of(row, test, str(system)), checks, judges, variant)


def _output_of(row: JSON, test: JSON, system: str) -> JSON:
    response, usage = members(row, "response"), members(row, "tokenUsage")
    metadata: JSON = {"system": system, "outcome": "completed"}
    metadata |= without_nulls(
        {
            "latency_ms": row.get("latencyMs"),
            "cost_usd": row.get("cost"),
            "tokens": usage.get("total"),
            "input_tokens": usage.get("prompt"),
            "output_tokens": usage.get("completion"),
            "finish_reason": response.get("finishReason"),
        }
    )
    if "finish-reason" in str(test.get("assert")):
        metadata.setdefault("finish_reason", "")  # promptfoo does not pass an output without one
    is_error = row.get("failureReason") == 2 or (row.get("error") and "output" not in response)
    if is_error:
        metadata |= {"outcome": "failed", "error": str(row.get("error"))[:10_000]}
    grading = members(row, "gradingResult")
    scores: JSON = {}
    if not is_error and isinstance(row.get("success"), bool):
        scores = {"pass": int(row["success"])}
        scores |= without_nulls({"score": row.get("score")}) | members(row, "namedScores")
    details = [
        without_nulls(
            {
                "type": members(one, "assertion").get("type"),
                "metric": members(one, "assertion").get("metric"),
                "pass": one.get("pass"),
                "score": one.get("score"),
                "reason": one.get("reason"),
            }
        )
        for one in listed(grading, "componentResults")[:COMPONENTS]
        if is_object(one)
    ]
    metadata["recorded"] = recorded("promptfoo", scores, details=details)
    return {"value": response.get("output"), "metadata": metadata}


def _id_of(row: JSON, variables: JSON) -> str:
    number = row.get("testIdx")
    if isinstance(number, int):
        return f"test-{number + 1}"
    return f"test-{hashlib.sha256(msgspec.json.encode(variables, order='sorted')).hexdigest()[:12]}"
