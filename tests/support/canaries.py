"""Random texts planted as content, and what logs, metrics and traces say meanwhile."""

import logging
import secrets
from contextlib import contextmanager, nullcontext

from assay.ports.telemetry import telemetry

PIECE = 12  # characters of a canary by which it would be known


class Canaries:
    """Random texts, each planted in one place, and looked for in others."""

    def __init__(self):
        self.planted = {}

    def __call__(self, place):
        return self.planted.setdefault(place, secrets.token_hex(20))

    def found_in(self, text):
        return {
            place
            for place, canary in self.planted.items()
            if any(canary[at : at + PIECE] in text for at in range(len(canary) - PIECE + 1))
        }


class Spans:
    """A tracer that keeps its spans as text."""

    def __init__(self):
        self.records = []

    def span(self, name, attributes, parent=None):
        self.records.append(repr((name, dict(attributes), parent)))
        return nullcontext(self)

    def set_attribute(self, name, value):
        self.records.append(repr((name, value)))

    def close(self): ...


@contextmanager
def record_telemetry():
    """Logs, metrics and traces of what happens meanwhile, as one text."""
    lines, spans = [], Spans()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(f"{record.getMessage()} {record.__dict__}")
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    telemetry.on, telemetry.tracer = True, spans
    seen = []
    try:
        yield seen
    finally:
        telemetry.on, telemetry.tracer = False, None
        root.removeHandler(handler)
        root.setLevel(level)
        seen.append("\n".join(lines + spans.records + [repr((telemetry.counts, list(telemetry.times)))]))
