"""A log of inspect (`.json`, version 2): a sample for each result, with its epoch, its output and its scores."""

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

from assay.interchange.exports.exported import (
    UNKNOWN,
    ExportedCase,
    ExportedRun,
    ExportedScore,
    ListWriter,
    Write,
    json_parts,
    members,
    text_of,
)
from assay.protocol.json_types import JSON, is_list, is_object

SPOOLED = 1 << 20  # bytes of samples that are held in memory
STATUS = {"completed": "success", "cancelled": "cancelled"}
VERDICTS = {True: "C", False: "I"}  # as inspect writes correct and incorrect


class LogHead:
    """What a log says of all samples: the run, the models, the mean of each check."""

    def __init__(self, run: ExportedRun) -> None:
        self._run = run
        self._means: dict[str, list[float]] = {}  # of each check: the number of scores, their sum
        self._unscored: dict[str, int] = {}
        self._models: dict[str, None] = {}
        self._count = self._complete = 0

    def add(self, case: ExportedCase) -> None:
        self._count += 1
        self._models.setdefault(case.system or UNKNOWN)
        self._complete += not case.not_measured and case.error is None
        for one in case.scores:
            if one.is_measured and one.score is not None:
                mean = self._means.setdefault(one.label, [0, 0.0])
                mean[0], mean[1] = mean[0] + 1, mean[1] + one.score
            else:
                self._unscored[one.label] = self._unscored.get(one.label, 0) + 1

    def document(self) -> JSON:
        scores = [
            {
                "name": label,
                "scorer": label,
                "scored_samples": int(self._means[label][0]),
                "unscored_samples": self._unscored.get(label, 0),
                "metrics": {"mean": {"name": "mean", "value": self._means[label][1] / self._means[label][0]}},
            }
            for label in self._means
        ]
        results = {"total_samples": self._count, "completed_samples": self._complete, "scores": scores}
        return {"version": 2, **self._about(), "results": results}

    def _about(self) -> JSON:
        run = self._run
        started, ended = run.started.isoformat(), run.ended.isoformat()
        return {
            "status": STATUS.get(run.status, "error"),
            "eval": {
                "eval_id": run.id,
                "run_id": run.id,
                "created": started,
                "task": run.name or run.id,
                "task_id": run.id,
                "dataset": {},
                "model": next(iter(self._models)) if len(self._models) == 1 else UNKNOWN,
                "config": {},
                "packages": {"openassay": run.version},
            },
            "plan": {},
            "stats": {"started_at": started, "completed_at": ended},
        }


class InspectLog:
    """A log in one document. inspect reads its head up to the samples, so the results stand before them."""

    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._write, self._head = write, LogHead(run)
        self._file = SpooledTemporaryFile(SPOOLED)  # noqa: SIM115  # closed with the log
        self._samples = ListWriter(self._keep, b',"samples":')

    def add(self, case: ExportedCase) -> None:
        self._head.add(case)
        self._samples.add(sample_of(case))

    def close(self) -> None:
        self._samples.close()
        self._write(b"{" + members(self._head.document()))
        with self._file as file:
            file.seek(0)
            while part := file.read(SPOOLED):
                self._write(part)
        self._write(b"}\n")

    def _keep(self, data: bytes) -> None:
        self._file.write(data)


def sample_of(case: ExportedCase) -> JSON:
    model = case.system or UNKNOWN
    answer = {"role": "assistant", "content": text_of(case.output), "source": "generate", "model": model}
    output: JSON = {"model": model, "choices": [{"message": answer, "stop_reason": "stop"}]}
    if len(case.usage) == 2:
        total = sum(case.usage.values())
        output["usage"] = {**case.usage, "total_tokens": total}
    about: JSON = {"json": json_parts(case)} if json_parts(case) else {}
    if case.not_measured:
        about["not_measured"] = case.not_measured
    sample: JSON = {
        "id": case.id,
        "epoch": case.trial,
        "input": text_of(case.input),
        "target": _target(case),
        "messages": list(_messages(case, answer)),
        "output": output,
        "scores": {one.label: _score(one) for one in case.measured},
        "metadata": {**case.metadata, **({"assay": about} if about else {})},
    }
    if case.error is not None or (case.scores and len(case.not_measured) == len(case.scores)):
        message = case.error or next(iter(case.not_measured.values()))
        sample["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    return sample


def _messages(case: ExportedCase, answer: JSON) -> Iterator[JSON]:
    """The conversation: what was asked, what the agent did, and its answer. Messages of turns stand for both."""
    roles = {step.get("role") for step in case.trajectory if step["type"] == "said"}
    if "user" not in roles:
        yield {"role": "user", "content": text_of(case.input), "source": "input"}
    for number, step in enumerate(case.trajectory):
        if (message := _message(step, number)) is not None:
            yield message
    if "assistant" not in roles:
        yield answer


def _message(step: JSON, number: int) -> JSON | None:
    """The message of a step; None for a step that no message holds: usage, memory, a hand-off."""
    call, tool = str(step.get("call_id") or f"call-{number}"), str(step.get("tool", ""))
    if step["type"] == "tool-called":
        made: JSON = {"id": call, "function": tool, "arguments": step.get("inputs") or {}, "type": "function"}
        return {"role": "assistant", "content": "", "tool_calls": [made]}
    if step["type"] == "tool-returned":
        error = step.get("error")
        failure = str(error.get("message", "")) if is_object(error) else None
        content = text_of(step.get("outcome")) if failure is None else failure
        message: JSON = {"role": "tool", "content": content, "tool_call_id": call, "function": tool}
        return message if failure is None else message | {"error": {"type": "unknown", "message": failure}}
    if step["type"] == "reasoned":
        return {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": str(step.get("text", ""))}],
        }
    if step["type"] == "said" and step.get("role") in ("user", "assistant"):
        return {"role": step["role"], "content": text_of(step.get("content"))}
    return None


def _target(case: ExportedCase) -> str | list[str]:
    expected = case.expected
    if is_list(expected) and all(isinstance(one, str) for one in expected):
        return expected
    return text_of(expected)


def _score(one: ExportedScore) -> JSON:
    """A verdict alone is C or I; a check with a score of its own has that number."""
    value = one.score
    if one.passed is not None and value == float(one.passed):
        value = VERDICTS[one.passed]
    about: JSON = {} if one.passed is None else {"passed": one.passed}
    return {"value": value, "explanation": one.reason, "metadata": {"check": one.type, **about}}
