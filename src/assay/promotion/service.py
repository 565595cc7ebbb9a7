"""The service for deployments: list, transition, respond, resolve a channel. Transports and the command call it."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from assay.comparison.policy import PromotionPolicy
from assay.ports import Clock, Principal, PutDocument, Run, Store
from assay.protocol.deployments import AgentDeployment, TransitionRequest


class TransitionOutcome(Struct, frozen=True, kw_only=True):
    """A transition that was applied, or whose management run waits for an approval; then `record` is unchanged."""

    run: Run
    record: AgentDeployment

    @property
    def waits(self) -> bool:
        return self.run.status.startswith("waiting")


class PromotionService:
    """The deployments of one host."""

    def __init__(self, store: Store, policy: PromotionPolicy, clock: Clock) -> None:
        self.store, self.policy, self._clock = store, policy, clock

    async def deployments(self, tenant: str, agent_id: str) -> list[AgentDeployment]:
        """The records of an agent by version; an installed version without a record is a draft. NotFound: an unknown agent."""
        raise NotImplementedError

    async def transition(
        self,
        principal: Principal,
        agent_id: str,
        request: TransitionRequest,
        documents: Sequence[PutDocument] = (),
        *,
        run: str | None = None,
    ) -> TransitionOutcome:
        """
        Apply a transition, or suspend it until it is approved. `run` is the id of the management run.

        Refusals: Forbidden, NotFound (the agent), InvalidRequest (version, state, channel, canary), EvalGateUnmet, Conflict.
        """
        raise NotImplementedError

    async def respond(
        self, principal: Principal, run: str, node: str, value: Any, documents: Sequence[PutDocument] = ()
    ) -> Run:
        """Take an answer to a management run that waits: `{"action": "accept" | "reject" | "override", "reason"?}`."""
        raise NotImplementedError

    async def resolve(self, tenant: str, run: str, agent_id: str, channel: str) -> str:
        """The version that a channel means for a run. NoActiveDeployment: there is none."""
        raise NotImplementedError
