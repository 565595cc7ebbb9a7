"""
The words of a refusal for the caller who reads it.

One sentence names an option of the command, an argument of the library, or a member of a request: `--by topic`,
`by='topic'` and `by=topic` are one thing. The command and the server say who they are; all other callers use the
library.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from shlex import quote
from typing import Literal, NamedTuple

Door = Literal["command", "library", "request"]
_door: ContextVar[Door] = ContextVar("door", default="library")


class PolicyRules(NamedTuple):
    """The rules that a policy has, and what it is called."""

    name: str
    members: frozenset[str]


_policy: ContextVar[PolicyRules | None] = ContextVar("policy", default=None)


@contextmanager
def rules_of(name: str, members: Iterable[str]) -> Generator[None]:
    """Within it, a problem of one of these rules stands in the policy, not in an option."""
    token = _policy.set(PolicyRules(name, frozenset(members)))
    try:
        yield
    finally:
        _policy.reset(token)


def enter(door: Door) -> None:
    """Say which door the caller uses, for this context and those that it starts."""
    _door.set(door)


def place_of(option: str, value: object = None) -> str:
    """
    The place of a problem: `--by`, or `--by topic` with what was given; `by`, or `by='topic'`, in the library. That of
    a rule is its policy: `gate.yaml: by topic`.
    """
    policy, member = _policy.get(), _argument(option)
    if policy is not None and member in policy.members:
        return f"{policy.name}: {member}" if value is None else f"{policy.name}: {member} {value}"
    return hint_of(option, value) if value is not None or _door.get() == "command" else _argument(option)


def hint_of(option: str, value: object = None, code: str | None = None) -> str:
    """
    What a caller may give: `--min-mean`, or `--metric CHECK` with a value. In the library: `min_mean=`, or
    `metric='CHECK'`.

    `code` is the value in the library if it is not a text, such as `True` for `--allow-partial`.
    """
    door, given = _door.get(), "" if value is None else f"{value}"
    if door == "command":
        return f"--{option} {given}" if given else f"--{option}"
    if door == "library":
        return f"{_argument(option)}={code if code is not None else repr(value) if given else ''}"
    return f"{_argument(option)}={given}" if given else _argument(option)


def verb_of(name: str) -> str:
    """What does a job: `assay compare`, or `assay.compare` of the library."""
    return f"assay.{name}" if _door.get() == "library" else f"assay {name}"


def columns_of(columns: dict[str, str]) -> str:
    """The columns of a table as a caller names them: `--map input=question`, or `map={'input': 'question'}`."""
    if _door.get() == "command":
        return " ".join(f"--map {target}={quote(column)}" for target, column in columns.items())
    return f"map={columns}"


def _argument(option: str) -> str:
    return option.replace("-", "_")
