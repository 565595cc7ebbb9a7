"""
The documents of `--json` about stored runs that a verb puts together from several parts. Their schemas come from these
types.
"""

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from assay.agenteval.results.baseline import Comparison
from assay.agenteval.results.detail import Effective
from assay.agenteval.results.report import EvalReport
from assay.agenteval.results.safety_report import FindingDetail
from assay.cli.render.evaluate_documents import CheckRow, ChecksDocument, UntilDocument
from assay.comparison.compare import PairComparison
from assay.comparison.divergence import DivergenceKind
from assay.comparison.views.history import HistoryRow
from assay.fep.records.corrections import CorrectedRun
from assay.protocol.agent_evals import EvalSummary
from assay.protocol.operations import ErrorResponse, EvaluationProgress
from assay.protocol.results import EvaluationSummary, TestCaseResult
from assay.protocol.verification import Verification
from assay.results.run_part import RunPart
from assay.results.spending import Spending
from assay.runs.run_statistics import RunStatistics
from assay.stats.intervals import Rate


class Commit(Struct, omit_defaults=True):
    """The commit that a run was made at. `clean`: no tracked file differed from it."""

    id: str
    clean: bool | UnsetType = UNSET


class ShownReason(Struct):
    """What one check said of a case."""

    check: str
    passed: bool | None
    reason: str


class ShownContent(Struct, kw_only=True):
    """What a case holds and what the tested system said. `reason`: why there is no result."""

    reason: str | UnsetType = UNSET
    reasons: list[ShownReason] | UnsetType = UNSET
    result: TestCaseResult | UnsetType = UNSET
    checks: list[dict[str, Any]] | UnsetType = UNSET  # beside the score
    memory: list[dict[str, Any]] | UnsetType = UNSET
    trajectory: list[dict[str, Any]] | UnsetType = UNSET
    judge: list[dict[str, Any]] | UnsetType = UNSET


class ShownCaseDocument(Struct, kw_only=True):
    """A case, or one trial of a task."""

    id: str
    failing: bool
    trial: int | UnsetType = UNSET
    score: float | UnsetType = UNSET
    data: ShownContent


class RunDocument(Struct, kw_only=True, rename="camel"):
    """The document of `run --json`, and of `show --json` for a run of a suite. `summary` is null for a part."""

    run_id: str
    status: str
    summary: EvalSummary | None
    report: EvalReport
    suite_source: str | UnsetType = UNSET
    suite_file_digest: str | UnsetType = UNSET
    agent_pack: str | UnsetType = UNSET
    findings: tuple[FindingDetail, ...] | UnsetType = UNSET
    more_findings: int | UnsetType = UNSET
    effective: Effective | UnsetType = UNSET
    comparison: Comparison | UnsetType = UNSET
    difference: PairComparison | UnsetType = UNSET
    until: UntilDocument | UnsetType = UNSET
    checks: ChecksDocument | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    models: Any = UNSET
    commit: Commit | UnsetType = UNSET
    command: str | UnsetType = UNSET
    cases: list[ShownCaseDocument] | UnsetType = UNSET
    more: int | UnsetType = UNSET
    erased: bool | UnsetType = UNSET


class EvaluationDocument(Struct, kw_only=True):
    """The document of `show --json` for an evaluation."""

    operation_id: str
    status: str
    created_at: datetime
    started_at: datetime | UnsetType = UNSET
    completed_at: datetime | UnsetType = UNSET
    progress: EvaluationProgress | UnsetType = UNSET
    error: ErrorResponse | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    summary: EvaluationSummary
    pass_rate: Rate | None
    case_pass_rate: Rate | None
    pass_k: dict[str, Rate] | UnsetType = UNSET
    pass_at_k: dict[str, Rate] | UnsetType = UNSET
    checks: dict[str, CheckRow]
    spending: Spending | UnsetType = UNSET
    traces: Any = UNSET
    part: RunPart | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    models: Any = UNSET
    commit: Commit | UnsetType = UNSET
    command: str | UnsetType = UNSET
    effective: CorrectedRun | UnsetType = UNSET
    cases: list[ShownCaseDocument]
    more: int
    erased: bool | UnsetType = UNSET


class ListedRun(Struct, kw_only=True, rename="camel"):
    """
    A run of `list --json`, of any kind. A run of a suite, a workflow and a transition have `runId` and members of their
    kind; an evaluation has those of an operation.
    """

    run_id: str | UnsetType = UNSET
    operation_id: str | UnsetType = field(default=UNSET, name="operation_id")
    kind: str | UnsetType = UNSET
    status: str
    created: datetime | UnsetType = UNSET
    created_at: datetime | UnsetType = field(default=UNSET, name="created_at")
    started_at: datetime | UnsetType = field(default=UNSET, name="started_at")
    completed_at: datetime | UnsetType = field(default=UNSET, name="completed_at")
    progress: EvaluationProgress | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    error: Any = UNSET
    code: str | UnsetType = UNSET
    run_name: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    principal: str | UnsetType = UNSET
    workspace: str | UnsetType = UNSET
    suite_id: str | UnsetType = UNSET
    suite_version: str | UnsetType = UNSET
    eval_suite_ref: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    agent_version: str | UnsetType = UNSET
    models: list[Any] | UnsetType = UNSET
    modes: list[str] | UnsetType = UNSET
    baseline_run_id: str | UnsetType = UNSET
    source_run_id: str | UnsetType = UNSET
    fork_mode: str | UnsetType = UNSET
    total: int | UnsetType = UNSET
    suite_total: int | UnsetType = UNSET
    part: RunPart | UnsetType = UNSET
    trials: int | UnsetType = UNSET
    done: int | UnsetType = UNSET
    never_reached: int | UnsetType = UNSET
    passed_count: int | UnsetType = UNSET
    unmeasured: int | UnsetType = UNSET
    passed: bool | UnsetType = UNSET
    score: float | UnsetType = UNSET
    aggregate_score: float | UnsetType = UNSET
    pass_rate: float | UnsetType = UNSET
    case_pass_rate: float | UnsetType = UNSET
    cost_usd: float | UnsetType = UNSET
    statistics: RunStatistics | UnsetType = UNSET
    workflow_id: str | UnsetType = UNSET
    parent: dict[str, Any] | UnsetType = UNSET
    source: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    iteration: int | UnsetType = UNSET
    supervisor: str | UnsetType = UNSET
    verdict: str | UnsetType = UNSET
    self_verified: bool | UnsetType = UNSET
    goal_satisfied: bool | UnsetType = UNSET
    waiting: dict[str, Any] | UnsetType = UNSET
    transition: str | UnsetType = UNSET
    to_state: str | UnsetType = UNSET
    commit: Commit | UnsetType = UNSET


class ErasedRun(ListedRun, kw_only=True, rename="camel"):
    """The document of `show --json` for a run whose content was erased: what the list has of it, and when it was."""

    erased: str
    erased_by: str | UnsetType = UNSET


class HistoryDocument(Struct, kw_only=True, rename="camel"):
    """The document of `history --json`."""

    suite_id: str
    rows: list[HistoryRow]
    more: bool


class DiffAnswer(Struct, kw_only=True):
    """The answer of one run, or its error, and the step that differs."""

    answer: Any = UNSET
    error: str | UnsetType = UNSET
    step: Any = UNSET


class DiffSide(Struct, kw_only=True):
    """What one run did for a task."""

    passed: bool | None
    score: float | None
    data: DiffAnswer


class FirstDifference(Struct, kw_only=True):
    """What differs first, after how many equal steps."""

    kind: DivergenceKind
    same: int


class DiffTask(Struct, kw_only=True):
    """A task in which two runs differ."""

    id: str
    trial: int | UnsetType = UNSET
    divergence: FirstDifference
    a: DiffSide
    b: DiffSide


class DiffDocument(Struct, kw_only=True, rename="camel"):
    """The document of `diff --json`."""

    a: str
    b: str
    same: int
    different: int
    only_a: list[str]
    only_b: list[str]
    tasks: list[DiffTask]
    more: int


class TransitionDocument(Struct, kw_only=True, rename="camel"):
    """The document of `show --json` for a transition of a deployment; other members are those of its kind."""

    run_id: str
    kind: str
    status: str
    events: list[dict[str, Any]]


class WorkflowDocument(Verification, frozen=True, kw_only=True, rename="camel"):
    """The document of `show --json` for a workflow: the verification and its log."""

    events: list[dict[str, Any]]
