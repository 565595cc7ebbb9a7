"""Semantic versions (SemVer 2.0.0, FEP 6.3): their form, and their order."""

import re
from collections.abc import Collection
from typing import NamedTuple

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


# Ranges of versions, as node-semver writes them: `>=1.1.0 <2.0.0`, `^1.2`, `~1.2.3`, `1.x`, `1.0 - 1.4`, `*`, and
# `||` between them.

LONGEST = 256  # characters of a range
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_PART = rf"(?:{_NUMBER}|[xX*])"
_PARTIAL = re.compile(
    rf"v?({_PART})(?:\.({_PART})(?:\.({_PART})(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)?)?\Z"
)
_OPERATOR = re.compile(r"(>=|<=|>|<|=|\^|~)\s+")  # node-semver allows spaces behind it
_COMPARATOR = re.compile(r"(>=|<=|>|<|=|\^|~|)(.*)\Z", re.DOTALL)


class _Partial(NamedTuple):
    """`1.2` has the numbers (1, 2); the rest may be anything."""

    numbers: tuple[int, ...]
    pre: str

    @property
    def first(self) -> str:
        """The lowest version of it."""
        return ".".join(map(str, (*self.numbers, 0, 0, 0)[:3])) + self.pre

    def after(self, kept: int) -> str:
        """The lowest version whose first `kept` numbers are higher. Its pre-releases are not in the range either."""
        numbers = (*self.numbers, 0, 0, 0)[:kept]
        return ".".join(map(str, (*numbers[:-1], numbers[-1] + 1, 0, 0)[:3])) + "-0"


class _Bound(NamedTuple):
    """Versions above or below one, which may belong to them."""

    above: bool
    version: str
    included: bool

    def admits(self, version: Precedence) -> bool:
        here = precedence(self.version)
        return (version == here and self.included) or (version > here if self.above else version < here)


class VersionRange:
    """A range of versions. ValueError: it is malformed."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise ValueError(f"expected at most {LONGEST} characters")
        self._alternatives = [_alternative(part) for part in text.split("||")]

    def admits(self, version: str) -> bool:
        """Whether the version is in the range. A pre-release is, only if the range names one of the same version."""
        sought = precedence(version)
        is_release = sought[1]
        for bounds in self._alternatives:
            named = is_release or any(_names_prerelease(one, version) for one in bounds)
            if named and all(one.admits(sought) for one in bounds):
                return True
        return False


def _names_prerelease(bound: _Bound, version: str) -> bool:
    plain, _, pre = bound.version.partition("-")
    return pre not in ("", "0") and version.partition("-")[0] == plain


def _alternative(text: str) -> list[_Bound]:
    left, hyphen, right = text.partition(" - ")
    if hyphen:
        return [*_bounds(">=", _partial(left.strip())), *_bounds("<=", _partial(right.strip()))]
    bounds: list[_Bound] = []
    for word in _OPERATOR.sub(r"\1", text).split():
        found = _COMPARATOR.match(word)
        assert found is not None
        bounds += _bounds(found[1] or "=", _partial(found[2]))
    return bounds


def _partial(text: str) -> _Partial:
    found = _PARTIAL.match(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no version")
    numbers: list[int] = []
    for part in found.groups()[:3]:
        if part is None or not part.isdigit():
            break
        numbers.append(int(part))
    return _Partial(tuple(numbers), found[4] or "" if len(numbers) == 3 else "")


def _bounds(operator: str, partial: _Partial) -> list[_Bound]:
    known = len(partial.numbers)
    if not known:  # `*`, `>=*`: anything; nothing is above or below it
        return [_Bound(above=False, version="0.0.0-0", included=False)] if operator in "<>" else []
    whole = known == 3
    at_least = _Bound(above=True, version=partial.first, included=True)
    match operator:
        case ">=":
            return [at_least]
        case ">":
            return [
                _Bound(above=True, version=partial.first, included=False)
                if whole
                else _Bound(above=True, version=partial.after(known).removesuffix("-0"), included=True)
            ]
        case "<":
            lowest = partial.first if partial.pre else f"{partial.first}-0" if not whole else partial.first
            return [_Bound(above=False, version=lowest, included=False)]
        case "<=":
            return [
                _Bound(above=False, version=partial.first, included=True)
                if whole
                else _Bound(above=False, version=partial.after(known), included=False)
            ]
        case "^":
            numbers = partial.numbers
            kept = next((at + 1 for at, number in enumerate(numbers) if number), known)
            return [at_least, _Bound(above=False, version=partial.after(kept), included=False)]
        case "~":
            return [at_least, _Bound(above=False, version=partial.after(min(known, 2)), included=False)]
        case _:
            if whole:
                return [at_least, _Bound(above=False, version=partial.first, included=True)]
            return [at_least, _Bound(above=False, version=partial.after(known), included=False)]
