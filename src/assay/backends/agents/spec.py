"""Parses the agent specs of the command line: `module:function`, a URL, a command, a file."""

import re
import shlex
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

from assay.errors import UsageError
from assay.errors.door import hint_of
from assay.import_code import local_id
from assay.ports.agents import Agent, Agents
from assay.ports.config import AgentConfig
from assay.protocol.agents import AgentCard

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
FILE = re.compile(r"(?!cmd:|recorded:).*\.py:[A-Za-z_][\w.]*\Z")
FORMS = "module:function, file.py:function, http://…, cmd:COMMAND, ./script, recorded:FILE, a manifest.json, or the id of an agent in assay.toml or in an installed pack"


class AgentSpec(NamedTuple):
    agent_id: str
    config: AgentConfig


def parse_spec(text: str) -> AgentSpec | None:
    """
    Parse a spec; None if the text can only be an id.

        parse_spec("shop.bot:answer").agent_id == "local.shop.bot.answer"
        parse_spec("cmd:python bot.py").config.kind == "command"
    """
    if text.startswith(("http://", "https://")):
        return AgentSpec(local_id("http", _address(text)), AgentConfig(kind="http", target=text))
    if FILE.match(text):
        file, _, name = text.rpartition(":")
        return AgentSpec(local_id(_stem(file), name), AgentConfig(kind="callable", target=text))
    if text.startswith("cmd:") or (text.startswith(("./", "../", "/")) and not text.endswith(".json")):
        command = text.removeprefix("cmd:").strip()
        words = shlex.split(command)
        if not words:
            raise UsageError(
                f"{hint_of('agent', repr(text), repr(text))}: expected a command, as in cmd:python bot.py"
            )
        return AgentSpec(local_id("command", _stem(words[-1])), AgentConfig(kind="command", target=command))
    if text.startswith("recorded:"):
        file = text.removeprefix("recorded:")
        return AgentSpec(local_id("recorded", _stem(file)), AgentConfig(kind="recorded", target=file))
    if text.endswith(".json") and Path(text).suffix:
        return AgentSpec("", AgentConfig(kind="manifest", target=text))  # it contains its id
    if FUNCTION.match(text):
        return AgentSpec(local_id(*text.split(":")), AgentConfig(kind="callable", target=text))
    return None


def _address(url: str) -> str:
    """`localhost-8000-3f9a1c`: a path may hold a secret, so a digest of it tells two agents of one server apart."""
    parts = urlsplit(url)
    host, path = parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + parts.query
    digest = f"-{sha256(path.encode()).hexdigest()[:6]}" if path else ""
    return f"{'' if host[:1].isalpha() else 'at-'}{re.sub(r'[^a-z0-9]+', '-', host.lower())}{digest}"


def _stem(file: str) -> str:
    return PurePath(file).stem.replace(".", "-")


# Agents passed by the caller, in front of the configured ones.


class AgentOverlay:
    """Looks up the passed agents first, then `fallback`. It closes only `fallback`."""

    def __init__(self, agents: Iterable[Agent], fallback: Agents) -> None:
        self._agents = {agent.card.agent_id: agent for agent in agents}
        self._fallback = fallback

    def cards(self) -> list[AgentCard]:
        others = [card for card in self._fallback.cards() if card.agent_id not in self._agents]
        return [*(agent.card for agent in self._agents.values()), *others]

    def get(self, agent_id: str) -> Agent | None:
        return self._agents.get(agent_id) or self._fallback.get(agent_id)

    async def close(self) -> None:
        await self._fallback.close()
