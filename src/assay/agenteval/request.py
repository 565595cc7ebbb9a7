"""What is asked of an agent eval, and what is known here that decides whether it can be had (contract §3.1, §3.2)."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.errors import InvalidRequest
from assay.ports import Limits
from assay.ports.agents import Agent, ModelOverrides, Overridable
from assay.protocol.agents import AgentCard
from assay.protocol.suite import AgentEvalSuite

MOST_TRIALS = 100
DEFAULT_SECONDS = 300.0


class EvalRequest(Struct, frozen=True, kw_only=True):
    """A request, whoever made it. `modes` None: those of the suite."""

    suite_ref: str | None = None
    agent_id: str | None = None
    modes: tuple[str, ...] | None = None
    baseline_run_id: str | None = None
    trials: int = 1
    seconds: float | None = None  # a task's; None: the host's
    judge: str | None = None  # a model that judges, if not the usual one
    allow_target_mismatch: bool = False
    allow_suite_version_drift: bool = False
    principal: str = ""  # who asked, by an opaque id; "": the operator
    suite_digest: str = ""  # of the suite as it was put on the shelf
    agent_spec: str = ""  # as somebody gave it on a command line, to find the same again
    configurable: dict[str, Any] = {}  # as it came
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # the caller's own; it is kept and echoed, and nobody reads it


class Baseline(Struct, frozen=True, kw_only=True):
    """A completed eval run that somebody wants to be compared with."""

    run_id: str
    suite_id: str
    suite_version: str
    score: float
    task_ids: frozenset[str]


class EvalFacts(Struct, frozen=True, kw_only=True):
    """What was found out before planning: reading is over, nothing has happened yet."""

    card: AgentCard | None = None
    suite: AgentEvalSuite | InvalidRequest | None = None
    baseline: Baseline | None = None
    no_judge: str | None = None  # why nobody can be asked to judge; None: somebody can
    live_tools: frozenset[str] = frozenset()


class EvalLimits(Struct, frozen=True, kw_only=True):
    """How far an eval may go here."""

    max_tasks: int = 10_000
    max_cost_usd: float = 100.0
    seconds: float = DEFAULT_SECONDS
    run_seconds: float = 86_400.0


def limits_of(limits: Limits) -> EvalLimits:
    return EvalLimits(
        max_tasks=limits.max_tasks,
        max_cost_usd=limits.max_suite_cost_usd,
        seconds=limits.task_seconds,
        run_seconds=limits.run_seconds,
    )


def overrides_of(agent: Agent, configurable: Mapping[str, Any]) -> Agent:
    """With the model that the run wants, where the agent's is chosen here; others have models of their own."""
    tuning = ModelOverrides(
        model=configurable.get("model"),
        temperature=configurable.get("temperature"),
        max_tokens=configurable.get("maxTokens"),
    )
    return (
        agent.with_overrides(tuning)
        if isinstance(agent, Overridable) and tuning != ModelOverrides()
        else agent
    )
