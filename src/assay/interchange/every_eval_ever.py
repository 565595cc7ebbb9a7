"""Every Eval Ever: records of instances (.jsonl), with the aggregate of their run (.json)."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.errors import BadLine, Problem
from assay.inputs.files import format_of, read_items
from assay.interchange.imported import Imported, ImportReport, listed, members, recorded, without_nulls
from assay.interchange.sources import Candidate, object_of, whole_document
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_object

VERSIONS = "0.2.", "0.3."
_NAMES = (
    "schema_version model_id evaluation_name evaluation_result_id sample_id input output messages evaluation"
)
_ROW = frozenset((*_NAMES.split(), "token_usage", "performance", "error", "metadata"))
_COUNTED = "it is counted again from instances"
_REQUIRED = frozenset(("schema_version", "evaluation_id", "sample_id", "evaluation"))


def recognises(one: Candidate) -> bool:
    """Whether a file has records of instances, or is an aggregate."""
    if one.format == "jsonl":
        return one.members >= _REQUIRED
    return one.format == "json" and {"schema_version", "evaluation_id", "evaluation_results"} <= one.members


def read(files: Sequence[str], report: ImportReport, limits: Limits) -> Iterator[Imported]:
    """The instances of all files, with a file for each model."""
    for name in files:
        if format_of(name, "jsonl")[0] != "jsonl":
            _note_aggregate(name, whole_document(name, limits), report)
            continue
        for item in read_items(name, limits):
            row = object_of(item)
            version = row.get("schema_version")
            if not str(version).startswith(VERSIONS):
                raise BadLine(
                    item.location, [Problem("schema_version", f"expected 0.3, got {str(version)[:20]!r}")]
                )
            yield from _case(row, item.location, report)


def _note_aggregate(name: str, document: Any, report: ImportReport) -> None:
    results = listed(document, "evaluation_results") if is_object(document) else []
    for at, one in enumerate(results):
        what = str(one.get("evaluation_name") if is_object(one) else "")
        report.leave(
            f"{name}: evaluation_results[{at}]",
            f"an aggregate score {what}",
            _COUNTED,
        )
    if is_object(document):
        report.describe(name, document, ("evaluation_results",))


def _case(row: JSON, place: str, report: ImportReport) -> Iterator[Imported]:
    asked = members(row, "input")
    if "raw" not in asked or row.get("sample_id") is None:
        report.leave(place, "an instance", "it has no sample_id, or no input.raw")
        return
    references = listed(asked, "reference")
    case: JSON = {"id": str(row["sample_id"]), "input": asked["raw"]}
    if references or isinstance(asked.get("reference"), str):
        case["expected"] = references[0] if len(references) == 1 else asked["reference"]
    case["metadata"] = without_nulls(
        {
            "evaluation": row.get("evaluation_name"),
            "choices": asked.get("choices"),
            "metadata": row.get("metadata"),
        }
    )
    evaluation, usage = members(row, "evaluation"), members(row, "token_usage")
    scores = without_nulls({"score": evaluation.get("score")})
    if isinstance(evaluation.get("is_correct"), bool):
        scores["is_correct"] = int(evaluation["is_correct"])
    error = row.get("error")
    metadata = without_nulls(
        {
            "outcome": "failed" if error else "completed",
            "system": row.get("model_id"),
            "tokens": usage.get("total_tokens"),
            "input_tokens": usage.get("input_tokens"),
            "output_tokens": usage.get("output_tokens"),
            "latency_ms": members(row, "performance").get("latency_ms"),
            "messages": row.get("messages"),
            "trajectory": list(_steps(listed(row, "messages"))) or None,
            "error": str(error)[:10_000] if error else None,
        }
    )
    name = str(row.get("evaluation_name") or "")
    about = {"evaluation_name": name}
    metadata["recorded"] = recorded(
        "every-eval-ever",
        {} if error else scores,
        str(row.get("schema_version")),
        about,
        _others(row, place, report),
    )
    if error and scores:
        report.leave(f"{place}.evaluation", "scores of an instance with an error", "it was not measured")
    report.carry("instances")
    result = row.get("evaluation_result_id")
    variant = " ".join(str(one) for one in (row.get("model_id"), result) if one)
    yield Imported(case, {"value": _answer(row), "metadata": metadata}, [], [], variant)


def _others(row: JSON, place: str, report: ImportReport) -> JSON:
    """What an instance says beside what has a place: evidence, or noted."""
    plain = report.plain_others
    other = plain(row, _ROW, place)
    parts = (
        ("input", ("raw", "reference", "choices")),
        ("output", ("raw",)),
        ("evaluation", ("score", "is_correct")),
        ("token_usage", ("total_tokens", "input_tokens", "output_tokens")),
        ("performance", ("latency_ms",)),
    )
    for name, carried in parts:
        other |= plain(members(row, name), carried, f"{place}.{name}", f"{name}.")
    return other


def _answer(row: JSON) -> Any:
    """The generation of a single turn, or the last message of the assistant."""
    raw: Any = members(row, "output").get("raw")
    if isinstance(raw, list) and len(raw) == 1:  # pyright: ignore[reportUnknownArgumentType]
        return raw[0]  # pyright: ignore[reportUnknownVariableType]
    if raw is not None:
        return raw  # pyright: ignore[reportUnknownVariableType]
    answers = [
        one.get("content")
        for one in listed(row, "messages")
        if is_object(one) and one.get("role") == "assistant"
    ]
    return next((one for one in reversed(answers) if one), None)


def _steps(messages: list[Any]) -> Iterator[JSON]:
    """The calls of tools as steps of a trajectory."""
    for one in messages:
        for call in listed(one, "tool_calls") if is_object(one) else ():
            if is_object(call):
                inputs = {"inputs": call["arguments"]} if is_object(call.get("arguments")) else {}
                yield {
                    "type": "tool-called",
                    "call_id": str(call.get("id")),
                    "tool": str(call.get("name")),
                    **inputs,
                }
