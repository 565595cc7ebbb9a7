"""Reads suites (openwop-contract §6.1) from a file or a document. A refusal lists every problem with its JSON path."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.suites.extension import extend, form_problems, not_here, without_extension
from assay.agents.fixtures import read_seeds
from assay.checks.schema_validator import UNLISTED_VIOLATION, Validator, validator_for
from assay.concurrency.loop_budget import spend
from assay.errors import InvalidRequest, Problem
from assay.inputs.context import kind_of, to_json_document
from assay.inputs.files import document_of
from assay.inputs.yaml_writer import as_yaml
from assay.ports import Limits
from assay.protocol.agent_evals import AgentEvalSuite, EvalTask, Expected
from assay.protocol.json_types import is_deeper, is_list, is_object, preview
from assay.protocol.schemas import schema_of
from assay.protocol.suite_extension import MEMBER
from assay.protocol.validation_messages import message_of, path_in
from assay.terminal import as_json_escapes

LONGEST_ID = 100  # characters of a taskId: node ids add a prefix to it
SHOWN = 500  # problems
LOOKED_AT = 10_000  # tasks of an invalid suite that are checked
TOGETHER = 50  # tasks validated at a time
HEAD = "suiteId", "version", "modes"  # the members that every suite has beside its tasks
SAFE = 200  # levels of nesting that the validator can recurse into
OUTLINE = 16  # levels that the schema describes, and a few more


def read_suite_file(name: str, limits: Limits) -> AgentEvalSuite:
    """Read a `.json` or `.yaml` file; '-' reads either from standard input."""
    document, _, problems = to_json_document(document_of(name, limits), "", limits)
    try:
        if problems:
            raise InvalidRequest(problems)
        return read_own_suite(document)
    except InvalidRequest as refusal:
        raise InvalidRequest(
            [Problem(_path_of(name, one.place), one.message) for one in refusal.problems]
        ) from None


def read_own_suite(document: Any) -> AgentEvalSuite:
    """Parse a suite of this machine, which may have `x-assay`. An InvalidRequest lists every problem."""
    document, extension = without_extension(document)
    if extension is UNSET:
        return read_suite(document)
    problems = form_problems(extension)
    try:
        suite = read_suite(document)
    except InvalidRequest as refusal:
        raise InvalidRequest([*refusal.problems, *problems]) from None
    if problems:
        raise InvalidRequest(problems)
    return extend(suite, extension)


def with_fixtures(suite: AgentEvalSuite, document: Any, name: str) -> AgentEvalSuite:
    """The suite with the fixtures of a file of `assay run --record`. They come before its own."""
    rest, extension = without_extension(document)
    if extension is UNSET or rest:
        raise InvalidRequest(
            Problem(name, "expected the member x-assay alone, as `assay run --record` writes it")
        )
    problems = form_problems(extension)
    if problems:
        raise InvalidRequest([Problem(_path_of(name, one.place), one.message) for one in problems])
    found = extension.get("tasks", {})
    whole = msgspec.json.decode(msgspec.json.encode(suite))
    tasks: dict[str, Any] = whole.setdefault(MEMBER, {}).setdefault("tasks", {})
    for id, task in found.items():
        others = [member for member in task if member != "fixtures"]
        if others:
            place = _path_of(name, f"{MEMBER}.tasks.{id[:100]}")
            raise InvalidRequest(Problem(place, f"expected fixtures alone, got {', '.join(others)}"))
        own = tasks.setdefault(id, {})
        own["fixtures"] = [*task.get("fixtures", ()), *own.get("fixtures", ())]
    try:
        return read_own_suite(whole)
    except InvalidRequest as refused:
        raise InvalidRequest(
            [Problem(_path_of(name, one.place), one.message) for one in refused.problems]
        ) from None


def read_suite(document: Any) -> AgentEvalSuite:
    """
    Parse a suite as every host takes it. An InvalidRequest lists every problem, also those that the schema cannot
    express.
    """
    document, extension = without_extension(document)
    refused = [] if extension is UNSET else not_here(extension)
    if problems := refused + schema_problems(document):
        raise InvalidRequest(problems + missing_expectations(_readable(document)))
    try:
        suite = msgspec.convert(_with_integers(document), AgentEvalSuite)
    except msgspec.ValidationError as wrong:  # a number that JSON Schema accepts, and msgspec does not
        raise InvalidRequest(Problem(path_in(wrong).lstrip("."), message_of(wrong, AgentEvalSuite))) from None
    if problems := missing_expectations(enumerate(suite.tasks)):
        raise InvalidRequest(problems)
    return suite


def schema_problems(document: Any) -> list[Problem]:
    """The problems by the schema of AgentEvalSuite. Some tasks are validated at a time: the validator holds the GIL."""
    if is_deeper(document, SAFE):
        document = _outline(document, OUTLINE)
    tasks = document.get("tasks") if is_object(document) else None
    if not is_list(tasks) or len(tasks) <= TOGETHER:
        errors = _validator().iter_errors(document)
        return [Problem("", UNLISTED_VIOLATION.message)] if errors is None else _problems(errors)
    found: list[Problem] = []
    members = document
    for first in range(0, len(tasks), TOGETHER):
        errors = _validator().iter_errors({**members, "tasks": tasks[first : first + TOGETHER]})
        if errors is None:
            where = f"in this task or the {TOGETHER - 1} after it"
            return [*found, Problem(f"tasks[{first}]", f"{where}: {UNLISTED_VIOLATION.message}")]
        found += _problems((one for one in errors if not first or one.instance_path[:1] == ["tasks"]), first)
        if len(found) >= SHOWN:
            break
        members = {name: document[name] for name in HEAD if name in document}
    return found


def _problems(errors: Iterable[Any], first: int = 0) -> list[Problem]:
    """Schema errors as problems. `first` is the number of the first task."""
    found: list[Problem] = []
    for error in errors:
        path = list(error.instance_path)
        if first and len(path) > 1:
            path[1] += first
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        spend()
        found += _schema_message(place.removeprefix("."), error)
        if len(found) >= SHOWN:
            break
    return found


def _outline(document: Any, levels: int) -> Any:
    """The document down to some level. Values below belong to tasks, and the schema allows any."""
    if levels == 0:
        return None
    if is_object(document):
        return {name: _outline(one, levels - 1) for name, one in document.items()}
    return [_outline(one, levels - 1) for one in document] if is_list(document) else document


def missing_expectations(tasks: Iterable[tuple[int, EvalTask]]) -> list[Problem]:
    """Problems of tasks that the schema does not express."""
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for at, task in tasks:
        place = f"tasks[{at}]"
        if len(task.task_id) > LONGEST_ID:
            message = f"expected at most {LONGEST_ID} characters, got {len(task.task_id)}"
            problems.append(Problem(f"{place}.taskId", message))
        first = seen.setdefault(task.task_id, at)
        if first != at:
            problems.append(
                Problem(
                    f"{place}.taskId",
                    f"expected an id of its own, got {task.task_id!r}, which tasks[{first}] has",
                )
            )
        spend()
        problems += _expected_problems(task.expected, f"{place}.expected")
        problems += _fixtures(task, f"{place}.fixtures")
        if len(problems) >= SHOWN:
            break
    return problems


def _readable(document: Any) -> Iterator[tuple[int, EvalTask]]:
    """The valid tasks of an invalid suite."""
    tasks: Any = document.get("tasks") if is_object(document) else None
    for at, task in enumerate(tasks[:LOOKED_AT] if is_list(tasks) else ()):
        with suppress(msgspec.ValidationError):
            yield at, msgspec.convert(task, EvalTask)


def _expected_problems(expected: Expected, path: str) -> list[Problem]:
    if expected.kind == "golden":
        if expected.rubric is not UNSET:
            return [Problem(f"{path}.rubric", "a golden task has no `rubric`: remove this member")]
        if expected.match is UNSET:
            return [Problem(f"{path}.match", "a golden task needs `match`: {strategy, value}")]
        return []
    if expected.match is not UNSET:
        return [Problem(f"{path}.match", "a rubric task has no `match`: remove this member")]
    if expected.rubric is UNSET:
        return [Problem(f"{path}.rubric", "a rubric task needs `rubric`: criteria with weights")]
    if not any(one.weight for one in expected.rubric):
        return [Problem(f"{path}.rubric", "expected a weight above 0, got 0 for every criterion")]
    return []


def _fixtures(task: EvalTask, path: str) -> list[Problem]:
    if task.fixtures is UNSET:
        return []
    try:
        read_seeds(task.fixtures.memory_seed, f"{path}.memorySeed")
    except InvalidRequest as refusal:
        return list(refusal.problems)
    return []


def _with_integers(document: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema takes 2000.0 for an integer; msgspec does not."""
    bars = document.get("thresholds")
    if is_object(bars) and isinstance(latency := bars.get("maxP95LatencyMs"), float):
        return {**document, "thresholds": {**bars, "maxP95LatencyMs": int(latency)}}
    return document


@lru_cache(maxsize=1)
def _validator() -> Validator:
    return validator_for(schema_of(AgentEvalSuite.__name__).encode())


def _schema_message(path: str, error: Any) -> list[Problem]:
    """A schema error as problems, with a preview of the value."""
    kind: Any = error.kind
    if kind.name == "required":
        return [Problem(f"{path}.{kind.property}".lstrip("."), "this is missing")]
    if kind.name == "additionalProperties":
        return [
            Problem(f"{path}.{name}".lstrip("."), "there is no such member")
            for name in kind.unexpected[:SHOWN]
        ]
    message = _MESSAGES.get(kind.name)
    return [Problem(path, message(kind, error.instance) if message else str(kind.name))]


_MESSAGES: dict[str, Callable[[Any, Any], str]] = {
    "type": lambda kind, value: (
        f"expected {' or '.join(map(_type_phrase, kind.types))}, got {kind_of(value)}"
    ),
    "enum": lambda kind, value: f"expected one of {', '.join(map(str, kind.options))}, got {preview(value)}",
    "pattern": lambda kind, value: f"expected a text of the form {kind.pattern}, got {preview(value)}",
    "minItems": lambda kind, value: f"expected at least {kind.limit}, got {preview(value)}",
    "minLength": lambda _kind, _: "expected a text that is not empty, got an empty one",
    "uniqueItems": lambda _kind, _: "expected unique items, got a duplicate",
    "minimum": lambda kind, value: f"expected a number that is at least {kind.limit}, got {preview(value)}",
    "maximum": lambda kind, value: f"expected a number that is at most {kind.limit}, got {preview(value)}",
}


def _type_phrase(type: str) -> str:
    names = {
        "array": "a list",
        "object": "an object",
        "integer": "a whole number",
        "boolean": "true or false",
    }
    return names.get(type, f"a {type}")


def _path_of(name: str, path: str) -> str:
    return f"{name}: {path}" if path else name


# Writes a suite as YAML or JSON. Characters that a terminal or an editor hides are escapes, and every text is
# quoted.


def suite_as_json(suite: AgentEvalSuite) -> str:
    return as_json_escapes(msgspec.json.format(msgspec.json.encode(suite), indent=2).decode()) + "\n"


def suite_as_yaml(suite: AgentEvalSuite) -> str:
    """The suite as YAML 1.2, which YAML 1.1 reads too. The tasks come last."""
    document = msgspec.json.decode(msgspec.json.encode(suite))
    document["tasks"] = document.pop("tasks")
    return as_yaml(document)
