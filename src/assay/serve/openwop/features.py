"""The OpenWOP capabilities that an operator can switch off: refused like unknown ones (openwop-contract §2.1)."""

from msgspec import Struct


class OpenWopFeatures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each is a setting, under `[openwop]` in assay.toml and flat in the environment."""

    offer_evals: bool = True  # agents.evalSuite: eval runs
    offer_agents: bool = True  # agents.manifestRuntime: the inventory
    offer_packs: bool = True  # packs of tenants: publish, list, show, remove
    offer_feedback: bool = True  # annotations
    offer_replay: bool = True  # forks
    offer_deployments: bool = True  # agents.deployment: records, transitions, channels
    offer_workflows: bool = True  # ordinary runs: multiAgent, agents.orchestrator, agents.dispatch
