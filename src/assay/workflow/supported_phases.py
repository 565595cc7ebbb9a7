"""The phases of the execution model that this host supports (openwop-contract §1.1, §13.1), for discovery and tests."""

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.workflow.state.execution_state import FLOOR


class HostInfo(NamedTuple):
    """The properties of this host that a phase may depend on."""

    host_id: str = "assay.local/main"
    gating: bool = True
    replay: bool = True  # forks are offered


Advertised = dict[str, Any]


def hand_off(host: HostInfo) -> Advertised | None:
    return {}


def confidence_and_memory(host: HostInfo) -> Advertised | None:
    return {
        "confidenceEscalationFloor": FLOOR,
        "confidenceEscalationInterruptKind": "approval",
        "crossChildMemoryConcurrency": "strict",
    }


def other_hosts(host: HostInfo) -> Advertised | None:
    """Needs a host id: without one, another host could not refer to this one."""
    if not host.host_id:
        return None
    causation = {"supported": True, "hostId": host.host_id, "ancestryEndpointSupported": True}
    return {"crossHostCausation": causation}


def replay(host: HostInfo) -> Advertised | None:
    """Needs forks. Without them the version is at most 3 (openwop-contract §1.1)."""
    if not host.replay:
        return None
    recipe = {"llmCacheKeyRecipe": "spec-rfc-0041", "refusalDivergenceEmission": True}
    return {"replayDeterminism": {"supported": True, **recipe}}


def stateful_loop(host: HostInfo) -> Advertised | None:
    return {"statefulResume": True}


def verifier(host: HostInfo) -> Advertised | None:
    return {"verifier": {"supported": True, "gating": host.gating}}


# in order; each returns what the advertisement must contain, or None if this host does not support it
PHASES: tuple[Callable[[HostInfo], Advertised | None], ...] = (
    hand_off,
    confidence_and_memory,
    other_hosts,
    replay,
    stateful_loop,
    verifier,
)


def execution_model(host: HostInfo) -> dict[str, Any]:
    """
    `multiAgent.executionModel`: the highest N for which phases 1 to N hold, and what they advertise. The verifier is
    always advertised.
    """
    version, advertised = 0, verifier(host) or {}
    for phase in PHASES:
        if (members := phase(host)) is None:
            break
        version += 1
        advertised |= members
    return {"supported": version > 0, "version": version, **advertised}
