"""
Runs the detectors on a trial, in the mode `adversarial` (openwop-contract §6.3).

A finding leaves the host as its kind and severity. Positions, rules, transforms and the canary stay in the evidence.
"""

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay import jsonpath
from assay.agenteval.scoring.safety_records import DetectorRecord, SafetyRecord, distinct, without_secrets
from assay.agents.usage import MeteredProviders
from assay.checks.arguments import bind
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions, call, prepare, to_result
from assay.checks.safety import DETECTORS, JUDGED
from assay.checks.safety.detector import Detector, SafetyCheck
from assay.checks.safety.safety_judge import SafetyJudge
from assay.errors import Fault
from assay.fep.agent_runs.agent_output import AgentOutput, score_output
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import plan_of
from assay.inputs.context import Context
from assay.ports import Services
from assay.protocol.agent_evals import EvalTask, SafetyFinding
from assay.protocol.agents import AgentCard, InvocationResult, ToolAttempt, Usage
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON
from assay.protocol.results import CheckResult, TestCaseResult
from assay.results.tally import Tally

# Asks the safety judge about a trial, in the mode `adversarial`, if the policy of the run switches it on.

_JUDGES = Registry([SafetyJudge])


def wants_judge(policy: JSON | None) -> bool:
    return bool(policy and policy.get("judge"))


def with_requested_judge(policy: JSON | None, judge: str | None) -> JSON | None:
    """The policy of a run: a request that names a judge asks it about every trial, whatever the host's policy is."""
    return {**(policy or {}), "judge": True} if judge else policy


def not_looked_for(policy: JSON | None) -> dict[str, str]:
    """The kinds that only a judge sees and that this policy leaves out, each with the reason."""
    if policy is None or not wants_judge(policy):
        return dict.fromkeys(JUDGED, "no judge")
    kinds = policy.get("judge_kinds")
    return {kind: "not in judge_kinds" for kind in JUDGED if kinds and kind not in kinds}


class JudgeInspection(Struct, frozen=True):
    """The judge of one run. `judge` has the arguments of the judge that scores rubrics: a model, or a panel."""

    services: Services
    policy: JSON
    judge: JSON

    async def ask(self, arguments: JSON, document: JSON, usages: list[Usage]) -> CheckResult:
        """The verdict on one trial. The usage of every call is appended to `usages`, with or without an answer."""
        services = self.services
        if services.providers is not None:
            services = msgspec.structs.replace(
                services, providers=MeteredProviders(services.providers, usages)
            )
        kinds = self.policy.get("judge_kinds")
        arguments = arguments | ({"kinds": list(kinds)} if kinds else {}) | self.judge
        bound = bind(Check(type=SafetyJudge.type, arguments=arguments), _JUDGES, "safety.judge")
        prepared = prepare(bound, document, services)
        answer: Any = call(prepared, services)
        if inspect.isawaitable(answer):
            try:
                answer = await answer
            except Fault as fault:
                answer = fault
        return to_result(prepared, answer, services, ResultOptions(resolved_arguments=False))


_encode = msgspec.json.Encoder().encode
_results = msgspec.json.Decoder(TestCaseResult).decode


class SafetyResult(Struct, frozen=True):
    """The findings of a trial, whether every detector that applies answered, and the evidence."""

    findings: tuple[SafetyFinding, ...]
    measured: bool
    line: bytes


class TrialFacts(Struct, frozen=True, kw_only=True):
    """What detectors read of one trial."""

    task: EvalTask
    trial: int
    result: InvocationResult
    attempts: Sequence[ToolAttempt]
    card: AgentCard
    canary: str = ""
    system_prompt: str | None = None


def safety_checks(registry: Registry) -> list[type[SafetyCheck]]:
    """The newest version of each detector and signal that takes part in the mode. The judge is not one of them."""
    types = dict.fromkeys(one.type for one in registry if issubclass(one, SafetyCheck))
    found = [registry.find(type, None) for type in types]
    return [
        one for one in found if issubclass(one, SafetyCheck) and one.task_arguments and one is not SafetyJudge
    ]


def kinds_not_looked_for(registry: Registry, policy: JSON | None) -> dict[str, str]:
    """The kinds that only a judge sees and that a run with this policy does not look for, each with the reason."""
    missing = not_looked_for(policy)
    checks = safety_checks(registry) if missing else []
    seen = {one.kind for one in checks if issubclass(one, Detector)}
    return {kind: reason for kind, reason in missing.items() if kind not in seen}


def offers_adversarial(registry: Registry, policy: JSON | None, *, judge: bool) -> bool:
    """Whether a host offers the mode: it has a detector, and a judge if its policy asks one."""
    standard = not DETECTORS.keys().isdisjoint(registry.types)  # answered without importing them
    has_detector = standard or any(issubclass(one, Detector) for one in safety_checks(registry))
    return has_detector and (judge or not wants_judge(policy))


class SafetyInspector:
    """The detectors of one run. Plans are built once for each set of arguments."""

    def __init__(
        self, registry: Registry, services: Services, policy: JSON | None, judge: JSON | None = None
    ) -> None:
        self._registry, self._services, self._policy = registry, services, policy
        self._checks = safety_checks(registry)
        self._plans: dict[bytes, Plan] = {}
        self._judge: JudgeInspection | None = None
        if policy is not None and wants_judge(policy):
            self._judge = JudgeInspection(services, policy, judge or {})

    async def inspect(self, facts: TrialFacts, usages: list[Usage]) -> SafetyResult:
        """
        Put one trial to the detectors, and to the judge if the policy says so. `usages` gets the usage of the judge.

        A detector or judge without an answer leaves the trial unmeasured.
        """
        document = context_document(facts, self._policy)
        applicable: list[JSON] = []
        absent: list[DetectorRecord] = []
        for checker in self._checks:
            arguments = _arguments(checker, document)
            if arguments is None:
                absent.append(DetectorRecord(**_names(checker), status="not-applicable"))
            else:
                applicable.append({"type": checker.type, "arguments": arguments})
        records: list[DetectorRecord] = []
        if applicable:
            context = Context(_encode(document), document)
            options = ExecutionOptions(seconds=self._services.limits.check_seconds)
            line = await score_output(
                self._plan(applicable), 0, AgentOutput(context=context), Tally(part=True), options
            )
            records = [self._record(one) for one in _results(line).check_results]
        if self._judge is not None:
            records.append(await self._judge_record(self._judge, document, usages))
        findings = distinct(
            msgspec.convert({"kind": kind, "severity": severity}, SafetyFinding)
            for one in records
            for kind, severity in one.kinds_found
        )
        record = SafetyRecord(
            task_id=facts.task.task_id,
            trial=facts.trial,
            findings=findings,
            detectors=records + absent,
            canary=facts.canary,
            failed=facts.result.outcome == "failed" and facts.result.result is UNSET,
            tool_calls=document["output"]["metadata"]["tool_calls"],
        )
        return SafetyResult(findings, not record.errors, _encode(without_secrets(record)))

    async def _judge_record(
        self, judge: JudgeInspection, document: JSON, usages: list[Usage]
    ) -> DetectorRecord:
        names = _names(SafetyJudge)
        arguments = _arguments(SafetyJudge, document)
        if arguments is None:
            return DetectorRecord(**names, status="not-applicable")
        result = await judge.ask(arguments, document, usages)
        if result.status != "completed":
            return _error_record(names, result, results={"metadata": result.metadata or {}})
        answer = result.results
        if answer["passed"]:
            return DetectorRecord(**names, status="passed", results=answer)
        found = {"kind": answer["kind"], "severity": answer["severity"]}
        return DetectorRecord(**names, **found, status="found", results=answer)

    def _plan(self, checks: list[JSON]) -> Plan:
        key = _encode(checks)
        plan = self._plans.get(key)
        if plan is None:
            options = ResultOptions(resolved_arguments=False)
            plan = self._plans[key] = plan_of(checks, self._registry, self._services, options)
        return plan

    def _record(self, result: CheckResult) -> DetectorRecord:
        checker = self._registry.find(result.check_type, None)
        assert issubclass(checker, SafetyCheck)
        names = _names(checker)
        passed = result.results.get("passed")
        if result.status != "completed":
            return _error_record(names, result)
        if not issubclass(checker, Detector):
            return DetectorRecord(**names, status="signal", results=result.results)
        if not isinstance(passed, bool):
            return DetectorRecord(**names, status="error", error="its answer has no `passed`")
        findings = [
            one | {"where": _context_path(one["where"], checker)}
            if isinstance(one.get("where"), str)
            else one
            for one in result.results.get("findings", [])
        ]
        more = result.results.get("more", 0)
        return DetectorRecord(**names, status="passed" if passed else "found", findings=findings, more=more)


def _error_record(names: dict[str, str], result: CheckResult, **more: Any) -> DetectorRecord:
    """The record of a detector that gave no answer."""
    if not result.error:
        return DetectorRecord(**names, **more, status="error", error=result.status)
    error = result.error
    return DetectorRecord(
        **names,
        **more,
        status="error",
        error=error.message,
        error_type=error.type,
        recoverable=error.recoverable,
    )


def _names(checker: type[SafetyCheck]) -> JSON:
    names: JSON = {"type": checker.type, "version": checker.version}
    if issubclass(checker, Detector):
        names |= {"kind": checker.kind, "severity": checker.severity}
    return names


def context_document(facts: TrialFacts, policy: JSON | None) -> JSON:
    """The context of a trial. A member that is not known is absent."""
    metadata: JSON = {"outcome": facts.result.outcome, "tool_calls": msgspec.to_builtins(facts.attempts)}
    metadata |= {"canary": facts.canary} if facts.canary else {}
    metadata |= {"system_prompt": facts.system_prompt} if facts.system_prompt else {}
    metadata |= {} if facts.card.tools is None else {"allowed_tools": list(facts.card.tools)}
    metadata |= {"policy": policy} if policy else {}
    output: JSON = {} if facts.result.result is UNSET else {"value": facts.result.result}
    case: JSON = {"id": facts.task.task_id, "input": facts.task.input}
    return {"test_case": case, "output": {**output, "metadata": metadata}}


def _arguments(checker: type[SafetyCheck], document: JSON) -> JSON | None:
    """The arguments that the context has; None if a required one is missing."""
    required = _required(checker)
    arguments: JSON = {}
    for name, value in checker.task_arguments.items():
        if not _is_path(value) or jsonpath.compile(value).values(document):
            arguments[name] = value
        elif name in required:
            return None
    return arguments


@lru_cache(maxsize=256)
def _required(checker: type[SafetyCheck]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(checker) if field.required)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("$.")


def _context_path(where: str, checker: type[SafetyCheck]) -> str:
    """`tool_calls[3].tool` of an argument, as a path into the context."""
    for name in sorted(checker.task_arguments, key=len, reverse=True):
        path = checker.task_arguments[name]
        if (
            _is_path(path)
            and where.startswith(name)
            and where[len(name) : len(name) + 1] in ("", ".", "[", "~")
        ):
            return path + where[len(name) :]
    return where
