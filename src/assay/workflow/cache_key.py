"""
The cache key of a model call (openwop-contract §13.9, `openwop-semantic-request-v2`): it covers all that changes the
outcome.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from assay.errors import InvalidRequest, Problem
from assay.protocol.canonical import canonical
from assay.protocol.json_types import is_list, is_object

RECIPE = "openwop-semantic-request-v2"
NUMBERS = ("temperature", "topP", "topK", "maxOutputTokens", "seed")
OBJECTS = ("responseFormat", "safetySettings")


def cache_key(call: Mapping[str, Any]) -> str:
    """64 hex digits for a flat request, or an InvalidRequest with every problem."""
    problems = [
        Problem(name, "expected a text")
        for name in ("provider", "model")
        if not isinstance(call.get(name), str)
    ]
    if not is_list(call.get("messages")):
        problems.append(Problem("messages", "expected a list"))
    if problems:
        raise InvalidRequest(problems)
    request: dict[str, Any] = {"messages": call["messages"]}
    tools = call.get("tools")
    if is_list(tools) and tools:
        request["tools"] = sorted(tools, key=_by_name)
    for name in NUMBERS:
        if isinstance(call.get(name), int | float) and not isinstance(call[name], bool):
            request[name] = call[name]
    if is_list(call.get("stop")):
        request["stop"] = call["stop"]
    request |= {name: call[name] for name in OBJECTS if is_object(call.get(name))}
    document = {"recipe": RECIPE, "provider": call["provider"], "model": call["model"], "request": request}
    if is_object(options := call.get("providerOptions")) and options:
        document["providerOptions"] = options
    return sha256(canonical(document).encode("utf-8", "surrogatepass")).hexdigest()


def _by_name(tool: Any) -> bytes:
    name = tool.get("name", "") if is_object(tool) else ""
    return str(name).encode("utf-16-be", "surrogatepass")
