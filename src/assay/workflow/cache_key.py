"""Which answer of a model is the same answer (contract §13.9, `openwop-semantic-request-v2`): what changes the outcome counts, nothing else."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from assay.errors import InvalidRequest, Problem
from assay.protocol.canonical import canonical
from assay.protocol.json_types import is_list, is_object

RECIPE = "openwop-semantic-request-v2"
NUMBERS = ("temperature", "topP", "topK", "maxOutputTokens", "seed")
OBJECTS = ("responseFormat", "safetySettings")


def cache_key(given: Mapping[str, Any]) -> str:
    """64 hex digits of a flat request; what is wrong with it is an InvalidRequest."""
    problems = [
        Problem(name, "expected a text")
        for name in ("provider", "model")
        if not isinstance(given.get(name), str)
    ]
    if not is_list(given.get("messages")):
        problems.append(Problem("messages", "expected a list"))
    if problems:
        raise InvalidRequest(problems)
    request: dict[str, Any] = {"messages": given["messages"]}
    tools = given.get("tools")
    if is_list(tools) and tools:
        request["tools"] = sorted(tools, key=_by_name)
    for name in NUMBERS:
        if isinstance(given.get(name), int | float) and not isinstance(given[name], bool):
            request[name] = given[name]
    if is_list(given.get("stop")):
        request["stop"] = given["stop"]
    request |= {name: given[name] for name in OBJECTS if is_object(given.get(name))}
    whole = {"recipe": RECIPE, "provider": given["provider"], "model": given["model"], "request": request}
    if is_object(options := given.get("providerOptions")) and options:
        whole["providerOptions"] = options
    return sha256(canonical(whole).encode("utf-8", "surrogatepass")).hexdigest()


def _by_name(tool: Any) -> bytes:
    name = tool.get("name", "") if is_object(tool) else ""
    return str(name).encode("utf-16-be", "surrogatepass")
