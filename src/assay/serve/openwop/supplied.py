"""The capabilities that packs may require of this host (RFC 0072 §C). A feature that is switched off supplies none."""

from assay.packs.requirements import PROTOCOL_VERSION, Supplied
from assay.serve.openwop.features import OpenWopFeatures


def supplied(features: OpenWopFeatures) -> Supplied:
    """By the names of discovery, and those of packs: `aiProviders`, `host.agentRuntime`, `agents.memoryBackends`."""
    evals, workflows = features.offer_evals, features.offer_workflows
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "aiProviders": True,  # `[models]` names the model of each class
        "host.agentRuntime": features.offer_agents,
        "agents": features.offer_agents,
        "agents.manifestRuntime": features.offer_agents,
        "agents.liveRuntime": features.offer_agents and (evals or workflows),
        "agents.evalSuite": evals,
        "agents.deployment": features.offer_deployments,
        "agents.memoryBackends": ("long-term",) if workflows else (),  # the journal of a run, in the store
        "agents.orchestrator": workflows,
        "agents.dispatch": workflows,
        "agents.dispatchMapping": workflows,
        "agents.subRunAttestation": workflows,
        "authorization": features.offer_deployments,
        "feedback": features.offer_feedback,
        "memory": workflows,
        "multiAgent.executionModel": workflows,
        "multiAgent.executionModel.verifier": workflows,
        "providerUsage": evals,
        "replay": features.offer_replay,
    }
