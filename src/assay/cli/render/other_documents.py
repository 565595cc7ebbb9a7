"""The documents of `--json` of verbs that judge, deploy and list workers. Their schemas come from these types."""

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.protocol.deployments import AgentDeployment, Condition
from assay.results.judge_check import JudgeReport, JudgeSample


class DrawnCase(Struct, kw_only=True, rename="camel"):
    """A case to label."""

    task_id: str | UnsetType = UNSET
    case_id: str | UnsetType = UNSET
    labelled: bool


class SampleDocument(JudgeSample, frozen=True, kw_only=True):
    """The document of `judge sample --json`, of a run or a file."""

    tasks: list[DrawnCase] | UnsetType = UNSET
    cases: list[DrawnCase] | UnsetType = UNSET
    run: str | UnsetType = UNSET
    file: str | UnsetType = UNSET


class JudgeDocument(JudgeReport, frozen=True, kw_only=True):
    """The document of `judge check --json`, of a run or a file. `partial`: what the run lacks."""

    partial: Any = UNSET
    run: str | UnsetType = UNSET
    file: str | UnsetType = UNSET


class SkillDocument(Struct):
    """A skill of `skills list --json`."""

    name: str
    description: str


class WorkerDocument(Struct, kw_only=True):
    """A worker of `worker --list --json`."""

    worker: str
    seen: datetime
    host: str
    process: int
    version: str
    executed: int
    repeated: int
    refused: int
    providers: dict[str, Any]


class TransitionOutcome(Struct, kw_only=True, rename="camel"):
    """The document of `deploy promote|rollback --json`: the record, a run that waits, or what is not met."""

    record: AgentDeployment | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    conditions: list[Condition] | UnsetType = UNSET


class ResponseDocument(Struct, kw_only=True, rename="camel"):
    """The document of `respond --json` for a transition; that of a workflow is a Verification."""

    run_id: str
    status: str
    agent_id: str | UnsetType = UNSET
    agent_version: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
