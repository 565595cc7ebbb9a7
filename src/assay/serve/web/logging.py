"""
Log lines as text or JSON, one record a line, each with the id of its request.

No level logs content. The message of an exception may be content, and so may the message of a library: of loggers other
than ours, nothing below a warning is written, and of a warning only its place in the code.
"""

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

from assay.ports.audit import acting
from assay.ports.bugs import traceback_of
from assay.terminal import as_json_escapes, one_line

Format = Literal["text", "json"]
OURS = "assay"
FOREIGN = logging.WARNING  # the lowest level that is written of other loggers
PARTS = ("transport", "route", "status", "ms")  # fields that a record may carry in addition to its message


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = fields_of(record)
        more = " ".join(
            f"{name}={parts[name]}" for name in ("request", "who", *PARTS, "error") if name in parts
        )
        line = f"{parts['time']} {parts['level']:<7} {parts['logger']}: {parts['message']}{'  ' if more else ''}{more}"
        return one_line(line)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_json_escapes(msgspec.json.encode(fields_of(record)).decode())


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    now = acting.get()
    parts: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": " ".join(record.getMessage().split()) if is_ours(record.name) else _call_site(record),
    }
    if now.request:
        parts |= {"request": now.request, "who": now.who}
    parts |= {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
    if record.exc_info and record.exc_info[1] is not None:
        parts["error"] = traceback_of(record.exc_info[1])
    return parts


def is_ours(logger: str) -> bool:
    return logger == OURS or logger.startswith(f"{OURS}.")


def _call_site(record: logging.LogRecord) -> str:
    return f"logged at {Path(record.pathname).name}:{record.lineno}"


def may_write(record: logging.LogRecord) -> bool:
    """Filters the records of libraries, whatever level they have set for themselves."""
    return record.levelno >= FOREIGN or is_ours(record.name)


def handler(form: Format, stream: TextIO) -> logging.Handler:
    """The handler that writes all log lines of a server."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(may_write)
    return handler


def configure(form: Format, level: str) -> None:
    """
    Send all loggers of this process, ours and those of libraries, to one stream.

    Text is for a person: it goes to standard error. JSON is for a collector: it goes to standard output.
    """
    threshold: int = getattr(logging, level.upper())
    written = handler(form, sys.stdout if form == "json" else sys.stderr)
    logging.basicConfig(handlers=[written], level=max(threshold, FOREIGN), force=True)
    logging.getLogger(OURS).setLevel(threshold)


def message(message: str, *, is_problem: bool) -> None:
    """Write what a server says to its operator, at every level: that it listens, or has stopped."""
    level = logging.WARNING if is_problem else logging.INFO
    record = logging.LogRecord(f"{OURS}.server", level, "", 0, message, None, None)
    for one in logging.getLogger().handlers:
        one.handle(record)
