"""Results of promptfoo: each row is a test with a prompt and a provider, its output, and what promptfoo said of it."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.interchange.imported import Imported, ImportReport, listed, members, recorded, without_nulls
from assay.interchange.promptfoo.prompts import messages_of
from assay.interchange.promptfoo.test_checks import TestChecks
from assay.protocol.json_types import JSON, is_object

COMPONENTS = 100  # recorded verdicts of one output
_NAMES = (
    "testIdx promptIdx provider prompt vars testCase response success score namedScores failureReason error"
)
_ROW = frozenset(
    (*_NAMES.split(), "latencyMs", "cost", "tokenUsage", "gradingResult", "description", "metadata")
)
_TEST = frozenset(("vars", "assert", "metadata", "threshold", "description", "options", "providerOutput"))
_OPTIONS = frozenset(("prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"))
_RESPONSE = frozenset(("output", "finishReason", "tokenUsage", "cost", "latencyMs", "error"))
_GRADING = frozenset(("pass", "score", "namedScores", "componentResults", "tokensUsed", "namedScoreWeights"))
_TOKENS = "total", "prompt", "completion"
_WHY = {
    "transform": "code is not run",
    "assertScoringFunction": "code is not run",
    "provider": "its system is that of the result",
    "logProbs": "there are no probabilities of tokens here",
    "config": "it belongs to a provider",
    "raw": "the output has what the system answered",
    "prompts": "the result has its prompt",
}


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
        description = test.get("description", row.get("description"))
        if isinstance(description, str):
            metadata["description"] = description
        case = {
            "id": _id_of(row, variables, members(metadata, "assay")),
            "input": messages_of(str(prompt.get("raw", ""))),
            "metadata": metadata,
        }
        column = row.get("promptIdx")
        variant = f"{system} {label}".strip() + (f" #{column + 1}" if isinstance(column, int) else "")
        self._report.carry("recorded outputs")
        output = _output_of(row, test, str(system), self._others(row, test, place))
        yield Imported(case, output, checks, judges, variant)

    def _others(self, row: JSON, test: JSON, place: str) -> JSON:
        """What a row says beside what has a place: evidence, or noted."""
        plain = self._report.plain_others
        other = plain(row, _ROW, place, why=_WHY)
        other |= plain(members(row, "prompt"), ("raw", "label"), f"{place}.prompt", "prompt.", _WHY)
        if is_object(row.get("provider")):
            other |= plain(row["provider"], ("id",), f"{place}.provider", "provider.", _WHY)
        other |= plain(members(row, "response"), _RESPONSE, f"{place}.response", "response.", _WHY)
        other |= plain(members(row, "gradingResult"), _GRADING, f"{place}.gradingResult", "gradingResult.")
        other |= self._counts(members(row, "tokenUsage"), f"{place}.tokenUsage", "tokenUsage.", _TOKENS)
        for holder, name, same in (
            ("gradingResult", "tokensUsed", None),
            ("gradingResult", "namedScoreWeights", None),
            ("gradingResult", "namedScores", row.get("namedScores")),
            ("response", "tokenUsage", row.get("tokenUsage")),
        ):
            counts = members(members(row, holder), name)
            if counts != same:
                other |= self._counts(counts, f"{place}.{holder}.{name}", f"{holder}.{name}.")
        if not _is_error(row) and row.get("error"):
            other["error"] = row["error"]
        more = {
            name: one
            for name, one in members(row, "metadata").items()
            if one != members(test, "metadata").get(name) and one not in (None, "", [], {})
        }
        self._report.leave_others(test, _TEST, f"{place}.testCase", why=_WHY)
        if row.get("vars"):
            self._report.leave_others(
                members(test, "vars"), row["vars"], f"{place}.testCase.vars", "variable "
            )
        options = members(test, "options")
        self._report.leave_others(options, _OPTIONS, f"{place}.testCase.options", "option ", _WHY)
        return other | ({"metadata": more} if more else {})

    def _counts(self, document: JSON, place: str, prefix: str, carried: tuple[str, ...] = ()) -> JSON:
        """Every number in an object that is not 0, by its path."""
        inner = {name: one for name, one in document.items() if is_object(one)}
        found = self._report.plain_others(document, (*carried, *inner), place, prefix)
        for name, one in inner.items():
            found |= self._counts(one, f"{place}.{name}", f"{prefix}{name}.")
        return {name: one for name, one in found.items() if one != 0}


def _is_error(row: JSON) -> bool:
    """Whether there was no output, which is no verdict of an assertion."""
    return row.get("failureReason") == 2 or bool(
        row.get("error") and "output" not in members(row, "response")
    )


def _output_of(row: JSON, test: JSON, system: str, other: JSON) -> JSON:
    response, usage = (
        members(row, "response"),
        members(row, "tokenUsage") or members(members(row, "response"), "tokenUsage"),
    )
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
    is_error = _is_error(row)
    if is_error:
        metadata |= {"outcome": "failed", "error": str(row.get("error") or response.get("error"))[:10_000]}
    scores: JSON = {}
    if not is_error and isinstance(row.get("success"), bool):
        scores = {"pass": int(row["success"])}
        scores |= without_nulls({"score": row.get("score")}) | members(row, "namedScores")
    components = listed(members(row, "gradingResult"), "componentResults")[:COMPONENTS]
    details = [_component(one, listed(test, "assert")) for one in components]
    metadata["recorded"] = recorded("promptfoo", scores, details=[one for one in details if one], other=other)
    return {"value": response.get("output"), "metadata": metadata}


def _component(one: Any, assertions: list[Any]) -> JSON:
    """What promptfoo said of one assertion, with the assertion itself if it is none of the test."""
    if not is_object(one):
        return {}
    assertion = members(one, "assertion")
    known = {"type": assertion.get("type"), "metric": assertion.get("metric")}
    known |= {name: part for name, part in one.items() if name != "assertion"}
    return without_nulls(known | ({"assertion": assertion} if _is_new(assertion, assertions) else {}))


def _is_new(assertion: JSON, assertions: list[Any]) -> bool:
    """Whether an assertion says more than its type and metric, and stands neither in the test nor in a set of it."""
    if assertion.keys() <= {"type", "metric"}:
        return False
    inner = [one for each in assertions if is_object(each) for one in listed(each, "assert")]
    return assertion not in assertions and assertion not in inner


def _id_of(row: JSON, variables: JSON, exported: JSON) -> str:
    """The id of the case that assay has exported, else one of the test."""
    if isinstance(exported.get("id"), str) and exported["id"]:
        return exported["id"]
    number = row.get("testIdx")
    if isinstance(number, int):
        return f"test-{number + 1}"
    return f"test-{hashlib.sha256(msgspec.json.encode(variables, order='sorted')).hexdigest()[:12]}"
