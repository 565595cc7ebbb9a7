"""OpenAI Evals: an eval with its graders, items, and the output items of runs."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.inputs.files import format_of, open_file, read_items
from assay.interchange.imported import Imported, ImportReport, listed, members, recorded, without_nulls
from assay.interchange.json_reader import JsonReader
from assay.interchange.openai_graders import checks_of
from assay.interchange.sources import Candidate, item_of, whole_document
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

EXPECTED = [
    "expected",
    "ideal",
    "reference",
    "reference_answer",
    "ground_truth",
    "correct_label",
    "correct_answer",
    "expected_output",
    "label",
    "answer",
    "target",
]
INPUT = ["input", "messages", "question", "prompt", "query", "ticket_text", "text"]
RESULTS = 100  # recorded results of one output
_CRITERIA = "testing_criteria"
_ROW = frozenset(("item", "datasource_item", "datasource_item_id", "sample", "results"))
_SAMPLE = frozenset(
    ("input", "output", "output_text", "output_tools", "model", "finish_reason", "usage", "error")
)
_USAGE = frozenset(("total_tokens", "prompt_tokens", "completion_tokens"))
_RESULT = frozenset(("name", "passed", "score"))
_WHY = {
    "sample": "it is what the judge of the grader answered",
    "data_source_config": "it describes the items, which are carried",
    "choices": "the last message of the model is the output",
}


def recognises(one: Candidate) -> bool:
    """Whether a file is an eval, or has items or output items."""
    if one.format == "jsonl":
        return "item" in one.members or {"datasource_item", "sample"} <= one.members
    if one.format not in ("json", "yaml"):
        return False
    return (
        _CRITERIA in one.members
        or {"datasource_item", "sample"} <= one.members
        or {"object", "data"} <= one.members
    )


def read(files: Sequence[str], report: ImportReport, limits: Limits) -> Iterator[Imported]:
    """The items of all files, with the graders of the eval among them."""
    checks: list[JSON] = []
    judges: list[JSON] = []
    sources: list[str] = []
    for name in files:
        form, _ = format_of(name, "json")
        graders = None if form == "jsonl" else _criteria(name, limits, report)
        if graders is None:
            sources.append(name)
            continue
        own = checks_of(graders, f"{name}: {_CRITERIA}", report)
        checks += own[0]
        judges += own[1]
    if sources and not checks and not judges:
        report.leave(
            ", ".join(sources), "graders", "no file has testing_criteria; import the eval beside its items"
        )
    if not sources:
        report.leave(files[0], "items", "an eval has graders and no items; import the items beside it")
    number = 0
    for name in sources:
        for place, row in _rows(name, limits):
            number += 1
            yield from _case(row, number, place, checks, judges, report)


def _criteria(name: str, limits: Limits, report: ImportReport) -> list[Any] | None:
    """The graders of a file that is an eval, else None: the file may be long."""
    form, compressed = format_of(name, "json")
    if form == "yaml":
        document = whole_document(name, limits)
        if not is_object(document) or _CRITERIA not in document:
            return None
        report.describe(name, document, (_CRITERIA,), _WHY)
        return listed(document, _CRITERIA)
    with open_file(name, compressed=compressed) as file:
        if file.read(1).lstrip() == b"[":
            return None
    found: list[Any] | None = None
    head: JSON = {}
    with open_file(name, compressed=compressed) as file:
        for path, value in JsonReader(file, name, limits, [("data",)]).members():
            if path[:1] == ("data",):
                return None
            if path == (_CRITERIA,):
                found = value if is_list(value) else []
            else:
                head[str(path[0])] = value
    if found is not None:
        report.describe(name, head, (), _WHY)
    return found


def _rows(name: str, limits: Limits) -> Iterator[tuple[str, Any]]:
    """The items of JSON lines, of a list, or of the pages of a list that the API answers."""
    form, compressed = format_of(name, "json")
    if form == "json":
        with open_file(name, compressed=compressed) as file:
            listed_whole = file.read(1).lstrip() == b"["
        if not listed_whole:
            with open_file(name, compressed=compressed) as file:
                for path, value in JsonReader(file, name, limits, [("data",)]).members():
                    if path[:1] == ("data",) and len(path) > 1:
                        yield f"{name}: data[{path[1]}]", value
            return
    for item in read_items(name, limits):
        yield item.location, item_of(item)


def _case(
    row: Any, number: int, place: str, checks: list[JSON], judges: list[JSON], report: ImportReport
) -> Iterator[Imported]:
    if not is_object(row):
        report.leave(place, "an item", "it is no object")
        return
    item: Any = row.get("item", row.get("datasource_item", row))
    if not is_object(item):
        report.leave(place, "an item", "it is no object")
        return
    sample = members(row, "sample")
    given: Any = sample.get("input")
    asked: Any = next((item[name] for name in INPUT if item.get(name) is not None), item)
    identity = row.get("datasource_item_id", item.get("id"))
    case: JSON = {"id": f"item-{number}" if identity is None else f"item-{identity}", "input": given or asked}
    expected = next((item[name] for name in EXPECTED if item.get(name) is not None), None)
    case |= {} if expected is None else {"expected": expected}
    case["metadata"] = {"item": item}
    other = _others(row, sample, place, report) if item is not row else {}
    output = _output(row, sample, other)
    if output is None and other:
        case["metadata"]["openai"] = other
    report.carry("items")
    report.carry("recorded outputs", int(output is not None))
    variant = " ".join(one for one in (sample.get("model"), row.get("run_id")) if isinstance(one, str))
    yield Imported(case, output, checks, judges, variant)


def _others(row: JSON, sample: JSON, place: str, report: ImportReport) -> JSON:
    """What a row says beside what has a place: evidence, or noted."""
    plain = report.plain_others
    other = plain(row, _ROW, place, why=_WHY) | plain(sample, _SAMPLE, f"{place}.sample", "sample.", _WHY)
    other |= plain(members(sample, "usage"), _USAGE, f"{place}.sample.usage", "usage.")
    error = members(sample, "error")
    other |= plain(error, ("message",), f"{place}.sample.error", "error.")
    results = listed(row, "results")
    if len(results) > RESULTS:
        report.leave(f"{place}.results", "results", f"only the first {RESULTS} are recorded")
    for at, one in enumerate(results[:RESULTS]):
        if is_object(one):
            name = one.get("name") or "result"
            other |= plain(one, _RESULT, f"{place}.results[{at}]", f"result {name}.", _WHY)
    answers = [one for one in listed(sample, "output") if is_object(one) and one.get("content") is not None]
    if len(answers) > 1:
        report.leave(f"{place}.sample.output", "messages before the last", "the last one is the output")
    return other


def _output(row: JSON, sample: JSON, other: JSON) -> JSON | None:
    """What the model answered, and what the graders of OpenAI said of it."""
    value = _text(sample)
    calls = _tool_calls(sample)
    error: Any = sample.get("error")
    failed = is_object(error) and bool(error.get("message") or error.get("code"))
    if value is None and not calls and not failed:
        return None
    usage = members(sample, "usage")
    metadata: JSON = {"outcome": "failed" if failed else "completed"}
    metadata |= without_nulls(
        {
            "system": sample.get("model"),
            "finish_reason": sample.get("finish_reason"),
            "tokens": usage.get("total_tokens"),
            "input_tokens": usage.get("prompt_tokens"),
            "output_tokens": usage.get("completion_tokens"),
            "error": str(error.get("message") or error.get("code")) if failed else None,
            "tool_calls": calls or None,
        }
    )
    scores: JSON = {}
    for one in listed(row, "results")[:RESULTS]:
        if is_object(one) and not failed:
            name = str(one.get("name") or "result")
            if isinstance(one.get("passed"), bool):
                scores[name] = int(one["passed"])
            if isinstance(one.get("score"), int | float) and one["score"] != scores.get(name):
                scores[f"{name} score"] = one["score"]
    if scores or other:
        metadata["recorded"] = recorded("openai-evals", scores, other=other)
    return {"value": value, "metadata": metadata}


def _tool_calls(sample: JSON) -> list[Any]:
    """The calls of tools that the model asked for."""
    of_messages = [
        call for one in listed(sample, "output") if is_object(one) for call in listed(one, "tool_calls")
    ]
    return listed(sample, "output_tools") or of_messages


def _text(sample: JSON) -> Any:
    """The text of the last message of the model."""
    if sample.get("output_text") is not None:
        return sample["output_text"]
    texts = [one.get("content") for one in listed(sample, "output") if is_object(one)]
    return next((text for text in reversed(texts) if text is not None), None)
