"""An agent as one gives it on the command line: `module:function`, an address, a command, a file."""

import re
import shlex
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

from assay.backends.agents.functions import local_id
from assay.errors import UsageError
from assay.ports.config import AgentConfig

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
FILE = re.compile(r"(?!cmd:|recorded:).*\.py:[A-Za-z_][\w.]*\Z")
FORMS = "module:function, file.py:function, http://…, cmd:COMMAND, ./script, recorded:FILE, a manifest.json, or the id of an agent in assay.toml"


class AgentSpec(NamedTuple):
    agent_id: str
    declared: AgentConfig


def parse_spec(what: str) -> AgentSpec | None:
    """
    What a text describes; None where it may only be an id.

        given("shop.bot:answer").agent_id == "local.shop.bot.answer"
        given("cmd:python bot.py").declared.kind == "command"
    """
    if what.startswith(("http://", "https://")):
        host = urlsplit(what).hostname or ""
        return AgentSpec(local_id("http", host.replace(".", "-")), AgentConfig(kind="http", target=what))
    if FILE.match(what):
        file, _, name = what.rpartition(":")
        return AgentSpec(local_id(_stem(file), name), AgentConfig(kind="callable", target=what))
    if what.startswith("cmd:") or (what.startswith(("./", "../", "/")) and not what.endswith(".json")):
        command = what.removeprefix("cmd:").strip()
        words = shlex.split(command)
        if not words:
            raise UsageError(f"--agent {what!r}: expected a command, as in cmd:python bot.py")
        return AgentSpec(local_id("command", _stem(words[-1])), AgentConfig(kind="command", target=command))
    if what.startswith("recorded:"):
        file = what.removeprefix("recorded:")
        return AgentSpec(local_id("recorded", _stem(file)), AgentConfig(kind="recorded", target=file))
    if what.endswith(".json") and Path(what).suffix:
        return AgentSpec("", AgentConfig(kind="manifest", target=what))  # it says its id itself
    if FUNCTION.match(what):
        return AgentSpec(local_id(*what.split(":")), AgentConfig(kind="callable", target=what))
    return None


def _stem(file: str) -> str:
    return PurePath(file).stem.replace(".", "-")
