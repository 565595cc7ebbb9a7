"""What an agent may call: names that can stand in an event, and arguments as JSON."""

import re
from typing import Any

import msgspec

from assay.ports.agents import ToolFailure
from assay.protocol.json_types import is_deeper, is_finite, is_object
from assay.protocol.redaction import redact_text

TOOL = re.compile(r"\S{1,256}")
AGENT = re.compile(r"[\w.:@/-]{3,256}")


def fits(form: re.Pattern[str], name: object) -> bool:
    """Whether a name from an agent may stand in an event: it has the form, and no secret."""
    if not isinstance(name, str) or not name.isprintable() or form.fullmatch(name) is None:
        return False
    return redact_text(name) == name


def json_arguments(arguments: Any, max_depth: int) -> dict[str, Any]:
    """A copy of the arguments as JSON, so that later changes by the caller have no effect."""
    if not is_object(arguments) or not is_finite(arguments):
        raise ToolFailure("invalid_arguments", "expected an object of JSON values as arguments")
    try:
        plain = msgspec.json.decode(msgspec.json.encode(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise ToolFailure("invalid_arguments", f"expected JSON values as arguments: {wrong}") from None
    if is_deeper(plain, max_depth):
        raise ToolFailure("invalid_arguments", f"expected arguments that are nested at most {max_depth} deep")
    return plain
