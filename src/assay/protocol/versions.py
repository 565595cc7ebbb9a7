"""Semantic versions (SemVer 2.0.0, FEP 6.3): their form, and their order."""

import re
from collections.abc import Collection

from assay.lazy_pattern import lazy_pattern

SEMVER = (  # as the text has it (FEP 5.1)
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
_semver = lazy_pattern(SEMVER, re.ASCII)
_DIGITS = 4_300  # Python reads no longer integer
Precedence = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def is_version(text: str) -> bool:
    return _semver.fullmatch(text) is not None


def precedence(version: str) -> Precedence:
    """
    A key to sort by: a pre-release comes before its release, and numbers before texts. Build metadata do not count.

        precedence("1.0.0-rc.1") < precedence("1.0.0") < precedence("1.0.1")
    """
    plain, _, pre = version.partition("+")[0].partition("-")
    parts = tuple(
        (not part.isdigit(), _number(part) if part.isdigit() else 0, part)
        for part in (pre.split(".") if pre else ())
    )
    return tuple(map(_number, plain.split("."))), not pre, parts


def newest(versions: Collection[Precedence]) -> Precedence:
    """The newest release, or the newest pre-release if there is no release."""
    return max([version for version in versions if version[1]] or versions)


def _number(digits: str) -> int:
    return int(digits[:_DIGITS])
