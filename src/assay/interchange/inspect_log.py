"""inspect: logs in `.eval` archives and in `.json` documents."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from assay.errors import BadLine, Problem
from assay.inputs.files import open_file
from assay.interchange.imported import (
    NO_PLACE,
    Imported,
    ImportReport,
    listed,
    members,
    recorded,
    without_nulls,
)
from assay.interchange.inspect_messages import (
    conversation,
    input_of,
    last_text,
    note_messages,
    steps_of,
    without_answer,
)
from assay.interchange.json_reader import JsonReader
from assay.interchange.made_checks import EXPECTED, OUTPUT, check, named
from assay.interchange.sources import ZIP, Candidate
from assay.interchange.zip_reader import ZipReader
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

GRADES = {"C": 1, "I": 0, "P": 0.5, "N": 0}  # correct, incorrect, partly, no answer
SAMPLES = ("samples",)
_SAMPLE = re.compile(r"samples/.+\.json", re.DOTALL)  # the id of a sample may have any character
_ATTACHMENT = "attachment://"
_EVAL = frozenset(("scorers",))
_SAMPLE_NAMES = (
    "id epoch input choices target messages output scores metadata error model_usage total_time limit"
)
_CARRIED = frozenset(_SAMPLE_NAMES.split())
_OUTPUT = frozenset(("completion", "choices", "usage"))  # usage of the last call, which the sum of all has
_SCORE = frozenset(("value", "answer", "explanation", "metadata"))
_USAGE = frozenset(("total_tokens", "input_tokens", "output_tokens", "total_cost"))
_COUNTED = "it is counted again from the samples"
_REPEATED = "_journal/", "summaries.json", "reductions.json"
_WHY = {
    "results": _COUNTED,
    "reductions": _COUNTED,
    "stats": _COUNTED,
    "events": "messages are the trajectory; other events have no place here",
    "events_data": "messages are the trajectory; other events have no place here",
    "store": "it is the state of a solver, whose code is not run",
    "config": "use the options of `assay evaluate`",
    "model_args": "name the system with --agent",
    "model_generate_config": "name the system with --agent",
    "model_roles": "name the system with --agent",
    "metrics": "a metric is code; scores are recorded",
}


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
            elif member != head:
                log.note_member(member)


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
        """Take what matters of a member of the header, and note the rest."""
        if member == "eval" and is_object(value):
            self._model = str(value.get("model") or "")
            self._task = str(value.get("task") or "")
            self._version = members(value, "packages").get("inspect_ai")
            self._scorers = list(self._known(listed(value, "scorers")))
            self._report.describe(self._name, value, _EVAL, _WHY, "eval")
        elif member == "plan" and is_object(value):
            for at, step in enumerate(listed(value, "steps")):
                solver = step.get("solver") if is_object(step) else step
                self._report.leave(
                    f"{self._name}: plan.steps[{at}]",
                    f"solver {solver}",
                    "code is not run; name the system with --agent",
                )
            self._report.describe(self._name, value, ("steps",), _WHY, "plan")
        else:
            self._report.describe(self._name, {member: value}, (), _WHY)
        if member == "status" and value not in ("success", None):
            self._report.leave(f"{self._name}: status", "a complete run", f"the log says {str(value)[:40]!r}")

    def note_member(self, member: str) -> None:
        """Note a member of the archive that is no sample. Some repeat what the others have."""
        kind = next((one for one in _REPEATED if member.startswith(one)), "")
        what, why = (f"{kind} in the archive", _COUNTED) if kind else ("a member of the archive", NO_PLACE)
        self._report.leave(f"{self._name}: {member}", what, why, is_member=True)

    def _known(self, scorers: list[Any]) -> Iterator[tuple[str, JSON]]:
        """Scorers that have an equal. The others are code, and their scores are recorded."""
        for at, one in enumerate(scorers):
            name = str(one.get("name") if is_object(one) else one).removeprefix("inspect_ai/")
            place = f"{self._name}: eval.scorers[{at}]"
            if name in SCORERS:
                options = members(one, "options") if is_object(one) else {}
                if is_object(one):
                    self._report.leave_others(one, ("name", "options"), place, "scorer.", _WHY)
                self._report.leave_others(options, ("ignore_case",), f"{place}.options", "option ")
                yield name, options
            else:
                why = "its code is not run; its scores are recorded"
                self._report.leave(place, f"scorer {name}", why)

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
        other = self._others(sample, place)
        attachments = members(sample, "attachments")
        taken: set[str] = set()
        sample = {name: _attached(sample[name], attachments, taken) for name in _CARRIED & sample.keys()}
        for name in attachments.keys() - taken:
            self._report.leave(
                f"{place}.attachments.{name}", "an attachment", "nothing that is carried has it"
            )
        target: Any = sample.get("target")
        case: JSON = {"id": str(sample["id"]), "input": input_of(sample["input"])}
        if target not in (None, "", []):
            case["expected"] = target[0] if is_list(target) and len(target) == 1 else target
        metadata = dict(members(sample, "metadata")) | {"task": self._task}
        metadata |= {"choices": sample["choices"]} if sample.get("choices") else {}
        case["metadata"] = metadata
        self._report.carry("samples")
        yield Imported(case, self._output(sample, other), self._checks(target), [], self._model)

    def _others(self, sample: JSON, place: str) -> JSON:
        """What a sample says beside what has a place: evidence, or noted."""
        plain, output = self._report.plain_others, members(sample, "output")
        other = plain(sample, (*_CARRIED, "attachments"), place, why=_WHY)
        other |= plain(output, _OUTPUT, f"{place}.output", "output.", _WHY)
        choices = listed(output, "choices")
        if len(choices) > 1:
            self._report.leave(f"{place}.output.choices", "output.choices", "the first of them is the output")
        first = choices[0] if choices and is_object(choices[0]) else {}
        other |= plain(first, ("message", "stop_reason"), f"{place}.output.choices[0]", "choice.")
        names = {name for one in _usages(sample) for name in one} - _USAGE
        other |= without_nulls({f"usage.{name}": _sum(_usages(sample), name) for name in sorted(names)})
        last = members(output, "usage")
        self._report.leave_others(last, (*_USAGE, *names), f"{place}.output.usage", "usage.")
        for model, one in members(sample, "model_usage").items():
            numbers = (
                [name for name, part in one.items() if isinstance(part, int | float)]
                if is_object(one)
                else []
            )
            inner: JSON = one if is_object(one) else {model: one}
            at = f"{place}.model_usage.{model}" if is_object(one) else f"{place}.model_usage"
            self._report.leave_others(inner, numbers, at, "usage.")
        for name, one in members(sample, "scores").items():
            if is_object(one):
                self._report.leave_others(one, _SCORE, f"{place}.scores.{name}", "score.", _WHY)
            else:
                self._report.leave(f"{place}.scores.{name}", "a score", "it is no object")
        other |= plain(members(sample, "limit"), ("type",), f"{place}.limit", "limit.")
        error = members(sample, "error")  # its other traceback has the same text with colours
        other |= plain(error, ("message", "traceback_ansi"), f"{place}.error", "error.")
        if error and sample.get("scores"):
            self._report.leave(f"{place}.scores", "scores of a sample with an error", "it was not measured")
        note_messages(sample, place, self._report)
        return other

    def _output(self, sample: JSON, other: JSON) -> JSON:
        output = members(sample, "output")
        usage = _usages(sample)
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
                "cost_usd": _sum(usage, "total_cost"),
                "finish_reason": next(
                    (one.get("stop_reason") for one in listed(output, "choices") if is_object(one)), None
                ),
                "error": str(members(sample, "error").get("message") or error)[:10_000] if error else None,
                "limit": members(sample, "limit").get("type"),
            }
        )
        before, after = conversation(sample)
        metadata |= {"prompt": before} if before else {}
        value = output.get("completion", last_text(sample))
        metadata["trajectory"] = without_answer(list(steps_of(after)), value)
        scores = members(sample, "scores") if not error else {}
        plain = {name: _grade(one.get("value")) for name, one in scores.items() if is_object(one)}
        details = {
            name: without_nulls({member: one.get(member) for member in sorted(_SCORE)})
            for name, one in scores.items()
            if is_object(one)
        }
        if scores or other:
            metadata["recorded"] = recorded("inspect", without_nulls(plain), self._version, details, other)
        self._report.carry("recorded outputs")
        return {"value": value, "metadata": metadata}


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


def _attached(value: Any, attachments: JSON, taken: set[str]) -> Any:
    """The value with the texts that inspect keeps apart. It does not recurse deeper than the value."""
    if isinstance(value, str):
        name = value.removeprefix(_ATTACHMENT)
        if name == value or not isinstance(attachments.get(name), str):
            return value
        taken.add(name)
        return attachments[name]
    if is_list(value):
        return [_attached(one, attachments, taken) for one in value]
    if is_object(value):
        return {name: _attached(one, attachments, taken) for name, one in value.items()}
    return value


def _usages(sample: JSON) -> list[JSON]:
    """The usage of each model, or of the last call."""
    usage = [one for one in members(sample, "model_usage").values() if is_object(one)]
    last = members(members(sample, "output"), "usage")
    return usage or ([last] if last else [])


def _grade(value: Any) -> Any:
    if isinstance(value, str):
        return GRADES.get(value)
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def _sum(usage: list[JSON], member: str) -> int | float | None:
    found = [one[member] for one in usage if isinstance(one.get(member), int | float)]
    return sum(found) if found else None
