"""The refusals of deployments."""

from collections.abc import Sequence

import msgspec

from assay.errors import Forbidden, Refusal
from assay.protocol.deployments import Condition


class EvalGateUnmet(Refusal):
    """The evidence does not meet the policy; nothing was promoted. It has every unmet condition."""

    code = "eval_gate_unmet"

    def __init__(self, conditions: Sequence[Condition], *, run: str) -> None:
        self.conditions, self.run = tuple(conditions), run
        super().__init__("\n".join(condition.message for condition in conditions))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(condition.message for condition in self.conditions)

    @property
    def details(self) -> dict[str, object]:
        return {"conditions": msgspec.to_builtins(self.conditions), "runId": self.run}


class TransitionForbidden(Forbidden):
    """A key without the scope of the transition. The management run has the refusal."""

    def __init__(self, scope: str, *, run: str) -> None:
        super().__init__(scope)
        self._details = {"scopeRequired": scope, "runId": run}


class NoActiveDeployment(Refusal):
    """A channel that resolves to no active version."""

    code = "no_active_deployment"

    def __init__(self, agent_id: str, channel: str, message: str) -> None:
        self._details = {"agentId": agent_id, "channel": channel}
        super().__init__(f"agent {agent_id}, channel {channel!r}: {message}")


class ApprovalDenied(Refusal):
    """The reason why a management run ended: no approval."""

    code = "decision_rejected"

    def __init__(self, gate: str, reason: str) -> None:
        super().__init__(f"gate {gate}: {reason}")
