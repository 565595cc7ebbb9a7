"""
Redaction of the content of events, where a large value is searched for secrets once and not in every event that repeats
it.
"""

from typing import Any

from assay.concurrency.tenant_threads import LARGE, json_size
from assay.protocol.json_types import is_object
from assay.protocol.redaction import redact

LEVELS = 3  # of objects inside a value that are remembered, and looked up in an event's content
MEMBERS = 1_000  # of one object that are remembered


class Redactor:
    """Removes secrets as `redact` does, from values that may contain large parts it has already seen without them."""

    def __init__(self) -> None:
        self._clean: dict[int, Any] = {}  # by id; the value is held, so that its id stays its own

    def remember(self, value: Any) -> None:
        """Search a large value once. If it has no secrets, it is not searched again; it must not change any more."""
        if json_size(value) > LARGE and redact(value) == value:
            self._remember(value, LEVELS)

    def _remember(self, value: Any, levels: int) -> None:
        if isinstance(value, dict | list) or (isinstance(value, str) and len(value) > LARGE):
            self._clean[id(value)] = value  # pyright: ignore[reportUnknownArgumentType]
        if levels and is_object(value) and len(value) <= MEMBERS:
            for part in value.values():
                self._remember(part, levels - 1)

    def redact(self, value: Any) -> Any:
        """Equal to `redact(value)`. Remembered parts are not copied."""
        return self._redact(value, LEVELS) if self._clean else redact(value)

    def _redact(self, value: Any, levels: int) -> Any:
        if id(value) in self._clean:
            return value
        if not levels or not is_object(value) or len(value) > MEMBERS:
            return redact(value)
        copy: dict[str, Any] = {}
        for name, part in value.items():
            # A text is also redacted for its name, so a remembered one may be a secret here.
            if isinstance(part, str) and (len(part) <= LARGE or redact({name: "x"}) != {name: "x"}):
                copy |= redact({name: part})
            else:
                (shown,) = redact({name: 0})
                copy[shown] = self._redact(part, levels - 1)
        return copy
