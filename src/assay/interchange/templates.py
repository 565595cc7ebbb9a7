"""Templates of other tools: plain variables are filled in, and nothing in a template is ever run."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.interchange.imported import CannotCarry
from assay.protocol.json_types import is_list, is_mapping, is_object

_PLACE = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*|\[(?:\d+|'[^']*'|\"[^\"]*\")\])*")
_STEP = re.compile(r"[A-Za-z_$][\w$]*|\d+|'[^']*'|\"[^\"]*\"")
ROUNDS = 5  # of variables inside variables
MOST = 10_000_000  # characters of a text that is filled in


def render(template: str, variables: Mapping[str, Any]) -> str:
    """Fill in the plain variables. Raises CannotCarry for a template that has anything else."""
    if "{%" in template:
        raise CannotCarry("templates are not run: it has a {% … %} block")
    if "{#" in template:
        template = re.sub(r"\{#.*?#\}", "", template, flags=re.DOTALL)
    size = 0

    def fill(found: re.Match[str]) -> str:
        nonlocal size
        text = as_text(_lookup(found[1], variables))
        size += len(text)
        if size > MOST:
            raise CannotCarry(f"its variables fill in more than {MOST:,} characters")
        return text

    return _PLACE.sub(fill, template)


def render_inside(value: Any, variables: Mapping[str, Any]) -> Any:
    """Fill in every text of a JSON value."""
    if isinstance(value, str):
        return render(value, variables)
    if is_list(value):
        return [render_inside(one, variables) for one in value]
    if is_object(value):
        return {name: render_inside(one, variables) for name, one in value.items()}
    return value


def resolved(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables whose texts name other variables, filled in."""
    done = dict(variables)
    for _ in range(ROUNDS):
        changed = {
            name: render(one, done) if isinstance(one, str) and "{{" in one else one
            for name, one in done.items()
        }
        if changed == done:
            break
        done = changed
    return done


def _lookup(expression: str, variables: Mapping[str, Any]) -> Any:
    if not _PLAIN.fullmatch(expression):
        raise CannotCarry(f"templates are not run: {{{{ {expression[:60]} }}}} is no plain variable")
    value: Any = variables
    steps = [one.strip("'\"") for one in _STEP.findall(expression)]
    if steps[0] == "env" and "env" not in variables:
        raise CannotCarry("variables of the environment are not read")
    for step in steps:
        if is_list(value) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif is_mapping(value):
            value = value.get(step)
        else:
            value = None
    return "" if value is None else value


def as_text(value: Any) -> str:
    """A value as JavaScript writes it into a text; lists and objects as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return msgspec.json.encode(value).decode()
