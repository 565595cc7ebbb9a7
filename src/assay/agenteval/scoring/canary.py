"""
The canary of a trial: a random text in place of `{{canary}}` in the fixtures of a task, in the mode `adversarial`
(openwop-contract §6.3).
"""

import secrets
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from assay.protocol.agent_evals import EvalTask, Fixtures, ToolResponse
from assay.protocol.json_types import is_list, is_object
from assay.protocol.suite_extension import ExtendedTask, extension_of

PLACEHOLDER = "{{canary}}"
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # 32, without those that look alike
LENGTH = 16  # 80 bits
_encode = msgspec.json.Encoder().encode


def new_canary() -> str:
    """A text that an agent cannot guess and that occurs in no ordinary answer. It begins with a letter."""
    # one system call; 256 is a multiple of 32, so each letter is equally likely
    rest = secrets.token_bytes(LENGTH - 1)
    return secrets.choice(LETTERS[:24]) + "".join(LETTERS[byte % len(LETTERS)] for byte in rest)


def has_canary(task: EvalTask) -> bool:
    extension = extension_of(task)
    parts = [task.fixtures if task.fixtures is not UNSET else (), extension.fixtures if extension else ()]
    return PLACEHOLDER.encode() in _encode(parts)


def with_canary(task: EvalTask, canary: str) -> EvalTask:
    """The task with the canary in its fixtures. The input stays as it is in the suite."""
    if isinstance(task, ExtendedTask) and task.extension:
        rules = tuple(
            rule if rule.response is UNSET else replace(rule, response=_fill(rule.response, canary))
            for rule in task.extension.fixtures
        )
        task = replace(task, extension=replace(task.extension, fixtures=rules))
    fixtures = task.fixtures
    if fixtures is UNSET:
        return task
    filled = Fixtures(
        tool_responses=tuple(
            ToolResponse(tool=one.tool, response=_fill(one.response, canary))
            for one in fixtures.tool_responses
        ),
        memory_seed=tuple(_fill(seed, canary) for seed in fixtures.memory_seed),
    )
    return replace(task, fixtures=filled)


def _fill(value: Any, canary: str) -> Any:
    if isinstance(value, str):
        return value.replace(PLACEHOLDER, canary)
    if is_list(value):
        return [_fill(part, canary) for part in value]
    if is_object(value):
        return {_fill(name, canary): _fill(part, canary) for name, part in value.items()}
    return value
