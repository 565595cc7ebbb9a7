"""
Critics give a verdict on a result: an agent, or checks by the key of their criterion (an `llm_judge` is one).

A critic that gives no verdict counts as a `fail` (openwop-contract §8.2): it crashed, ran out of time, or gave an
invalid answer.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.agents.invocation import Invocation, invoke
from assay.agents.usage import MeteredProviders
from assay.checks.registry import Registry
from assay.errors import Fault, InvalidRequest, Problem, Refusal
from assay.fep.execution.execute import Execution, ExecutionOptions
from assay.fep.execution.stream import stream
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import checks_from, contexts_of
from assay.ports import Services
from assay.ports.agents import Agents, ToolBox, ToolFailure
from assay.protocol.agents import Step, ToolSpec, UsageStep
from assay.protocol.redaction import redact_text
from assay.results.tally import Tally
from assay.workflow.state.effects import Invoke
from assay.workflow.state.turns import USABLE, CriticResult
from assay.workflow.state.verdict_gating import VERDICTS, Verdict, combine, event_keys

CHECKS = "local.assay.checks"  # the agent id in events where checks are the critic
SECONDS = 60.0


class CriticAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A critic's answer. Its `target`, if present, must be that of the request. `criteria` may be its own keys."""

    verdict: Verdict
    target: str | UnsetType = UNSET
    criteria: tuple[Annotated[str, Meta(min_length=1)], ...] | UnsetType = UNSET
    met: dict[str, bool] | UnsetType = UNSET
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    notes: str = ""


class Critics:
    """`criterion` specs: `{"agent": id}`, or `{"checks": {key: check, …}, "failing": "revise" | "fail"}`."""

    def __init__(
        self, agents: Agents, registry: Registry, services: Services, *, seconds: float = SECONDS
    ) -> None:
        self._agents, self._registry, self._services, self._seconds = agents, registry, services, seconds

    async def judge(
        self, critic: Mapping[str, Any], task: Any, result: Any, target: str, criteria: Sequence[str]
    ) -> CriticResult:
        """The verdict of one critic. An error is a `fail`."""
        if "checks" in critic:
            return await self._by_checks(critic, task, result)
        return await self._by_agent(critic["agent"], task, result, target, criteria)

    def problems(self, critic: Mapping[str, Any], path: str) -> list[Problem]:
        """Why this critic cannot judge, found before a run starts."""
        if "checks" in critic:
            try:
                self._plan(critic["checks"])
            except InvalidRequest as refusal:
                keys = list(critic["checks"])
                return [
                    Problem(f"{path}.criteria.{_criterion_path(problem.place, keys)}", problem.message)
                    for problem in refusal.problems
                ]
            return []
        if self._agents.get(critic.get("agent", "")) is None:
            return [Problem(f"{path}.critics", f"this host has no agent {critic.get('agent')!r}")]
        return []

    async def _by_agent(
        self, id: str, task: Any, result: Any, target: str, criteria: Sequence[str]
    ) -> CriticResult:
        agent = self._agents.get(id)
        if agent is None:
            return _failed(id, "this host has no such agent")
        invocation = Invocation(agent.card, seconds=self._seconds, max_depth=self._services.limits.max_depth)
        request = {"task": task, "result": result, "target": target, "criteria": list(criteria)}
        try:
            # the workflow compares its confidence
            finish = await invoke(agent, request, invocation, min_confidence=0.0)
        except Fault as fault:
            return _failed(id, redact_text(str(fault)), invocation.steps)
        if finish.outcome not in USABLE:
            return _failed(id, finish.error or f"its turn ended as {finish.outcome}", invocation.steps)
        try:
            answer = _read(finish.result, target)
        except ValueError as nonsense:
            return _failed(id, str(nonsense), invocation.steps)
        confidence = answer.confidence if answer.confidence is not None else finish.confidence
        named = tuple(criteria) if answer.criteria is UNSET else answer.criteria
        return CriticResult(
            agent=id,
            verdict=answer.verdict,
            outcome=finish.outcome,
            criteria=event_keys(named, criteria, agent.card.criteria),
            agent_criteria=() if answer.criteria is UNSET else answer.criteria,
            criteria_met={} if answer.met is UNSET else answer.met,
            confidence=confidence,
            notes=answer.notes,
            steps=tuple(invocation.steps),
        )

    async def _by_checks(self, critic: Mapping[str, Any], task: Any, result: Any) -> CriticResult:
        """A check that does not pass gives `failing`: `revise` or `fail`. A check that errs gives `fail`."""
        id, keys = critic.get("agentId", CHECKS), tuple(critic["checks"])
        failing: Literal["revise", "fail"] = critic.get("failing", "revise")
        metered = None if self._services.providers is None else MeteredProviders(self._services.providers)
        try:
            plan = self._plan(critic["checks"], metered)
            contexts = contexts_of(
                [{"id": "task", "input": task}], [{"value": result}], self._services.limits
            )
            how = ExecutionOptions(seconds=self._seconds, run_seconds=self._seconds)
            async with asyncio.timeout(self._seconds + 5):
                (scored,) = [one async for one in stream(Execution(plan, contexts, Tally(), how))]
        except (Refusal, Fault, TimeoutError) as wrong:
            why = f"the checks could not run: {wrong}"
            return _failed(id, why, _usage_steps(metered), criteria=keys)
        answers: list[dict[str, Any]] = msgspec.json.decode(scored.line)["check_results"]
        by_key = dict(zip(keys, answers, strict=True))
        met = {key: _passed(answer) for key, answer in by_key.items()}
        errors = [key for key, held in met.items() if held is None]
        verdict: Verdict = "fail" if errors else "pass" if all(met.values()) else failing
        return CriticResult(
            agent=id,
            verdict=verdict,
            outcome="failed" if errors else "completed",
            criteria=keys,
            criteria_met={key: bool(held) for key, held in met.items()},
            notes="; ".join(f"{key} did not pass" for key, held in met.items() if not held),
            error="; ".join(f"{key}: {_reason_of(by_key[key])}" for key in errors) or None,
            steps=_usage_steps(metered),
        )

    def _plan(self, checks: Mapping[str, Any], providers: MeteredProviders | None = None) -> Plan:
        services = (
            self._services
            if providers is None
            else msgspec.structs.replace(self._services, providers=providers)
        )
        return Plan(checks_from(list(checks.values())), self._registry, services)


def _criterion_path(path: str, keys: Sequence[str]) -> str:
    """Replace the number of a check by its key."""
    return re.sub(r"^checks\[(\d+)\]", lambda found: keys[int(found[1])], path)


def _read(answer: Any, target: str) -> CriticAnswer:
    """Parse an answer: an object, or the verdict alone."""
    try:
        answer = msgspec.convert({"verdict": answer} if isinstance(answer, str) else answer, CriticAnswer)
    except msgspec.ValidationError as wrong:
        expected = f"expected a verdict, one of {', '.join(reversed(VERDICTS))}"
        raise ValueError(f"{expected}: {str(wrong).replace('Expected', 'expected')}") from None
    if answer.target not in (UNSET, target):
        raise ValueError(f"target: expected {target!r}, got {answer.target!r}")
    named = () if answer.criteria is UNSET else answer.criteria
    if len(set(named)) < len(named):
        raise ValueError("criteria: a criterion is named twice")
    return answer


def _failed(
    agent: str, message: str, steps: Sequence[Step] = (), criteria: tuple[str, ...] = ()
) -> CriticResult:
    return CriticResult(
        agent=agent,
        verdict="fail",
        outcome="failed",
        notes=f"the critic gave no verdict: {message}",
        error=message,
        steps=tuple(steps),
        criteria=criteria,
    )


def _passed(answer: dict[str, Any]) -> bool | None:
    """None: the check gave no answer that says whether it passed."""
    if answer["status"] != "completed":
        return None
    results: dict[str, Any] = answer["results"]
    response: dict[str, Any] = results.get("response") or {}
    passed = results.get("passed", response.get("passed"))
    return passed if isinstance(passed, bool) else None


def _reason_of(answer: dict[str, Any]) -> str:
    """Why the check did not say whether it passed."""
    if answer["status"] != "completed":
        error: dict[str, Any] = answer.get("error") or {}
        return redact_text(error.get("message", answer["status"]))
    return "its answer does not say whether it passed"


def _usage_steps(providers: MeteredProviders | None) -> tuple[Step, ...]:
    """One step for each call of a judge, including repairs (RFC 0026)."""
    return () if providers is None else tuple(UsageStep(usage=usage) for usage in providers.usages)


# Tools whose answers critics verify before the agent gets them (RFC 0090: the `target` is a tool call).


class VerifiedTools:
    """Wraps a ToolBox. `verdicts` has the verdicts on each answer, by call id."""

    def __init__(self, toolbox: ToolBox | None, critics: Critics, effect: Invoke) -> None:
        self._toolbox, self._critics, self._effect = toolbox, critics, effect
        self.verdicts: dict[str, list[CriticResult]] = {}
        self._calls = 0

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [] if self._toolbox is None else self._toolbox.static_specs(tools)

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [] if self._toolbox is None else await self._toolbox.specs(tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The answer, if its verdict is `pass`; else a ToolFailure without the answer."""
        if self._toolbox is None:
            raise ToolFailure("unknown_tool", f"this host has no tool {tool!r}")
        self._calls += 1
        call = f"call-{self._calls}"  # the same ids as in Invocation
        outcome = await self._toolbox.call(tool, arguments)
        about = {"tool": tool, "arguments": arguments}
        found = [
            await self._critics.judge(critic, about, outcome, call, self._effect.criteria)
            for critic in self._effect.critics
        ]
        self.verdicts[call] = found
        verdict = combine(one.verdict for one in found)
        if self._effect.gating and verdict != "pass":
            raise ToolFailure("withheld", f"the answer of {tool} was withheld: the verdict is {verdict}")
        return outcome

    async def close(self) -> None: ...
