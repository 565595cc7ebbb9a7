"""Where two runs of one task part ways: the first step that differs, or else the answer. It reads no files."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from assay.protocol.canonical import canonical
from assay.protocol.json_types import JSON

DivergenceKind = Literal["tool", "arguments", "result", "step", "answer", "outcome"]
COMPARED = {  # the members of a step that make it another step, by its type
    "tool-called": ("tool", "inputs"),
    "tool-returned": ("tool", "outcome", "error", "status"),
    "handed-off": ("to_agent_id",),
    "said": ("role", "content"),
    "wrote": ("memory_id", "memory_ref"),
}  # what the agent says to itself, its usage, ids and times are not compared


class TaskPath(Struct, frozen=True, kw_only=True):
    """What an agent did for one trial: its steps, its answer, and whether it passed. None: not measured."""

    steps: Sequence[JSON] = ()
    answer: Any = None
    has_answer: bool = True
    error: str = ""
    passed: bool | None = None
    score: float | None = None


class Divergence(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    The first difference. `same` are the equal steps before it.

    `a` and `b` are the steps that differ; without one, the agent answers there.
    """

    kind: DivergenceKind
    same: int
    a: JSON | UnsetType = UNSET
    b: JSON | UnsetType = UNSET


def first_divergence(a: TaskPath, b: TaskPath) -> Divergence | None:
    """The first difference of two paths; None: they are the same."""
    steps_a, steps_b = compared_steps(a), compared_steps(b)
    for at, (one, two) in enumerate(zip(steps_a, steps_b, strict=False)):
        if _key(one) != _key(two):
            return Divergence(kind=_kind(one, two), same=at, a=one, b=two)
    same = min(len(steps_a), len(steps_b))
    if len(steps_a) != len(steps_b):
        one = steps_a[same] if len(steps_a) > same else UNSET
        two = steps_b[same] if len(steps_b) > same else UNSET
        return Divergence(kind="step", same=same, a=one, b=two)
    if (a.has_answer, canonical(a.answer), a.error) != (b.has_answer, canonical(b.answer), b.error):
        return Divergence(kind="answer", same=same)
    both_scored = a.score is not None and b.score is not None  # a trial has no score of its own
    if a.passed != b.passed or (both_scored and a.score != b.score):
        return Divergence(kind="outcome", same=same)
    return None


def compared_steps(path: TaskPath) -> list[JSON]:
    """The steps that are compared: calls and results of tools, hand-offs and writes."""
    return [step for step in path.steps if isinstance(type := step.get("type"), str) and type in COMPARED]


def _key(step: JSON) -> tuple[str, ...]:
    type = str(step["type"])
    return (type, *(canonical(step.get(name)) for name in COMPARED[type]))


def _kind(one: JSON, two: JSON) -> DivergenceKind:
    if one["type"] != two["type"]:
        return "step"
    if one["type"] == "tool-called":
        return "arguments" if one.get("tool") == two.get("tool") else "tool"
    return "result" if one["type"] == "tool-returned" else "step"
