"""lm-evaluation-harness: samples (.jsonl) with the results of their run (.json)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.inputs.files import format_of, read_items
from assay.interchange.imported import Imported, ImportReport, listed, members, recorded, without_nulls
from assay.interchange.made_checks import EXPECTED, OUTPUT, check, named
from assay.interchange.sources import Candidate, object_of, whole_document
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

_KNOWN = frozenset(
    [
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    ]
)
_OF_TASKS: dict[str, str] = dict.fromkeys(
    ["configs", "versions", "group_subtasks", "higher_is_better", "groups"],
    "it describes tasks, whose code is not run",
)
_NO_FILTER = "none"
_WHY = "a metric of the harness is code; its scores are recorded"


def recognises(one: Candidate) -> bool:
    """Whether a file has samples or results of the harness."""
    if one.format == "jsonl":
        return {"doc_id", "doc", "resps"} <= one.members
    return one.format == "json" and {"results", "configs", "versions"} <= one.members


def read(files: Sequence[str], report: ImportReport, limits: Limits) -> Iterator[Imported]:
    """The samples of all files. A file of results says which model answered."""
    model, version = "", None
    samples: list[str] = []
    for name in files:
        if format_of(name, "jsonl")[0] == "jsonl":
            samples.append(name)
            continue
        document = whole_document(name, limits)
        if is_object(document):
            model = str(document.get("model_name") or members(document, "config").get("model") or "")
            version = document.get("lm_eval_version")
            for task in members(document, "results"):
                report.leave(
                    f"{name}: results.{task}", "a score of a whole task", "it is counted again from samples"
                )
            report.describe(name, document, ("results",), _OF_TASKS)
    for name in samples:
        task = Path(name).name.removeprefix("samples_").partition("_20")[0].partition(".jsonl")[0]
        for item in read_items(name, limits):
            yield _case(object_of(item), task, model, version, item.location, report)


def _case(row: JSON, task: str, model: str, version: Any, place: str, report: ImportReport) -> Imported:
    pairs = _pairs(row, place, report)
    prompts = [prompt for prompt, _ in pairs if prompt is not None]
    choices = [one for _, one in pairs if isinstance(one, str)]
    options = [one for _, one in pairs if is_object(one) and one]
    filtered = listed(row, "filtered_resps")
    ranked = _ranking(filtered)
    target: Any = row.get("target")
    value: Any = filtered[0] if len(filtered) == 1 else filtered
    if (
        ranked is not None and len(ranked) == len(choices) > 1
    ):  # a task of choices: the likeliest one is the answer
        value = choices[max(range(len(ranked)), key=ranked.__getitem__)]
        at = int(target) if str(target).isdigit() else -1
        target = choices[at] if 0 <= at < len(choices) else target
    case: JSON = {"id": f"{task}-{row.get('doc_id')}", "input": prompts[0] if prompts else row.get("doc")}
    case |= {} if target is None else {"expected": target}
    case["metadata"] = {"task": task, "doc": row.get("doc")} | ({"choices": choices} if ranked else {})
    names = [one for one in listed(row, "metrics") if isinstance(one, str)] or [
        name for name, one in row.items() if name not in _KNOWN and isinstance(one, int | float)
    ]
    scores = {name: row[name] for name in names if isinstance(row.get(name), int | float)}
    details = {name: row[name] for name in names if name in row and name not in scores}
    if options:
        case["metadata"]["options"] = options[0] if len(options) == 1 else options
    other = report.plain_others(row, (*_KNOWN, *names), place)
    other |= {name: row[name] for name in ("doc_hash", "prompt_hash", "target_hash") if name in row}
    checks: list[tuple[str, JSON]] = []
    for name in scores:
        if name == "acc" and ranked is not None:
            checks.append((name, check("exact_match", actual=OUTPUT, expected=EXPECTED)))
            report.carry("metric acc: exact_match")
        else:
            report.leave(place, f"metric {name}", _WHY)
    filter_name = row.get("filter")
    suffix = f" {filter_name}" if filter_name not in (None, _NO_FILTER) else ""
    metadata: JSON = without_nulls(
        {"outcome": "completed", "system": model or None, "responses": row.get("resps")}
    )
    metadata["recorded"] = recorded("lm-evaluation-harness", scores, version, details, other)
    report.carry("samples")
    return Imported(
        case, {"value": value, "metadata": metadata}, named(checks), [], f"{model}{suffix}".strip()
    )


def _pairs(row: JSON, place: str, report: ImportReport) -> list[tuple[Any, Any]]:
    """The requests of a sample: a prompt with a continuation, or with the options of a generation."""
    given = row.get("arguments")
    named: JSON = given if is_object(given) else {}
    several: list[Any] = given if is_list(given) else list(named.values())
    places = [f"{place}.arguments.{name}" for name in named] or [f"{place}.arguments"] * len(several)
    pairs: list[tuple[Any, Any]] = []
    for at, one in zip(places, several, strict=True):
        if is_object(one):
            report.leave_others(one, ("arg_0", "arg_1"), at, "argument ")
            pairs.append((one.get("arg_0"), one.get("arg_1")))
        elif is_list(one):
            first, second, *_ = (*one, None, None)
            pairs.append((first, second))
            if len(one) > 2:
                report.leave(at, "further arguments", "the first two are the prompt and what follows it")
        else:
            report.leave(at, "an argument", "it is no prompt with a continuation")
    if len({str(prompt) for prompt, _ in pairs}) > 1:
        report.leave(f"{place}.arguments", "further prompts", "the input is the first prompt")
    return pairs


def _ranking(responses: list[Any]) -> list[float] | None:
    """The likelihoods of a task of choices, which are pairs of a number and whether it is the greedy answer."""
    found: list[float] = []
    for one in responses:
        if not is_list(one) or not one:
            return None
        first: Any = one[0]
        try:
            found.append(float(first))  # the harness writes some as texts
        except (TypeError, ValueError):
            return None
    return found or None
