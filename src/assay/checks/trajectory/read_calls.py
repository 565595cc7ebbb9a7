"""
Reads what an agent did: the steps that assay records, a list of calls, messages of a conversation, spans of a trace.

Every item must be of a known form. An unknown one is an error, not an agent that did nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.errors import ValueFault
from assay.protocol.json_types import JSON, is_list, is_object, kind_of

DEFAULT_PATH = "$.output.metadata.trajectory"  # where an agent under assay has its steps
FORMS = (
    "a step of a trajectory, a call with the name of a `tool`, a message with a `role`, an item of the Responses API, "
    "or a span with `attributes`"
)
STEPS = {  # steps of a trajectory, and how many steps each counts
    "tool-called": 1, "tool-returned": 0, "reasoned": 1, "used": 0, "wrote": 1, "handed-off": 1, "said": 0,
}  # fmt: skip
MESSAGES = frozenset({"ai", "human", "system", "tool", "function"})  # the types of messages of LangChain
SPEAKS = frozenset({"assistant", "ai"})
BLOCKS = frozenset({"tool_use", "tool-call", "tool_call"})  # of the content of a message
ITEMS = frozenset({"message", "reasoning", "item_reference", "compaction"})  # of the Responses API
CALL, ANSWER = "_call", "_call_output"
TOOL_NAME, TOOL_ARGUMENTS = "gen_ai.tool.name", ("gen_ai.tool.call.arguments", "gen_ai.tool.arguments")
OPERATION = "gen_ai.operation.name"


class Call(NamedTuple):
    """One call of a tool. A refused one was tried, and not made. Arguments that nobody recorded are UNSET."""

    tool: str
    arguments: Any = {}  # noqa: RUF012  # never changed
    refused: bool = False

    @property
    def document(self) -> JSON:
        """What the check of a pattern is put to, and what results show."""
        return {"tool": self.tool, **({} if self.arguments is UNSET else {"arguments": self.arguments})}

    def require_arguments(self) -> None:
        """Raise ValueFault if the arguments are not recorded: whether they fit is not known."""
        if self.arguments is UNSET:
            raise ValueFault(f"the arguments of a call of {self.tool} are not recorded")


class Trajectory(NamedTuple):
    calls: list[Call]
    steps: int


def read_trajectory(items: list[Any], name: str = "trajectory") -> Trajectory:
    """The calls and the number of steps. A ValueFault says which item is of no known form."""
    calls: list[Call] = []
    steps = 0
    for at, item in enumerate(items):
        found = _read(item)
        if found is None:
            known = f" of the type {item['type']!r:.100}" if is_object(item) and _text(item, "type") else ""
            raise ValueFault(f"{name}[{at}]: expected {FORMS}, got {kind_of(item)}{known}")
        calls += found.calls
        steps += found.steps
    return Trajectory(calls, steps)


def _read(item: Any) -> Trajectory | None:
    """The calls and steps of one item; None: it is of no known form."""
    if not is_object(item):
        return None
    kind = _text(item, "type")
    if kind == "tool-called":
        return (
            Trajectory([_call(item["tool"], item.get("inputs", UNSET))], 1) if _named(item, "tool") else None
        )
    if kind in STEPS:
        return Trajectory([], STEPS[kind])
    if "role" in item or kind in MESSAGES:
        return _message(item)
    if _named(item, "tool"):
        refused = item.get("outcome") == "refused" or item.get("refused") is True
        return Trajectory([_call(item["tool"], item.get("arguments"))._replace(refused=refused)], 1)
    if kind in ITEMS or kind.endswith((CALL, ANSWER)):
        return _response_item(item, kind)
    attributes = _attributes(item.get("attributes"))
    return None if attributes is None else _span(attributes)


def _message(message: JSON) -> Trajectory | None:
    """Each call of a message of the agent is a step, and so is the text before its calls."""
    speaker = message.get("role", message.get("type"))
    if not isinstance(speaker, str):
        return None
    if speaker not in SPEAKS:
        return Trajectory([], 0)
    calls: list[Call] = []
    for one in _items(message.get("tool_calls")):
        found = _function_call(one)
        if found is None:
            return None
        calls.append(found)
    content = message.get("content")
    blocks = [one for one in _items(content) if is_object(one)]
    if not calls:  # LangChain has the calls of some models in both places
        for block in blocks:
            if _text(block, "type") in BLOCKS:
                found = _function_call(block)
                if found is None:
                    return None
                calls.append(found)
    spoken = bool(content.strip()) if isinstance(content, str) else any(_has_text(one) for one in blocks)
    return Trajectory(calls, len(calls) + (1 if calls and spoken else 0))


def _function_call(value: Any) -> Call | None:
    """A call in a message: that of OpenAI has the name and the text of its arguments in `function`."""
    if not is_object(value):
        return None
    inner = value.get("function")
    one: JSON = inner if is_object(inner) else value
    name = next((one[key] for key in ("name", "toolName", "tool_name") if _named(one, key)), None)
    if name is None:
        return None
    given = next((one[key] for key in ("arguments", "args", "input") if key in one), None)
    return _call(name, given)


def _response_item(item: JSON, kind: str) -> Trajectory:
    if kind in ITEMS or kind.endswith(ANSWER):
        return Trajectory([], 1 if kind == "reasoning" else 0)
    name = item["name"] if _named(item, "name") else kind.removesuffix(CALL)
    return Trajectory([_call(name, item.get("arguments", item.get("action", item.get("input"))))], 1)


def _span(attributes: Mapping[str, Any]) -> Trajectory:
    name = attributes.get(TOOL_NAME)
    if not isinstance(name, str) or attributes.get(OPERATION, "execute_tool") != "execute_tool":
        return Trajectory([], 0)
    given = next((attributes[key] for key in TOOL_ARGUMENTS if key in attributes), UNSET)
    return Trajectory([_call(name, given)], 1)


def _attributes(value: Any) -> Mapping[str, Any] | None:
    """The attributes of a span: an object, or the list of OTLP."""
    if is_object(value):
        return value
    if not is_list(value):
        return None
    return dict(_pairs(value))


def _pairs(attributes: list[Any]) -> Iterator[tuple[str, Any]]:
    for one in attributes:
        if is_object(one) and _named(one, "key"):
            value = one.get("value")
            yield one["key"], next(iter(value.values()), None) if is_object(value) else value


def _call(tool: str, arguments: Any) -> Call:
    """Without arguments they are `{}`. A text with JSON is that JSON, as models write it."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Call(tool, arguments)
    return Call(tool, {} if arguments is None else arguments)


def _named(item: JSON, key: str) -> bool:
    return isinstance(item.get(key), str)


def _items(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _has_text(block: JSON) -> bool:
    return bool(_text(block, "text").strip())


def _text(item: JSON, key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""
