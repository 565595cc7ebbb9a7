"""Reports of bugs in assay: an exception's type and places. Never its message, which may hold content."""

import logging
import traceback
from pathlib import Path

FIRST, LAST = 4, 16  # frames of a long traceback that are shown
CHAIN = 4  # exceptions that led to one another


def log_bug(logger: str, what: str, error: BaseException) -> None:
    """
    Log the traceback of a bug at error level.

    It is part of the message, not `exc_info`: whatever handler writes the record, it writes no content.
    """
    logging.getLogger(logger).error("%s failed: a bug in assay: %s", what, traceback_of(error))


def traceback_of(error: BaseException) -> str:
    """`KeyError at fep/records/kind.py:76 perform > fep/planning/plan.py:90 scorer_for`, and what led to it."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < CHAIN:
        parts.append(f"{type(cause).__name__} at {_places(cause)}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return ", after ".join(parts)


def _places(error: BaseException) -> str:
    frames = [
        f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}"
        for frame in traceback.StackSummary.extract(
            traceback.walk_tb(error.__traceback__), lookup_lines=False
        )
    ]
    if len(frames) > FIRST + LAST:
        frames = [*frames[:FIRST], f"{len(frames) - FIRST - LAST} more", *frames[-LAST:]]
    return " > ".join(frames) or "an unknown place"
