"""Asks the safety judge about a trial, in the mode `adversarial`, if the policy of the run switches it on."""

import inspect
from typing import Any

import msgspec
from msgspec import Struct

from assay.agents.usage import MeteredProviders
from assay.checks.arguments import bind
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions, call, prepare, to_result
from assay.checks.safety import JUDGED
from assay.checks.safety.safety_judge import SafetyJudge
from assay.errors import Fault
from assay.ports import Services
from assay.protocol.agents import Usage
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON
from assay.protocol.results import CheckResult

_JUDGES = Registry([SafetyJudge])


def wants_judge(policy: JSON | None) -> bool:
    return bool(policy and policy.get("judge"))


def with_requested_judge(policy: JSON | None, judge: str | None) -> JSON | None:
    """
    The policy of a run: a request that names a judge asks it about every trial, whatever the policy of the host says.
    """
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
        """
        The verdict on one trial. The usage of every call is appended to `usages`, also of a judge that gives no answer.
        """
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
