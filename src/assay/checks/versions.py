"""Semantic versions (FEP 6.3), to select the version of a check (FEP-37)."""

import re
from collections.abc import Collection

from assay.lazy_pattern import lazy_pattern

_SEMVER = lazy_pattern(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)

Version = tuple[int, int, int, tuple[tuple[int, int, str], ...]]
_RELEASE = ((2, 0, ""),)  # sorts after every pre-release


def parse(text: str) -> Version | None:
    """A sort key by SemVer 2.0, or None if the text is not a version. Build metadata is ignored."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        return None
    major, minor, patch, pre = match.groups()
    return int(major), int(minor), int(patch), tuple(map(_identifier, pre.split("."))) if pre else _RELEASE


def newest(versions: Collection[Version]) -> Version:
    """The newest release, or the newest pre-release if there is no release."""
    return max([version for version in versions if version[3] == _RELEASE] or versions)


def _identifier(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)
