"""The arguments of `compare`, `gate`, `report`, `history` and `judge_check`: each has the type that its name has."""

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from os import PathLike
from typing import Any

from assay.errors import UsageError
from assay.fep.planning.plan import is_sequence
from assay.protocol.json_types import kind_of


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _is_file(value: Any) -> bool:
    return isinstance(value, str | PathLike)


def _is_policy(value: Any) -> bool:
    return _is_file(value) or isinstance(value, Mapping)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_by(value: Any) -> bool:
    return isinstance(value, str) or (is_sequence(value) and all(map(_is_text, value)))


_Kind = tuple[Callable[[Any], bool], str]
_TEXT: _Kind = (_is_text, "a text")
_NUMBER: _Kind = (_is_number, "a number")
_WHOLE: _Kind = (_is_whole, "a whole number")
_FILE: _Kind = (_is_file, "the name of a file")
_KINDS: dict[str, _Kind] = {
    "agent": _TEXT,
    "bar": _NUMBER,
    "by": (_is_by, "the name of a member, or a list of names"),
    "check": (_is_text, "the name of a check"),
    "junit": _FILE,
    "limit": _WHOLE,
    "margin": _NUMBER,
    "markdown": _FILE,
    "max_unmeasured": _WHOLE,
    "metric": (_is_text, "the name of a metric"),
    "metrics": (_is_flag, "True or False"),
    "min_mean": _NUMBER,
    "output": _FILE,
    "policy": (_is_policy, "a file or a dictionary with rules"),
    "preset": _TEXT,
    "sarif": _FILE,
    "seed": _WHOLE,
    "standardize_by": (_is_text, "the name of a member"),
    "suite": (_is_file, "the id of a suite or a file"),
    "tenant": _TEXT,
}
_NEEDED = ("by", "limit", "suite")  # the others may be None


def check_arguments(**given: Any) -> None:
    """Refuse arguments of another type, all of them at once. Raises UsageError."""
    wrong = [
        f"{name}: expected {_KINDS[name][1]}, got {kind_of(value)}"
        for name, value in given.items()
        if (value is not None or name in _NEEDED) and not _KINDS[name][0](value)
    ]
    if wrong:
        raise UsageError(*wrong)
