"""
The filter of ListOperations: the query parameters of REST, as `status = "running" AND since = 2026-07-01T12:00:00Z`.

A value needs quotes if it has characters other than letters, digits and `_.:+-`. A backslash escapes a quote or a
backslash.
"""

import re

from assay.errors import InvalidRequest, Problem
from assay.serve.fep.operations import FILTERS

_TERM = re.compile(r'\s*(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\["\\])*)"|(?P<plain>[\w.:+-]+))\s*')
_AND = re.compile(r"AND\b")


def read_filter(text: str) -> dict[str, str]:
    """The values by name. A name given twice is refused."""
    values: dict[str, str] = {}
    at = 0
    while text.strip() and (at == 0 or at < len(text)):
        if at and (joined := _AND.match(text, at)):
            at = joined.end()
        elif at:
            raise _invalid(text, at, "expected AND")
        term = _TERM.match(text, at)
        if term is None:
            raise _invalid(text, at, 'expected NAME = VALUE, such as status = "running"')
        name = term["name"]
        if name not in FILTERS:
            raise _invalid(text, at, f"expected one of {', '.join(FILTERS)}")
        if name in values:
            raise _invalid(text, at, f"{name} is given twice")
        quoted = term["quoted"]
        values[name] = term["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = term.end()
    return values


def _invalid(text: str, position: int, message: str) -> InvalidRequest:
    return InvalidRequest(
        Problem("filter", f"{message}, got {text[position : position + 40]!r} at {position}")
    )
