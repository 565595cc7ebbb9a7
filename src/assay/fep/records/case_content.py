"""
One case of a run with its content, for its owner: input, outputs, every check with its reason and its arguments, the
trajectory.
"""

from collections.abc import Sequence
from math import fsum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agents.trajectory import trajectory_in
from assay.cases.outcomes import mean_score
from assay.concurrency.threads import off_loop
from assay.errors import NotFound
from assay.fep.records.service import EvaluationService
from assay.ports import Run
from assay.protocol.annotations import Annotation
from assay.protocol.json_types import JSON, is_object
from assay.results.check_names import result_label, scored_label
from assay.results.reason_groups import reason_groups
from assay.results.reasons import number_of, passed_of, reason_of, score_of


class _Wire(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class CaseCheck(_Wire, frozen=True, kw_only=True):
    """One check of a trial. `result` is FEP's CheckResult, `column` its column in the table of cases."""

    label: str
    column: int | None
    check_type: str
    status: str
    passed: bool | None
    reason: str
    title: str  # the label, with the score of a judge
    result: JSON


class CaseCriterion(_Wire, frozen=True, kw_only=True):
    """A criterion of a rubric, and the judge's reason."""

    criterion: str
    weight: float
    met: bool
    reason: str


class CaseFinding(_Wire, frozen=True, kw_only=True):
    """A finding of a detector. `detail` has its rule and its place."""

    kind: str
    severity: str
    detector: str
    detail: JSON | UnsetType = UNSET


class CaseTrial(_Wire, frozen=True, kw_only=True):
    """One trial of a case. A number that is null was not measured or is not known."""

    trial: int
    status: str
    passed: bool | None = None  # null: it was not measured, or no check says pass or fail
    outcome: str | UnsetType = UNSET
    score: float | None
    cost_usd: float | None
    latency_ms: float | None
    output: Any = UNSET
    error: str | UnsetType = UNSET
    checks: tuple[CaseCheck, ...] = ()
    beside: tuple[CaseCheck, ...] | UnsetType = UNSET  # checks that do not count (`assay run --checks`)
    criteria: tuple[CaseCriterion, ...] | UnsetType = UNSET
    trajectory: tuple[JSON, ...] | UnsetType = UNSET
    live: bool | UnsetType = UNSET  # false: fixtures answered the tool calls
    judge: tuple[JSON, ...] | UnsetType = UNSET
    findings: tuple[CaseFinding, ...] | UnsetType = UNSET
    groups: tuple[str, ...] | UnsetType = UNSET  # of failures, by check and reason


class RecordedScore(_Wire, frozen=True, kw_only=True):
    score: float | None
    passed: bool | None


class EffectiveScore(_Wire, frozen=True, kw_only=True):
    """The score after the last correction of a person."""

    score: float
    passed: bool
    annotation_id: str
    checks: dict[str, bool] | UnsetType = UNSET  # verdicts of people on single checks, by their labels


class CaseContent(_Wire, frozen=True, kw_only=True):
    """A case with its content. `event_id` is the target of a correction."""

    case_id: str
    event_id: str | UnsetType = UNSET
    input: Any = UNSET
    expected: Any = UNSET
    tags: Any = UNSET
    metadata: JSON | UnsetType = UNSET  # without tags
    memory: tuple[JSON, ...] | UnsetType = UNSET  # what the task put into the memory of the agent
    trials: tuple[CaseTrial, ...]
    recorded: RecordedScore | UnsetType = UNSET
    effective: EffectiveScore | UnsetType = UNSET
    annotations: tuple[Annotation, ...] = ()


async def evaluation_case(
    evaluations: EvaluationService, run: Run, position: int, columns: Sequence[str]
) -> CaseContent:
    """
    The case at a position, with all its trials; NotFound if it has no result yet. `columns`: labels of the table of
    cases.
    """
    trials: int = run.metadata.get("trials", 1)
    first = position * trials
    lines = [line async for line in evaluations.results(run, first, first + trials)]
    if not lines:
        raise no_result(run, position)
    results = await decode_results(lines)
    return content_of(results, [_trial(at, result, columns) for at, result in enumerate(results)])


async def decode_results(lines: Sequence[bytes]) -> list[JSON]:
    """The results of these lines; large ones are decoded in a thread."""
    return await off_loop(sum(map(len, lines)), lambda: [msgspec.json.decode(line) for line in lines])


def no_result(run: Run, position: int) -> NotFound:
    erased = "; its content was erased" if run.erased else ""
    return NotFound(f"run {run.id} has no result at position {position}{erased}")


def content_of(results: Sequence[JSON], trials: Sequence[CaseTrial]) -> CaseContent:
    """The case of these results, one for each trial."""
    case: JSON = results[0]["execution_context"]["test_case"]
    metadata = case.get("metadata")
    tags = metadata.get("tags", case.get("tags", UNSET)) if is_object(metadata) else case.get("tags", UNSET)
    return CaseContent(
        case_id=str(case.get("id", "")),
        input=case.get("input", UNSET),
        expected=case.get("expected", UNSET),
        tags=tags,
        metadata=_members(metadata) or UNSET if is_object(metadata) else UNSET,
        trials=tuple(trials),
    )


def _members(metadata: JSON) -> JSON:
    return {name: value for name, value in metadata.items() if name not in ("tags", "tag")}


def _trial(number: int, result: JSON, columns: Sequence[str]) -> CaseTrial:
    output: JSON = result["execution_context"]["output"]
    about = about_output(output)
    checks: list[JSON] = result["check_results"]
    steps = trajectory_in(output)
    return CaseTrial(
        trial=number,
        status=result["status"],
        outcome=text_or_unset(about.get("outcome")),
        score=mean_score(map(score_of, checks)) if result["status"] == "completed" else None,
        cost_usd=_cost(about, checks),
        latency_ms=number_of(about.get("latency_ms")),
        output=output.get("value", UNSET),
        error=text_or_unset(about.get("error")),
        checks=check_rows(checks, columns, result["execution_context"]["test_case"]),
        trajectory=tuple(steps) if steps else UNSET,
        live=True if steps else UNSET,
        groups=groups_of(result),
    )


def groups_of(result: JSON) -> tuple[str, ...] | UnsetType:
    return tuple(reason_groups(result)) or UNSET


def about_output(output: JSON) -> JSON:
    """The metadata of an output; empty if it has none."""
    metadata = output.get("metadata")
    return metadata if is_object(metadata) else {}


def text_or_unset(value: Any) -> str | UnsetType:
    return value if isinstance(value, str) else UNSET


def check_rows(checks: Sequence[JSON], columns: Sequence[str], case: JSON) -> tuple[CaseCheck, ...]:
    """Each check with its reason. Checks of one label take the columns of this label in order."""
    left = dict(enumerate(columns))
    rows: list[CaseCheck] = []
    for check in checks:
        label = result_label(check)
        column = next((at for at, name in left.items() if name == label or _is_numbered(name, label)), None)
        name = label if column is None else left.pop(column)
        rows.append(
            CaseCheck(
                label=name,
                column=column,
                check_type=check["check_type"],
                status=check["status"],
                passed=passed_of(check),
                reason=reason_of(check, case),
                title=name + scored_label(check).removeprefix(label),
                result=check,
            )
        )
    return tuple(rows)


def _is_numbered(column: str, label: str) -> bool:
    """`contains #2` is a column of the label `contains`."""
    head, mark, number = column.rpartition(" #")
    return bool(mark) and head == label and number.isdigit()


def _cost(about: JSON, checks: Sequence[JSON]) -> float | None:
    """The cost of the agent and of the judges; None if neither reported one."""
    costs = [about.get("cost_usd")]
    for check in checks:
        metadata = check.get("results", {}).get("metadata")
        costs.append(metadata.get("cost_usd") if is_object(metadata) else None)
    known = [cost for cost in map(number_of, costs) if cost is not None]
    return round(fsum(known), 12) if known else None
