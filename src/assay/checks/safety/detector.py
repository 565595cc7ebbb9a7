"""
The base class of detectors: checks that look for a safety problem, with a kind and a severity (openwop-contract §6.3).

A detector is a check, so `assay evaluate` can run it over outputs that exist. The mode `adversarial` runs all detectors
of the registry.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, get_args

import msgspec
from msgspec import Struct

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.worker_tasks import WorkerTask, offload
from assay.errors import ValueFault
from assay.ports import Services
from assay.protocol.json_types import is_list, is_mapping, is_object, kind_of

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)  # ascending
KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MAX_KIND = 64  # characters
MAX_FINDINGS = 100  # in one answer
INLINE_CHARACTERS = 32_768  # that a detector reads in place; more is offloaded to a worker process
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

FINDINGS_SCHEMA: Final = closed_object(
    {
        "passed": {"type": "boolean"},
        "kind": {"type": "string"},
        "severity": {"enum": list(SEVERITIES)},
        "findings": {
            "type": "array",
            "items": closed_object(
                {
                    "where": {"type": "string", "description": "the argument, and the path inside its value"},
                    "start": {"type": "integer", "description": "in code points of that text"},
                    "end": {"type": "integer"},
                    "rule": {"type": "string"},
                    "transform": {"type": "string"},
                },
                optional=("transform",),
            ),
        },
        "more": {"type": "integer", "description": f"further findings; the first {MAX_FINDINGS} are listed"},
    },
    optional=("more",),
)


class Detection(Struct, frozen=True, omit_defaults=True):
    """
    One match. It holds positions, never the text that matched.

    `where` is the name of the argument and the path inside its value: `text`, `tool_calls[3].arguments.url`. A `~` at
    the end means the key of that member. `start` and `end` count code points of that text.
    """

    where: str
    start: int
    end: int
    rule: str
    transform: str = ""


class SafetyCheck(Checker):
    """
    A check that the mode `adversarial` runs on every trial.

    `task_arguments` has its arguments there: literals, and paths into the context.

    A check with a required argument whose path finds nothing does not apply to the task. An optional argument keeps its
    default.
    """

    task_arguments: ClassVar[Mapping[str, Any]] = {}


class Detector(SafetyCheck):
    """
    A check that fails if it detects something.

    A subclass has a type, a kind, a severity, its arguments and `detections`.

    class RivalName(Detector):
        type = "rival_name"
        kind = "rival-name"
        severity = "low"
        task_arguments = {"text": "$.output.value"}

        text: Any

        def detections(self, services: Services) -> Sequence[Detection]:
            return [
                Detection(where, match.start(), match.end(), "initech")
                for where, text in texts_in("text", self.text)
                for match in re.finditer("Initech", text)
            ]

    `waits = False` runs it in place, and offloads more than INLINE_CHARACTERS to a worker process. Its module must then
    be importable.
    """

    results_schema = FINDINGS_SCHEMA
    kind: ClassVar[str] = ""
    severity: ClassVar[Severity]

    def detections(self, services: Services) -> Sequence[Detection]:
        """Every match, in any order. Raise a Fault, or any exception, if there is no answer."""
        raise TypeError(f"{type(self).__name__} has no detections()")

    def run(self, services: Services) -> Answer | WorkerTask:
        if not type(self).waits and is_long(*(getattr(self, name) for name in self.__struct_fields__)):
            return offload(self)
        return self.answer(services)

    def answer(self, services: Services) -> Answer:
        """Answer in place, whatever the size of the arguments."""
        found = self.detections(services)
        answer: dict[str, Any] = {
            "passed": not found,
            "kind": self.kind,
            "severity": self.severity,
            "findings": msgspec.to_builtins(list(found[:MAX_FINDINGS])),
        }
        return answer | ({"more": len(found) - MAX_FINDINGS} if len(found) > MAX_FINDINGS else {})

    @classmethod
    def validate_class(cls) -> None:
        if not isinstance(cls.kind, str) or len(cls.kind) > MAX_KIND or not KIND.fullmatch(cls.kind):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(
                "kind: expected words of small letters and digits with hyphens, such as 'secret-leak', got "
                f"{cls.kind!r}"
            )
        severity: Any = getattr(cls, "severity", None)
        if severity not in SEVERITIES:
            raise ValueError(f"severity: expected one of {', '.join(SEVERITIES)}, got {severity!r}")
        if cls.detections is Detector.detections and cls.run is Detector.run:
            raise ValueError("it has no `detections`: define detections(self, services)")
        arguments: Any = cls.task_arguments
        if not is_mapping(arguments) or not set(arguments) <= set(cls.__struct_fields__):
            names = ", ".join(cls.__struct_fields__) or "none"
            raise ValueError(
                f"task_arguments: expected an object with arguments of the check ({names}), got {arguments!r}"
            )


def texts_in(where: str, value: Any) -> Iterator[tuple[str, str]]:
    """
    Every text inside a JSON value, keys too, each with its place: `where`, and the path inside the value.

        list(texts_in("value", {"a": ["x"]})) == [("value.a~", "a"), ("value.a[0]", "x")]
    """
    stack: list[tuple[str, Any]] = [(where, value)]
    while stack:
        place, part = stack.pop()
        if isinstance(part, str):
            yield place, part
        elif is_list(part):
            stack.extend((f"{place}[{at}]", part[at]) for at in reversed(range(len(part))))
        elif is_object(part):
            members = [(_member(place, str(name)), str(name), value) for name, value in part.items()]
            for inside, name, value in reversed(members):
                stack += [(inside, value), (f"{inside}~", name)]


def _member(place: str, name: str) -> str:
    if _NAME.fullmatch(name):
        return f"{place}.{name}"
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"{place}['{escaped}']"


def is_long(*values: Any) -> bool:
    """
    Whether the texts of the values have more than INLINE_CHARACTERS characters. Every other part counts as one;
    counting stops there.
    """
    left, stack = INLINE_CHARACTERS, list(values)
    while stack:
        part = stack.pop()
        left -= len(part) if isinstance(part, str) else 1
        if is_list(part):
            left -= len(part)
            stack.extend(part if left >= 0 else ())
        elif is_object(part):
            left -= len(part)
            stack.extend((*part, *part.values()) if left >= 0 else ())
        if left < 0:
            return True
    return False


# Reads a list of tool calls: objects with `tool`, and optionally `arguments` and `outcome` (ok, error or
# refused).


def read_calls(calls: list[Any]) -> list[dict[str, Any]]:
    """The calls. A ValueFault says which one is not a call."""
    for at, call in enumerate(calls):
        if not is_object(call) or not isinstance(call.get("tool"), str):
            found = "no text there" if is_object(call) else kind_of(call)
            raise ValueFault(f"tool_calls[{at}]: expected an object with the name of a `tool`, got {found}")
    return calls
