"""The capabilities that a host advertises over OpenWOP (openwop-contract §1.1)."""

from typing import Any

from msgspec import Struct


class EvalCapability(Struct, frozen=True, kw_only=True):
    modes: tuple[str, ...]
    max_tasks: int
    max_cost_usd: float | None = None


class Capabilities(Struct, frozen=True, kw_only=True):
    """The capabilities that are enabled and work; None and false are left out of the document."""

    version: str
    max_body_bytes: int
    max_run_ms: int
    evals: EvalCapability | None = None
    agents: bool = False  # the inventory, which is that of the tenant (openwop-contract §7.7)
    live: tuple[str, ...] = ()  # how agents can be invoked (RFC 0077)
    deployment: dict[str, Any] | None = None  # states, channels
    feedback: bool = False
    replay: tuple[str, ...] = ()
    usage: bool = False
    fixtures: tuple[str, ...] = ()
    agents_more: dict[str, Any] = {}  # orchestrator, dispatch, dispatchMapping, subRunAttestation
    execution_model: dict[str, Any] | None = None
    limits: dict[str, int] = {}  # maxNodeExecutions, maxLoopIterations
    memory: bool = False
    envelopes: tuple[str, ...] = ()
    seeded: bool = False
