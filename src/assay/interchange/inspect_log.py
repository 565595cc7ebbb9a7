"""inspect: logs in `.eval` archives and in `.json` documents."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from assay.errors import BadLine, Problem
from assay.inputs.files import open_file
from assay.interchange.imported import (
    Imported,
    ImportReport,
    listed,
    members,
    recorded,
    without_nulls,
)
from assay.interchange.json_reader import JsonReader
from assay.interchange.made_checks import EXPECTED, OUTPUT, check, named
from assay.interchange.sources import ZIP, Candidate
from assay.interchange.zip_reader import ZipReader
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

GRADES = {"C": 1, "I": 0, "P": 0.5, "N": 0}  # correct, incorrect, partly, no answer
SAMPLES = ("samples",)
_SAMPLE = re.compile(r"samples/[^/]+\.json")
_ATTACHMENT = "attachment://"
_NO_CONTENT = frozenset(("events", "events_data", "attachments", "store"))
MOST_MESSAGES = 10_000


def recognises(one: Candidate) -> bool:
    """Whether a file is a log of inspect."""
    if one.format == ZIP:
        return one.name.lower().endswith(".eval")
    return (
        one.format == "json" and {"eval", "version", "status"} <= one.members and "task" in one.inside("eval")
    )


def read(files: Sequence[str], report: ImportReport, limits: Limits) -> Iterator[Imported]:
    """The samples of logs. The epochs of a sample are its trials."""
    for name in files:
        log = _Log(name, report)
        if name.lower().endswith((".json", ".json.gz")):
            yield from _read_json(name, log, limits)
        else:
            yield from _read_archive(name, log, limits)


def _read_json(name: str, log: "_Log", limits: Limits) -> Iterator[Imported]:
    with open_file(name, compressed=name.lower().endswith(".gz")) as file:
        for path, value in JsonReader(file, name, limits, [SAMPLES]).members():
            if path[:1] == SAMPLES and len(path) > 1:
                yield from log.case(value, f"{name}: samples[{path[1]}]")
            elif len(path) == 1:
                log.header(str(path[0]), value)


def _read_archive(name: str, log: "_Log", limits: Limits) -> Iterator[Imported]:
    with ZipReader(name, limits) as archive:
        names = list(archive.names())
        head = next((one for one in ("header.json", "_journal/start.json") if one in names), None)
        if head is None:
            raise BadLine(name, [Problem("", "expected an archive of inspect, with header.json")])
        for member, value in _document(archive, name, head).items():
            log.header(member, value)
        for member in names:
            if _SAMPLE.fullmatch(member):
                yield from log.case(_document(archive, name, member), f"{name}: {member}")


def _document(archive: ZipReader, name: str, member: str) -> JSON:
    try:
        document = msgspec.json.decode(archive.read(member))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise BadLine(f"{name}: {member[:200]}", [Problem("", f"not JSON: {wrong}")]) from None
    if not is_object(document):
        raise BadLine(f"{name}: {member[:200]}", [Problem("", "expected an object")])
    return document


class _Log:
    """One log: what its header says, and its samples."""

    def __init__(self, name: str, report: ImportReport) -> None:
        self._name, self._report = name, report
        self._model, self._version, self._task = "", None, ""
        self._scorers: list[tuple[str, JSON]] = []  # those that have an equal, with their options

    def header(self, member: str, value: Any) -> None:
        """Take what matters of a member of the header."""
        if member == "eval" and is_object(value):
            self._model = str(value.get("model") or "")
            self._task = str(value.get("task") or "")
            self._version = members(value, "packages").get("inspect_ai")
            self._scorers = list(self._known(listed(value, "scorers")))
        elif member == "plan" and is_object(value):
            for at, step in enumerate(listed(value, "steps")):
                solver = step.get("solver") if is_object(step) else step
                self._report.leave(
                    f"{self._name}: plan.steps[{at}]",
                    f"solver {solver}",
                    "code is not run; name the system with --agent",
                )
        elif member == "status" and value not in ("success", None):
            self._report.leave(f"{self._name}: status", "a complete run", f"the log says {str(value)[:40]!r}")

    def _known(self, scorers: list[Any]) -> Iterator[tuple[str, JSON]]:
        """Scorers that have an equal. The others are code, and their scores are recorded."""
        for at, one in enumerate(scorers):
            name = str(one.get("name") if is_object(one) else one).removeprefix("inspect_ai/")
            if name in SCORERS:
                yield name, members(one, "options") if is_object(one) else {}
            else:
                why = "its code is not run; its scores are recorded"
                self._report.leave(f"{self._name}: eval.scorers[{at}]", f"scorer {name}", why)

    def _checks(self, target: Any) -> list[JSON]:
        """The checks of a sample. A sample without a target has none."""
        if target in (None, "", []):
            return []
        made = [(name, SCORERS[name](target, options)) for name, options in self._scorers]
        for name, one in made:
            self._report.carry(f"scorer {name}: {one['type']}")
        return named(made)

    def case(self, sample: Any, place: str) -> Iterator[Imported]:
        if not is_object(sample) or "input" not in sample or "id" not in sample:
            self._report.leave(place, "a sample", "it is no object with an id and an input")
            return
        attachments = members(sample, "attachments")
        sample = {
            name: _attached(one, attachments) for name, one in sample.items() if name not in _NO_CONTENT
        }
        target: Any = sample.get("target")
        case: JSON = {"id": str(sample["id"]), "input": _input(sample["input"])}
        if target not in (None, "", []):
            case["expected"] = target[0] if is_list(target) and len(target) == 1 else target
        metadata = dict(members(sample, "metadata")) | {"task": self._task}
        metadata |= {"choices": sample["choices"]} if sample.get("choices") else {}
        case["metadata"] = metadata
        self._report.carry("samples")
        yield Imported(case, self._output(sample), self._checks(target), [], self._model)

    def _output(self, sample: JSON) -> JSON:
        output = members(sample, "output")
        usage = [one for one in members(sample, "model_usage").values() if is_object(one)]
        epoch = sample.get("epoch")
        time = sample.get("total_time")
        error = sample.get("error")
        metadata: JSON = {"outcome": "failed" if error else "completed", "system": self._model}
        if isinstance(epoch, int):
            metadata["trial"] = epoch - 1
        metadata |= without_nulls(
            {
                "latency_ms": round(time * 1000) if isinstance(time, int | float) else None,
                "tokens": _sum(usage, "total_tokens"),
                "input_tokens": _sum(usage, "input_tokens"),
                "output_tokens": _sum(usage, "output_tokens"),
                "finish_reason": next(
                    (one.get("stop_reason") for one in listed(output, "choices") if is_object(one)), None
                ),
                "error": str(members(sample, "error").get("message") or error)[:10_000] if error else None,
                "limit": members(sample, "limit").get("type"),
            }
        )
        metadata["trajectory"] = list(_steps(listed(sample, "messages")[:MOST_MESSAGES]))
        scores = members(sample, "scores")
        if scores and not error:
            plain = {name: _grade(one.get("value")) for name, one in scores.items() if is_object(one)}
            details = {
                name: without_nulls(
                    {member: one.get(member) for member in ("value", "answer", "explanation")}
                )
                for name, one in scores.items()
                if is_object(one)
            }
            metadata["recorded"] = recorded("inspect", without_nulls(plain), self._version, details)
        self._report.carry("recorded outputs")
        return {"value": output.get("completion", _last_text(sample)), "metadata": metadata}


def _includes(target: Any, options: JSON) -> JSON:
    """One of the targets is in the output."""
    exact = options.get("ignore_case") is False
    if not is_list(target) or len(target) == 1:
        return check(
            "contains", text=OUTPUT, phrases=EXPECTED, **({} if exact else {"case_sensitive": False})
        )
    flags = {"case_insensitive": not exact, "multiline": False, "dot_all": False}
    return check("regex", text=OUTPUT, pattern="|".join(re.escape(str(one)) for one in target), flags=flags)


def _f1(_target: Any, _options: JSON) -> JSON:
    return check("f1", text=OUTPUT, references=EXPECTED)


SCORERS: dict[str, Callable[[Any, JSON], JSON]] = {"includes": _includes, "f1": _f1}


def _attached(value: Any, attachments: JSON) -> Any:
    """The value with the texts that inspect keeps apart. It does not recurse deeper than the value."""
    if isinstance(value, str):
        found = attachments.get(value.removeprefix(_ATTACHMENT)) if value.startswith(_ATTACHMENT) else None
        return found if isinstance(found, str) else value
    if is_list(value):
        return [_attached(one, attachments) for one in value]
    if is_object(value):
        return {name: _attached(one, attachments) for name, one in value.items()}
    return value


def _input(value: Any) -> Any:
    """A text, or messages with their roles and contents."""
    if not is_list(value):
        return value
    return [
        {"role": one.get("role"), "content": one.get("content")} if is_object(one) else one for one in value
    ]


def _steps(messages: list[Any]) -> Iterator[JSON]:
    """The calls of tools, and what they answered, as steps of a trajectory."""
    for one in messages:
        if not is_object(one):
            continue
        for call in listed(one, "tool_calls"):
            if is_object(call):
                yield {
                    "type": "tool-called",
                    "call_id": str(call.get("id")),
                    "tool": str(call.get("function")),
                    **({"inputs": call["arguments"]} if is_object(call.get("arguments")) else {}),
                }
        if one.get("role") == "tool":
            error = members(one, "error")
            failed = {"code": "tool_error", "message": str(error.get("message", ""))} if error else None
            yield {
                "type": "tool-returned",
                "call_id": str(one.get("tool_call_id")),
                "tool": str(one.get("function")),
                "status": "error" if failed else "ok",
                **({"error": failed} if failed else {"outcome": _text(one.get("content"))}),
            }


def _text(content: Any) -> Any:
    """The text of a message, also of one with parts."""
    if not is_list(content):
        return content
    parts = [one.get("text") for one in content if is_object(one) and one.get("type") == "text"]
    return "\n".join(part for part in parts if isinstance(part, str))


def _last_text(sample: JSON) -> Any:
    messages = [
        one for one in listed(sample, "messages") if is_object(one) and one.get("role") == "assistant"
    ]
    return _text(messages[-1].get("content")) if messages else None


def _grade(value: Any) -> Any:
    if isinstance(value, str):
        return GRADES.get(value)
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def _sum(usage: list[JSON], member: str) -> int | None:
    found = [one[member] for one in usage if isinstance(one.get(member), int)]
    return sum(found) if found else None
