"""Which events a stream carries, by its `streamMode` (openwop-contract §4.4)."""

from collections.abc import Iterable

from assay.errors import InvalidRequest, Problem

MODES = ("updates", "values", "messages", "debug")
TERMINAL = frozenset({"run.completed", "run.failed", "run.cancelled"})
SUSPENDING = frozenset({"node.suspended", "interrupt.requested"})  # a buffer is flushed before the run waits
LONGEST_BUFFER = 5_000  # milliseconds

_UPDATES = frozenset(
    {
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.suspended",
        "node.dispatched",
        "artifact.created",
        "cap.breached",
    }
)
_FAMILIES = ("run.", "approval.", "clarification.", "interrupt.", "eval.", "deployment.")


def is_update(type: str) -> bool:
    """Whether the mode `updates` carries it: a step that a person who follows the run wants to see."""
    return type in _UPDATES or type.startswith(_FAMILIES)


def carries(modes: Iterable[str], type: str) -> bool:
    """Whether any of these modes carries an event of this type."""
    return any(
        mode == "debug" or (mode == "updates" and is_update(type)) or (mode == "messages" and type == MESSAGE)
        for mode in modes
    )


MESSAGE = "ai.message.chunk"


def modes_of(text: str | None) -> tuple[str, ...]:
    """Parse `streamMode`: one mode, or several with commas; `values` must be alone."""
    if text is None:
        return ("updates",)
    modes = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not set(modes) <= set(MODES) or ("values" in modes and len(modes) > 1):
        expected = (
            f"expected one of {', '.join(MODES)}, got {text[:80]!r}; `values` cannot be combined with others"
        )
        raise InvalidRequest(Problem("streamMode", expected))
    return modes


def buffer_of(text: str | None) -> int:
    """
    Parse `bufferMs`: milliseconds, 0 to 5000. Other values are refused, not clamped (openwop-contract §12, row 11).
    """
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= LONGEST_BUFFER):
        raise InvalidRequest(
            Problem("bufferMs", f"expected a whole number from 0 to {LONGEST_BUFFER}, got {text[:40]!r}")
        )
    return int(text)
