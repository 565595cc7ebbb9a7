"""Log lines: one a line, as text or JSON, each with the number of its request; never a message of an exception, which may be content."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.ports.audit import acting
from assay.terminal import as_json_escapes, one_line

Format = Literal["text", "json"]
PARTS = ("transport", "route", "status", "ms")  # what a line may carry beside its text


class Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = said(record)
        more = " ".join(
            f"{name}={parts[name]}" for name in ("request", "who", *PARTS, "error", "trace") if name in parts
        )
        line = f"{parts['time']} {parts['level']:<7} {parts['logger']}: {parts['message']}{'  ' if more else ''}{more}"
        return one_line(line)


class Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_json_escapes(msgspec.json.encode(said(record)).decode())


def said(record: logging.LogRecord) -> dict[str, Any]:
    now = acting.get()
    parts: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": " ".join(record.getMessage().split()),
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


def configure(form: Format, level: str) -> None:
    """All loggers of this process, ours and others', on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Text())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
