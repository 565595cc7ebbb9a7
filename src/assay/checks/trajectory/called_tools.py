"""
called_tools (an extension to FEP): the F1 of the tools that an output calls and those that it should, by their names,
as promptfoo defines `tool-call-f1`. The calls are read from the output itself, in the forms of several providers.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.standard.measure import PASSED, SCORE
from assay.checks.standard.ngram_overlap import trimmed
from assay.checks.standard.semantic_similarity import SimilarityThreshold
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.ports import Services
from assay.protocol.json_types import is_list, is_object

_decode = msgspec.json.Decoder().decode


class CalledTools(Checker):
    type = "called_tools"
    waits = False
    default_paths = {"output": "$.output.value"}  # noqa: RUF012  # declared a ClassVar in Checker
    results_schema = closed_object(
        {"score": SCORE, "precision": SCORE, "recall": SCORE, "passed": PASSED}, optional=("passed",)
    )

    output: Any
    expected: Annotated[list[str], Meta(min_length=1, max_length=1_000)]
    threshold: SimilarityThreshold | UnsetType = UNSET

    def run(self, services: Services) -> Answer | WorkerTask:
        return offload(self) if is_large(self.output) else self.answer(services)

    def answer(self, services: Services) -> Answer:
        called, expected = set(names_in(self.output)), set(self.expected)
        common = len(called & expected)
        precision, recall = common / len(called) if called else 0.0, common / len(expected)
        score = 2 * precision * recall / (precision + recall) if common else 0.0
        answer: Answer = {"score": min(score, 1.0), "precision": precision, "recall": recall}
        return answer if self.threshold is UNSET else {**answer, "passed": self.threshold.is_met(score)}


def names_in(output: Any) -> Iterator[str]:
    """
    The names of the tools that an output calls: calls of OpenAI, blocks of Anthropic, parts of Google, or `name`.

    A text is read as JSON; if it is none, each line of it that is.
    """
    if isinstance(output, str):
        yield from _names_in_text(output)
    elif is_list(output):
        for one in output:
            if is_object(one):
                yield from _name_of_item(one)
    elif is_object(output):
        yield from _names_in_object(output)


def _names_in_text(text: str) -> Iterator[str]:
    found = _read(text)
    if found is not UNSET:
        yield from names_in(found)
        return
    for line in map(trimmed, text.split("\n")):
        if line.startswith(("{", "[")) and (inner := _read(line)) is not UNSET:
            yield from names_in(inner)


def _read(text: str) -> Any:
    try:
        return _decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET


def _names_in_object(output: dict[str, Any]) -> Iterator[str]:
    calls, called, live = (output.get(name) for name in ("tool_calls", "functionCall", "toolCall"))
    if is_list(calls):
        for call in calls:
            if is_object(call):
                yield from _names((call.get("function"), call))
    elif output.get("type") == "tool_use" and isinstance(output.get("name"), str):
        yield output["name"]
    elif is_object(called) or is_list(called):
        yield from _names((called,))
    elif is_object(live) and is_list(calls := live.get("functionCalls")):
        yield from _names(calls)


def _name_of_item(block: dict[str, Any]) -> Iterator[str]:
    if block.get("type") == "tool_use" and isinstance(block.get("name"), str):
        yield block["name"]
        return
    for inner in (block.get("functionCall"), block.get("function")):
        if is_object(inner) or is_list(inner):
            yield from _names((inner,))
            return
    yield from _names((block,))


def _names(objects: Iterable[Any]) -> Iterator[str]:
    for one in objects:
        if is_object(one) and isinstance(name := one.get("name"), str):
            yield name
