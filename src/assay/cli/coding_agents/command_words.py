"""The words of a command for a call of a tool, and its messages in the words of the call."""

import re
import shlex
from typing import Any

import msgspec

from assay.cli.coding_agents.jobs import CallRefused
from assay.cli.coding_agents.tool_table import Tool
from assay.protocol.json_types import is_list, is_object


def options_of(values: dict[str, Any]) -> list[str]:
    """`--name=value`: a value is never taken for an option."""
    words: list[str] = []
    for name, value in values.items():
        several: list[Any] = value if is_list(value) else [value]
        words += [f"--{name}={one}" for one in several if one is not None]
    return words


def path_of_agent(agent: str | None) -> str | None:
    """The file that a spec of an agent names, if it names one."""
    if agent is None or agent.startswith(("http://", "https://", "cmd:")):
        return None
    if agent.startswith("recorded:"):
        return agent.removeprefix("recorded:")
    if re.search(r"\.py:[A-Za-z_][\w.]*\Z", agent):
        return agent.rpartition(":")[0]
    if agent.startswith(("./", "../", "/")) and not agent.endswith(".json"):
        try:
            return next(iter(shlex.split(agent)), None)
        except ValueError:
            return agent
    return agent if agent.endswith(".json") else None


def in_words_of(tool: Tool, text: str) -> str:
    """The text with the arguments of the tool in place of the options of the command: `max_cost` for --max-cost."""
    names = {field.encode_name for field in msgspec.structs.fields(tool.arguments)}
    singular = {"task": "tasks", "as": "kind"}

    def rename(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]  # a command as it is typed
        name = found[1].replace("-", "_")
        name = singular.get(name, name)
        return name if name in names else found[0]

    text = text.replace(
        "`assay list` shows the stored runs", "an id, a name, `latest` or `previous` names one"
    )
    return re.sub(r"assay [a-z]+ [^;`\n]*|(?<![\w-])--([a-z][a-z-]*[a-z])", rename, text)


def refuse_unwritable(place: str, value: Any) -> None:
    """Refuse texts that are no words of a command: with a NUL character, or with half of a character."""
    texts = [*value, *value.values()] if is_object(value) else value if is_list(value) else [value]
    for one in texts:
        if is_object(one) or is_list(one):
            refuse_unwritable(place, one)
        elif isinstance(one, str) and ("\0" in one or not _is_text(one)):
            raise CallRefused(
                f"{place}: expected texts without NUL and of whole characters, got {one[:40]!a}"
            )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
