"""What every export takes from a run and from one of its results."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from assay.agents.trajectory import trajectory_in
from assay.protocol.json_types import JSON, is_object
from assay.results.check_names import result_labels
from assay.results.reasons import agent_error, passed_of, reason_of, score_of

Write = Callable[[bytes], None]
UNKNOWN = "unknown"  # where a format requires a name, such as that of a model


class ExportedRun(NamedTuple):
    """A run with its name, and how it ended."""

    id: str
    name: str
    started: datetime
    ended: datetime
    status: str  # completed, failed or cancelled
    version: str  # of assay


class ExportedScore(NamedTuple):
    """What one check said: a verdict, a score, or both. If it was not measured: why."""

    label: str
    type: str
    passed: bool | None
    score: float | None
    reason: str
    is_measured: bool


class ExportedCase(NamedTuple):
    """One result: a case, an output, and what the checks said."""

    id: str
    trial: int  # from 1
    input: Any
    expected: Any  # None: there is none
    has_expected: bool
    output: Any
    metadata: JSON  # of the case
    system: str | None
    usage: JSON
    trajectory: list[JSON]  # the steps of an agent
    error: str | None  # why the agent has no output
    scores: list[ExportedScore]

    @property
    def measured(self) -> list[ExportedScore]:
        """The checks that were measured and have a number. One without a verdict and a score has none."""
        return [one for one in self.scores if one.is_measured and one.score is not None]

    @property
    def not_measured(self) -> dict[str, str]:
        return {one.label: one.reason for one in self.scores if not one.is_measured}


def read_case(result: JSON, seen: dict[str, int]) -> ExportedCase:
    """Read a result. `seen` counts the trials of each case."""
    context = result["execution_context"]
    case, output = context["test_case"], context["output"]
    number = seen[case["id"]] = seen.get(case["id"], 0) + 1
    about: JSON = output["metadata"] if is_object(output.get("metadata")) else {}
    checks = result["check_results"]
    named = next((about[name] for name in ("system", "model") if isinstance(about.get(name), str)), None)
    return ExportedCase(
        id=case["id"],
        trial=number,
        input=case.get("input"),
        expected=case.get("expected"),
        has_expected="expected" in case,
        output=output.get("value"),
        metadata=case["metadata"] if is_object(case.get("metadata")) else {},
        system=named,
        usage={name: about[name] for name in ("input_tokens", "output_tokens") if _is_count(about.get(name))},
        trajectory=trajectory_in(output),
        error=agent_error(result),
        scores=[
            ExportedScore(
                label,
                check["check_type"],
                passed_of(check) if check["status"] == "completed" else None,
                score_of(check) if check["status"] == "completed" else None,
                reason_of(check, case),
                check["status"] == "completed",
            )
            for label, check in zip(result_labels(checks), checks, strict=True)
        ],
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def text_of(value: Any) -> str:
    """A value as text: a string stays, null is empty, anything else is JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def json_parts(case: ExportedCase) -> list[str]:
    """The parts of a case that are not text, and that a format of texts holds as JSON."""
    parts = {"input": case.input, "expected": case.expected, "output": case.output}
    present = {name: value for name, value in parts.items() if name != "expected" or case.has_expected}
    return [name for name, value in present.items() if not isinstance(value, str)]


class ListWriter:
    """Writes the items of a JSON list as they come."""

    def __init__(self, write: Write, before: bytes) -> None:
        self._write, self._before = write, before + b"["

    def add(self, item: Any) -> None:
        self._write(self._before + b"\n" + msgspec.json.encode(item))
        self._before = b","

    def close(self) -> None:
        self._write(b"\n]" if self._before == b"," else self._before + b"]")


def members(value: JSON) -> bytes:
    """The members of an object without its braces."""
    return msgspec.json.encode(value)[1:-1]
