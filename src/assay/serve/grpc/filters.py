"""
The filter of ListOperations: what REST has in its query, `status = "running" AND since = 2026-07-01T12:00:00Z`.

A value with anything but letters, digits and `_.:+-` in it stands in quotes, a quote or a backslash in it behind a backslash.
"""

import re

from assay.errors import InvalidRequest, Problem
from assay.serve.fep.operations import FILTERS

_TERM = re.compile(r'\s*(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\["\\])*)"|(?P<plain>[\w.:+-]+))\s*')
_AND = re.compile(r"AND\b")


def read_filter(text: str) -> dict[str, str]:
    """By name, each at most once."""
    found: dict[str, str] = {}
    at = 0
    while text.strip() and (at == 0 or at < len(text)):
        if at and (joined := _AND.match(text, at)):
            at = joined.end()
        elif at:
            raise _wrong(text, at, "expected AND")
        term = _TERM.match(text, at)
        if term is None:
            raise _wrong(text, at, 'expected NAME = VALUE, such as status = "running"')
        name = term["name"]
        if name not in FILTERS:
            raise _wrong(text, at, f"no {name[:40]!r}; there are {', '.join(FILTERS)}")
        if name in found:
            raise _wrong(text, at, f"{name} is given twice")
        quoted = term["quoted"]
        found[name] = term["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = term.end()
    return found


def _wrong(text: str, at: int, why: str) -> InvalidRequest:
    return InvalidRequest(Problem("filter", f"{why}, got {text[at : at + 40]!r} at {at}"))
