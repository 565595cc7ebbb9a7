"""Reads a list of tool calls: objects with `tool`, and optionally `arguments` and `outcome` (ok, error or refused)."""

from typing import Any

from assay.errors import ValueFault
from assay.protocol.json_types import is_object, kind_of


def read_calls(calls: list[Any]) -> list[dict[str, Any]]:
    """The calls. A ValueFault says which one is not a call."""
    for at, call in enumerate(calls):
        if not is_object(call) or not isinstance(call.get("tool"), str):
            found = "no text there" if is_object(call) else kind_of(call)
            raise ValueFault(f"tool_calls[{at}]: expected an object with the name of a `tool`, got {found}")
    return calls
