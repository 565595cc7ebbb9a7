"""The request of an agent eval, and what decides whether it can run (openwop-contract §3.1, §3.2)."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.agenteval.planning.stopping import EvalUntil
from assay.errors import InvalidRequest
from assay.ports import Limits
from assay.ports.agents import Agent, ModelOverrides, Overridable
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.agents import AgentCard
from assay.protocol.json_types import JSON
from assay.protocol.manifest import AgentDefinition
from assay.results.run_part import Rule
from assay.runs.provenance import NOTHING, Provenance

MAX_TRIALS = 100
DEFAULT_SECONDS = 300.0


class EvalRequest(Struct, frozen=True, kw_only=True):
    """A request from any transport. `modes` None: those of the suite."""

    suite_ref: str | None = None
    agent_id: str | None = None
    modes: tuple[str, ...] | None = None
    baseline_run_id: str | None = None
    tasks: tuple[str, ...] | None = None  # only these tasks of the suite; None: all
    limit: int | None = None  # only the first ones of them
    rule: Rule | None = None  # how the tasks were chosen; None: by their ids, or the first ones
    until: EvalUntil | None = None  # the tasks run in a random order, until this has decided
    failing_in: tuple[str, ...] = ()  # the runs in which the chosen tasks did not pass
    max_cost: float | None = None  # US dollars from which no trial is started
    trials: int = 1
    seconds: float | None = None  # of a task; None: the host's
    judge: str | None = None  # the judge's model, if not the default
    allow_target_mismatch: bool = False
    allow_suite_version_drift: bool = False
    skip_regression: bool = (
        False  # the command runs a suite that lists the mode `regression` without a baseline
    )
    principal: str = ""  # the opaque id of the caller; "": the operator
    suite_digest: str = ""  # of the uploaded suite
    suite_source: str = ""  # of a suite in a pack: pack:<name>@<version>/<path>
    suite_file_digest: str = ""  # SHA-256 of the octets of that file, in hex
    agent_spec: str = ""  # as given on a command line, to find the same agent again
    configurable: dict[str, Any] = {}  # options, unchanged
    tags: tuple[str, ...] = ()
    provenance: Provenance = NOTHING  # of the command that started the run
    metadata: dict[str, Any] = {}  # the caller's own; stored and returned, not interpreted
    record: bool = False  # live tools in place of fixtures, once, so that their answers can be recorded
    checks: Any = None  # FEP checks beside the scorecard, never in its score


class Baseline(Struct, frozen=True, kw_only=True):
    """A completed eval run to compare with."""

    run_id: str
    suite_id: str
    suite_version: str
    score: float
    task_ids: frozenset[str]


class EvalFacts(Struct, frozen=True, kw_only=True):
    """What was read before planning."""

    card: AgentCard | None = None
    definition: AgentDefinition | None = None  # of an agent of a pack
    tenant_agent: bool = False  # the tenant brought the agent
    suite: AgentEvalSuite | InvalidRequest | None = None
    baseline: Baseline | None = None
    no_judge: str | None = None  # why there is no judge; None: there is one
    live_tools: frozenset[str] = frozenset()
    detectors: bool = (
        True  # whether this host can run the detectors, and the safety judge if its policy asks it
    )
    policy: JSON | None = None  # of tool calls
    traced: bool = False  # the calls of the agent are in its spans


class EvalLimits(Struct, frozen=True, kw_only=True):
    """The limits of this host for evals."""

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
    """The agent with the model options of the run. An agent that chooses its own model is returned as it is."""
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
