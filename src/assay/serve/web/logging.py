"""
Log lines: one a line, as text or JSON, each with the number of its request.

No level logs content: a message of an exception may be content, and so may whatever a library says. Of other loggers than
ours nothing is written below a warning, and of a warning only its place in the code.
"""

import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

from assay.ports.audit import acting
from assay.terminal import as_json_escapes, one_line

Format = Literal["text", "json"]
OURS = "assay"
FOREIGN = logging.WARNING  # the least that is written of other loggers
PARTS = ("transport", "route", "status", "ms")  # what a line may carry beside its text


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = said(record)
        more = " ".join(
            f"{name}={parts[name]}" for name in ("request", "who", *PARTS, "error", "trace") if name in parts
        )
        line = f"{parts['time']} {parts['level']:<7} {parts['logger']}: {parts['message']}{'  ' if more else ''}{more}"
        return one_line(line)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_json_escapes(msgspec.json.encode(said(record)).decode())


def said(record: logging.LogRecord) -> dict[str, Any]:
    now = acting.get()
    parts: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": " ".join(record.getMessage().split()) if is_ours(record.name) else _place_of(record),
    }
    if now.request:
        parts |= {"request": now.request, "who": now.who}
    parts |= {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
    if record.exc_info and record.exc_info[1] is not None:
        parts |= _where(record.exc_info[1])
    return parts


def _where(surprise: BaseException) -> dict[str, Any]:
    """What failed and where: a class and places in code."""
    frames = traceback.extract_tb(surprise.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    return {"error": type(surprise).__name__, "trace": " > ".join(places)}


def is_ours(logger: str) -> bool:
    return logger == OURS or logger.startswith(f"{OURS}.")


def _place_of(record: logging.LogRecord) -> str:
    return f"said at {Path(record.pathname).name}:{record.lineno}"


def may_write(record: logging.LogRecord) -> bool:
    """Whatever level a library has set for itself."""
    return record.levelno >= FOREIGN or is_ours(record.name)


def handler(form: Format, stream: TextIO) -> logging.Handler:
    """The one through which all lines of a server go."""
    made = logging.StreamHandler(stream)
    made.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    made.addFilter(may_write)
    return made


def configure(form: Format, level: str) -> None:
    """All loggers of this process, ours and others', on standard error."""
    wanted: int = getattr(logging, level.upper())
    logging.basicConfig(handlers=[handler(form, sys.stderr)], level=max(wanted, FOREIGN), force=True)
    logging.getLogger(OURS).setLevel(wanted)
