"""Which phases of the execution model this host has (contract §1.1, §13.1): the table that discovery reads and the tests go through."""

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.workflow.execution import FLOOR


class HostInfo(NamedTuple):
    """What of this host a phase may depend on."""

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
    """Without a name, another host could not point at us."""
    if not host.host_id:
        return None
    known = {"supported": True, "hostId": host.host_id, "ancestryEndpointSupported": True}
    return {"crossHostCausation": known}


def replay(host: HostInfo) -> Advertised | None:
    """Switched off, nothing can be replayed: the version is at most 3 (contract §1.1)."""
    if not host.replay:
        return None
    recipe = {"llmCacheKeyRecipe": "spec-rfc-0041", "refusalDivergenceEmission": True}
    return {"replayDeterminism": {"supported": True, **recipe}}


def stateful_loop(host: HostInfo) -> Advertised | None:
    return {"statefulResume": True}


def verifier(host: HostInfo) -> Advertised | None:
    return {"verifier": {"supported": True, "gating": host.gating}}


# in their order; each gives what it obliges the advertisement to say, or None where it does not hold here
PHASES: tuple[Callable[[HostInfo], Advertised | None], ...] = (
    hand_off,
    confidence_and_memory,
    other_hosts,
    replay,
    stateful_loop,
    verifier,
)


def execution_model(host: HostInfo) -> dict[str, Any]:
    """`multiAgent.executionModel`: the highest N for which all of 1..N hold, and what those say. The verifier is said in any case."""
    version, said = 0, verifier(host) or {}
    for phase in PHASES:
        if (says := phase(host)) is None:
            break
        version += 1
        said |= says
    return {"supported": version > 0, "version": version, **said}
