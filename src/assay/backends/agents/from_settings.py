"""The agents of the settings (`[agents."<agentId>"]`), each created when it is first used."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.backends.agents.command import CommandAgent
from assay.backends.agents.frameworks.agent import agent_of
from assay.backends.agents.manifest import Manifest, ManifestAgent, PackAgent, open_manifest, read_schema
from assay.backends.agents.recorded import RecordedAgent
from assay.backends.agents.spec import FORMS, parse_spec
from assay.backends.provider_config import InvalidProviderConfig, expand
from assay.errors import InvalidRequest, Problem, UsageError
from assay.errors.door import hint_of
from assay.extras import require
from assay.import_code import load_object
from assay.ports import CompletionRequest, Model, Providers
from assay.ports.agents import Agent, ModelOverrides, Prompted
from assay.ports.config import AgentConfig
from assay.protocol.agents import AgentCard, MemoryShape
from assay.protocol.manifest import AGENT_ID, AgentDefinition

Choice = Callable[[ModelOverrides], tuple[Model, CompletionRequest]]


class ConfiguredAgents:
    """
    Creates agents from their tables. It reads their files and imports their modules; an error names the setting.

        agents = ConfiguredAgents({"local.shop.bot": AgentConfig(kind="callable", target="shop:bot")})
    """

    def __init__(
        self,
        configs: Mapping[str, AgentConfig],
        *,
        providers: Providers | None = None,
        models: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._configs = dict(configs)
        self._providers, self._models = providers, models or {}
        self._environment = os.environ if environment is None else environment
        self._agents: dict[str, Agent] = {}

    def cards(self) -> list[AgentCard]:
        return [self._agent(agent_id).card for agent_id in sorted(self._configs)]

    def get(self, agent_id: str) -> Agent | None:
        """An agent that is ready to run. The model of a manifest is chosen, or refused, now."""
        if agent_id not in self._configs:
            return None
        agent = self._agent(agent_id)
        if isinstance(agent, ManifestAgent):
            agent.ready()
        return agent

    def resolve(self, spec: str) -> Agent:
        """
        The agent that an operator names by id or by a spec such as `module:function`.

        A spec can execute any code, so it must never come from a request.
        """
        if (agent := self.get(spec)) is not None:
            return agent
        agent = self._described(spec)
        if isinstance(agent, ManifestAgent):
            agent.ready()
        return agent

    def card_of(self, spec: str) -> AgentCard:
        """The card of the agent that `resolve` returns. The agent need not have a model."""
        return (self._agent(spec) if spec in self._configs else self._described(spec)).card

    def _described(self, spec: str) -> Agent:
        described = parse_spec(spec)
        if described is None:
            ids = f"; configured are {', '.join(sorted(self._configs))}" if self._configs else ""
            raise UsageError(f"{_place(spec)}: expected {FORMS}{ids}")
        return self.make(*described, _place(spec))

    async def close(self) -> None:
        for agent in self._agents.values():
            await agent.close()
        if self._providers is not None:
            await self._providers.close()

    def _agent(self, agent_id: str) -> Agent:
        agent = self._agents.get(agent_id)
        if agent is None:
            agent = self._agents[agent_id] = self.make(agent_id, self._configs[agent_id])
        return agent

    def make(self, agent_id: str, config: AgentConfig, path: str | None = None) -> Agent:
        """Create the agent of a table. With an empty id, the manifest's id is used."""
        path = path or f'settings: agents."{agent_id}"'
        agent = self._make(agent_id, config, path)
        if config.system_prompt is not None and isinstance(agent, Prompted):
            try:
                agent.system_prompt = Path(config.system_prompt).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as wrong:
                raise UsageError(
                    f"{path}.system_prompt: {config.system_prompt}: expected a file that can be read, got {wrong}"
                ) from None
        return agent

    def _make(self, agent_id: str, config: AgentConfig, path: str) -> Agent:
        if config.kind == "manifest":
            return self._manifest(agent_id, config, path)
        if not re.search(AGENT_ID, agent_id):
            raise UsageError(
                f"{path}: expected an agent id such as local.shop.bot or vendor.acme.triage.default"
            )
        card = _card(agent_id, config, path)
        if config.kind == "callable":
            found = load_object(config.target, f"{path}.target")
            return agent_of(card, found, f"{path}.target: {config.target!r}", seconds=config.timeout)
        if config.kind == "command":
            env = self._expand_table(config.env, f"{path}.env")
            return CommandAgent(card, config.target, env=env, seconds=config.timeout)
        if config.kind == "recorded":
            card = msgspec.structs.replace(card, takes_tools=False, takes_memory=False, takes_turns=False)
            return RecordedAgent(card, config.target, path)
        return self._http(card, config, path)

    def _http(self, card: AgentCard, config: AgentConfig, path: str) -> Agent:
        require(f"{path}: an HTTP agent", "agents", package="aiohttp")
        from assay.backends.agents.http import HttpAgent  # deferred import: an extra

        try:
            url = expand(config.target, self._environment, "target")
        except InvalidProviderConfig as wrong:
            raise UsageError(f"{path}.target: {wrong}") from None
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{path}.target: expected an address such as http://localhost:8000/agent")
        headers = self._expand_table(config.headers, f"{path}.headers")
        return HttpAgent(card, url, headers=headers, seconds=config.timeout)

    def _manifest(self, agent_id: str, config: AgentConfig, path: str) -> Agent:
        manifest = open_manifest(Path(config.target), f"{path}.target")
        card = manifest.card()
        if agent_id and card.agent_id != agent_id:
            raise UsageError(
                f"{path}.target: expected the manifest of {agent_id!r}, got that of {card.agent_id!r} in "
                f"{config.target}"
            )
        configured: dict[str, Any] = {
            name: getattr(config, name)
            for name in ("persona", "label", "description", "model_class", "tools", "memory", "threshold")
            if getattr(config, name) not in (None, "")
        }
        card = msgspec.structs.replace(
            card, version=config.version, free=config.free, criteria=config.criteria, **configured
        )
        card = msgspec.structs.replace(
            card,
            takes_tools=bool(card.tools),
            takes_memory=card.memory.scratchpad or card.memory.conversation or card.memory.longTerm,
        )
        choose = self._choice(card, config, path)
        return ManifestAgent(
            card, manifest.prompt, choose, max_rounds=config.max_rounds, seconds=config.timeout
        )

    def from_definition(self, definition: AgentDefinition) -> PackAgent:
        """The agent of a pack. `[models]` has the model of its class, or `general`."""
        manifest = Manifest(
            definition.manifest, definition.prompt, definition.task_schema, definition.return_schema
        )
        card = msgspec.structs.replace(
            manifest.card(),
            version=definition.version,
            pack=definition.pack,
            optional_peers=definition.optional_peers,
        )
        config = AgentConfig(kind="manifest", target=definition.pack)
        return PackAgent(card, definition, self._choice(card, config, f"agent {card.agent_id}"))

    def _choice(self, card: AgentCard, config: AgentConfig, path: str) -> Choice:
        """The model of the run, else of the agent, else of its class, else the general one."""

        def choose(tuning: ModelOverrides) -> tuple[Model, CompletionRequest]:
            usual = config.model or self._models.get(card.model_class) or self._models.get("general")
            named = tuning.model or usual
            if named is None or self._providers is None:
                raise UsageError(
                    f"{path}: there is no model of class {card.model_class!r}:"
                    f' set {card.model_class} = "PROVIDER:MODEL", or general, under [models] in assay.toml'
                )
            try:
                more = {"temperature": tuning.temperature, "max_tokens": tuning.max_tokens}
                parameters = {name: value for name, value in more.items() if value is not None}
                return self._providers.model(None, {"model": named, **parameters})
            except InvalidRequest as wrong:
                raise InvalidRequest(
                    [Problem(f"{path}: model {named!r}", problem.message) for problem in wrong.problems]
                ) from None

        return choose

    def _expand_table(self, table: Mapping[str, str], path: str) -> dict[str, str]:
        try:
            return {name: expand(text, self._environment, name) for name, text in table.items()}
        except InvalidProviderConfig as wrong:
            raise UsageError(f"{path}.{wrong.member}: {wrong}") from None


def _card(agent_id: str, config: AgentConfig, path: str) -> AgentCard:
    def schema(name: str, file: str | None) -> dict[str, Any] | None:
        return None if file is None else read_schema(Path(file), f"{path}.{name}")

    return AgentCard(
        agent_id=agent_id,
        version=config.version,
        kind=config.kind,
        persona=config.persona or agent_id.rpartition(".")[2],
        label=config.label or config.persona or agent_id.rpartition(".")[2],
        description=config.description,
        model_class=config.model_class or "general",
        free=config.free,
        tools=config.tools,
        memory=config.memory or MemoryShape(),
        takes_tools=config.takes_tools is not False,
        takes_memory=config.takes_memory is not False,
        takes_turns=config.kind in ("http", "command"),
        threshold=config.threshold,
        criteria=config.criteria,
        task_schema=schema("task_schema", config.task_schema),
        return_schema=schema("return_schema", config.return_schema),
    )


def _place(spec: str) -> str:
    return hint_of("agent", repr(spec), repr(spec))
