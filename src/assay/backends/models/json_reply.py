"""Parses the JSON value in a completion (FEP-25). Anything but exactly one value is a problem; assay does not guess."""

import json
import re
from collections import Counter
from typing import Any

import msgspec

THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)  # some models show them before the answer
FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)


def read_value(text: str) -> tuple[Any, str | None]:
    """
    The value and no problem, or unset and what is wrong.

        read_value('{"passed": true}') == ({"passed": True}, None)
        read_value('{"passed": true, "passed": false}')[1] == "has the member 'passed' twice"
    """
    text = THOUGHTS.sub("", text, count=1)
    if fenced := FENCE.match(text):
        text = fenced[1]
    try:
        return _decode(text), None
    except json.JSONDecodeError as wrong:
        return msgspec.UNSET, f"is not JSON: {wrong.msg} at character {wrong.pos}"
    except RecursionError:
        return msgspec.UNSET, "is nested too deeply"
    except ValueError as wrong:
        return msgspec.UNSET, str(wrong)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, many in counts.items() if many > 1)
        raise ValueError(f"has the member {twice!r} twice")
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"contains {name}, which is not a JSON number")


_decode = json.JSONDecoder(object_pairs_hook=_unique_members, parse_constant=_no_number).decode
