"""
The answers of the tools of `assay mcp`, within a number of bytes.

What the tested system said stands under `data` and nowhere else: it is never part of a message of assay.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.cli.render.failing_cases import NOTE, CaseData
from assay.protocol.json_types import is_list, is_object

SHORTEST = 40  # bytes that a cut text keeps


def _note() -> str:
    return NOTE  # a plain default would be left out of the answer


class ToolCall(Struct):
    """The call that shows the rest."""

    tool: str
    arguments: dict[str, Any]


class Answer(Struct, kw_only=True, omit_defaults=True):
    """What every answer may have. `cut`: texts or lists are shortened, and `rest` shows them whole."""

    messages: list[str] = []  # of assay, beside the answer
    cut: bool = False
    rest: ToolCall | UnsetType = UNSET


class ValidateAnswer(Answer, kw_only=True):
    """Every problem of every file."""

    valid: bool
    files: list[dict[str, Any]]


class TaskResult(Struct, omit_defaults=True):
    """A task that did not pass; without a score it was not measured."""

    id: str
    score: float | UnsetType = UNSET


class RunAnswer(Answer, kw_only=True):
    """How a run ended. `exit_code` is that of `assay run`: 0 passed, 1 not measured, 3 not passed."""

    exit_code: int
    outcome: str  # passed, failed, or not measured
    run: str = ""
    status: str = ""
    score: float | None = None
    low: float | None = None
    high: float | None = None
    tasks: int = 0
    passed: int = 0
    part: str = ""  # the run has a part of the suite
    cost_usd: float | None = None
    failing: list[TaskResult] = []
    more_failing: int = 0


class CaseFailure(Struct, kw_only=True, omit_defaults=True):
    """One case that did not pass."""

    outcome: str
    trial: int | UnsetType = UNSET
    score: float | UnsetType = UNSET
    data: CaseData = msgspec.field(default_factory=CaseData)
    cut: bool = False  # `show_case` shows it whole


class FailuresAnswer(Answer, kw_only=True):
    """The cases of a run that did not pass."""

    run: str
    status: str
    count: str
    note: str = msgspec.field(default_factory=_note)
    cases: list[CaseFailure] = []
    more: int = 0  # failing cases that are not here


class CaseTrial(Struct, kw_only=True, omit_defaults=True):
    """One trial of a case, with all that is stored of it."""

    failing: bool
    trial: int | UnsetType = UNSET
    score: float | UnsetType = UNSET
    data: dict[str, Any] = {}


class ShowCaseAnswer(Answer, kw_only=True):
    """One case, whether it passed or not."""

    run: str
    status: str
    case: str
    note: str = msgspec.field(default_factory=_note)
    trials: list[CaseTrial] = []


class TryCheckAnswer(Answer, kw_only=True):
    """What the checks say. `passed` is null if one could not be measured, or says neither."""

    passed: bool | None
    note: str = msgspec.field(default_factory=_note)
    data: dict[str, Any] = {}


class CaseChange(Struct, kw_only=True):
    """A case whose value differs."""

    id: str
    before: float
    after: float
    better: bool
    data: dict[str, Any]  # the reasons


class Difference(Struct, kw_only=True, omit_defaults=True):
    """A run beside its baseline: the verdict of `assay compare` and what it follows from."""

    baseline: str
    run: str
    verdict: str
    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    cases: int
    better: int
    worse: int
    unchanged: int
    unmeasured: int = 0
    only_in_baseline: int = 0
    only_in_run: int = 0
    more_to_show: int | None = None
    notes: list[str] = []


class CompareAnswer(Answer, kw_only=True):
    """Whether a run is better than its baseline."""

    metric: str
    comparison: Difference
    note: str = msgspec.field(default_factory=_note)
    changes: list[CaseChange] = []
    more_changes: int = 0


class GateAnswer(Answer, kw_only=True):
    """The decision. `exit_code` is that of `assay gate`: 0 passed, 1 undecided, 3 failed."""

    outcome: str
    exit_code: int
    reason: str
    run: str
    mean: float | None = None
    failing: list[dict[str, Any]] = []
    more_failing: int = 0
    newly_failing: list[str] = []
    findings: list[dict[str, Any]] = []
    comparison: Difference | UnsetType = UNSET


class ListChecksAnswer(Answer, kw_only=True):
    """The checks of this installation and of the settings here."""

    checks: list[dict[str, Any]]


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of a type, as one object with its parts in `$defs`. A coding agent reads it: it is short."""
    (top,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    described = parts.pop(top["$ref"].rpartition("/")[2])
    whole = {**described, "$defs": parts} if parts else described
    return _brief(whole)


LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")  # far beyond what a caller sends


def _brief(schema: Any, *, names: bool = False) -> Any:
    """The schema without titles, docstrings, empty defaults and lengths. `names`: its members are names, not words."""
    if is_list(schema):
        return [_brief(one) for one in schema]
    if not is_object(schema):
        return schema
    if names:
        return {name: _brief(one) for name, one in schema.items()}
    left_out = {"title", *LENGTHS} | ({"description"} if "properties" in schema else set[str]())
    left_out |= {name for name in ("default", "required") if schema.get(name) in (None, [], "", False)}
    brief = {
        word: _brief(one, names=word in ("properties", "$defs"))
        for word, one in schema.items()
        if word not in left_out
    }
    choices: list[Any] = brief.get("anyOf", [])
    simple = [one["type"] for one in choices if is_object(one) and one.keys() == {"type"}]
    if choices and len(simple) == len(choices):
        return {name: one for name, one in brief.items() if name != "anyOf"} | {"type": simple}
    return brief


def fit(answer: Answer, max_bytes: int, rest: ToolCall) -> bytes:
    """The answer as JSON of at most `max_bytes`: its texts are cut, then its lists. `rest` is the call without it."""
    whole: dict[str, Any] = msgspec.to_builtins(answer)
    text = msgspec.json.encode(whole)
    if len(text) <= max_bytes:
        return text
    whole |= {"cut": True, "rest": msgspec.to_builtins(rest)}
    limit, items = max_bytes, 1_000
    while True:
        text = msgspec.json.encode(_shorten(whole, limit, items))
        if len(text) <= max_bytes or (limit <= SHORTEST and items <= 1):
            return text
        if limit > SHORTEST:
            limit = max(SHORTEST, limit // 2)
        else:
            items //= 2


KEPT = frozenset({"rest", "note", "run", "case", "id"})


def _shorten(value: Any, limit: int, items: int, *, free: bool = False) -> Any:
    """
    The value with no text above `limit` bytes and no list above `items`.

    Each cut has a mark: in a list where it may hold a text (`free`: within `data`), else `cut` of the answer is it.
    """
    if isinstance(value, str):
        return cut_text(value, limit)
    if is_list(value):
        kept = [_shorten(one, limit, items, free=free) for one in value[:items]]
        left = len(value) - len(kept)
        if left and (free or isinstance(value[0], str)):
            kept.append(f"… [cut: {left:,} more]")
        return kept
    if is_object(value):
        pairs = list(value.items())[: max(items, 30)]
        return {
            name: one
            if name in KEPT and not free
            else _shorten(one, limit, items, free=free or name == "data")
            for name, one in pairs
        }
    return value


def cut_text(text: str, limit: int) -> str:
    """The beginning of a text, and how long it is."""
    size = len(text.encode("utf-8", "replace"))
    if size <= limit:
        return text
    mark = f"… [cut: {size:,} bytes]"
    return text.encode("utf-8", "replace")[: max(0, limit - len(mark))].decode("utf-8", "ignore") + mark
