"""Suites and agents that a command line names: files and configured agents, and those of installed packs."""

import re
from pathlib import Path

from assay.agenteval.suites.suite import read_suite_file
from assay.agenteval.suites.suite_store import FIELD, ResolvedSuite, SuiteResolver, SuiteStore
from assay.errors import InvalidRequest, Problem, UsageError
from assay.host import parts
from assay.packs.store import PackStore
from assay.ports import Store
from assay.ports.agents import Agent, PackedAgent
from assay.protocol.manifest import AGENT_ID
from assay.settings import Settings

FILES = (".json", ".yaml", ".yml", ".gz")


async def find_agent(spec: str, settings: Settings, store: Store, tenant: str) -> Agent:
    """
    The agent that `--agent SPEC` means: one of the settings, one of an installed pack, or the one that the text
    describes.
    """
    if names_pack_agent(spec, settings):
        agent = await parts.tenant_agents(settings, store).get(tenant, spec)
        if isinstance(agent, PackedAgent):
            agent.ready()
        if agent is not None:
            return agent
    return parts.resolve_agent(spec, settings)


def names_pack_agent(spec: str, settings: Settings) -> bool:
    """Whether the text may be the id of an agent of a pack."""
    return bool(re.search(AGENT_ID, spec)) and spec not in settings.agents and not _is_file(spec)


async def find_suite(
    ref: str | None, agent: Agent, settings: Settings, store: Store, tenant: str
) -> ResolvedSuite:
    """
    The suite that SUITE means: a file, else a reference as in `evalSuiteRef` (openwop-contract §7.4).

    Without SUITE, an agent of a pack runs on its own suite.
    """
    resolver = SuiteResolver(SuiteStore(store), PackStore(store))
    if ref is None:
        definition = agent.definition if isinstance(agent, PackedAgent) else None
        if definition is None or not definition.suite_path:
            raise UsageError(
                f"expected a SUITE, because agent {agent.card.agent_id} has none of its own;"
                " assay run suite.yaml --agent module:function"
            )
        return await resolver.resolve(
            tenant, f"pack:{definition.pack}@{definition.version}/{definition.suite_path}"
        )
    if ref == "-" or _is_file(ref):
        return _from_file(ref, settings)
    try:
        return await resolver.resolve(tenant, ref, agent.card.agent_id)
    except InvalidRequest as refusal:
        if ref.endswith(FILES) and ":" not in ref:
            return _from_file(ref, settings)  # it says that there is no such file
        raise InvalidRequest(
            [Problem(one.place.replace(FIELD, f"SUITE {ref[:200]}"), one.message) for one in refusal.problems]
        ) from None


def is_reference(suite: str) -> bool:
    """Whether SUITE cannot be a file of this machine: it is a suite that another host has."""
    return suite.startswith("pack:") or not (suite == "-" or suite.endswith(FILES) or _is_file(suite))


def _is_file(name: str) -> bool:
    return Path(name).is_file()


def _from_file(name: str, settings: Settings) -> ResolvedSuite:
    return ResolvedSuite(suite=read_suite_file(name, settings.limits), document=None)
