"""Builds the service for deployments from a policy file and the agents of a host."""

from collections.abc import Mapping

from assay.agents.versions import InstalledVersions
from assay.comparison.policy import PromotionPolicy, read_policy_file
from assay.ports import Clock, Limits, Store
from assay.ports.agents import Agents, PackAgents
from assay.promotion.records import AgentRecords
from assay.promotion.service import PromotionService


def build_promotions(
    store: Store,
    policy_file: str,
    limits: Limits,
    clock: Clock,
    agents: Agents,
    packs: PackAgents | None,
    initial: Mapping[str, AgentRecords],
) -> PromotionService:
    """Without a policy file, the default rules apply: a passed eval run for `staged` and `active`."""
    policy = read_policy_file(policy_file, limits) if policy_file else PromotionPolicy()
    return PromotionService(store, policy, clock, InstalledVersions(agents, packs), initial)
