"""
How two JSON values are compared: with additional members or without, lists in order or in any, numbers with tolerances.

A tolerance belongs to numbers of the expected value, which a path finds.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from assay import jsonpath as paths
from assay.checks.pairing import pair
from assay.protocol.json_types import is_list, is_object

DEPTH = 50  # below which values are compared as wholes
SHOWN = 120  # characters of a value in a difference
Share = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]


class Tolerance(Struct, frozen=True, forbid_unknown_fields=True):
    """How far a number may be from the expected one; the larger of the two counts."""

    absolute: Share = 0
    relative: Share = 0

    def __str__(self) -> str:
        share = f"{self.relative:g} of it" if self.relative else ""
        return " or ".join(filter(None, (f"{self.absolute:g}" if self.absolute else "", share)))


Tolerances = dict[str, Share | Tolerance]


class Rules(NamedTuple):
    subset: bool = False
    ordered: bool = True


class _Whole(int):
    tolerance: Tolerance | None = None


class _Real(float):
    tolerance: Tolerance | None = None


def with_tolerances(expected: Any, tolerances: Mapping[str, Any]) -> Any:
    """The expected value, in which each number that a path finds, or that is below what it finds, has its tolerance."""
    copy = _copy(expected)
    for path, given in tolerances.items():
        read = msgspec.convert(given, Share | Tolerance)
        tolerance = read if isinstance(read, Tolerance) else Tolerance(absolute=read)
        for number in _numbers(paths.compile(path).values(copy)):
            number.tolerance = tolerance
    return copy


def _copy(value: Any) -> Any:
    if is_object(value):
        return {name: _copy(one) for name, one in value.items()}
    if is_list(value):
        return [_copy(one) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return _Whole(value) if isinstance(value, int) else _Real(value)


def _numbers(value: Any) -> Iterator[_Whole | _Real]:
    if isinstance(value, _Whole | _Real):
        yield value
    elif is_object(value) or is_list(value):
        for one in value.values() if is_object(value) else value:
            yield from _numbers(one)


def fits(expected: Any, actual: Any, rules: Rules) -> bool:
    """Whether the actual value is the expected one by these rules."""
    if is_object(expected) and is_object(actual):
        if not rules.subset and len(expected) != len(actual):
            return False
        return all(name in actual and fits(expected[name], actual[name], rules) for name in expected)
    if is_list(expected) and is_list(actual):
        if len(expected) != len(actual):
            return False
        if rules.ordered:
            return all(fits(left, right, rules) for left, right in zip(expected, actual, strict=True))
        return len(_pairs(expected, actual, rules)) == len(expected)
    return _same(expected, actual)


def differences(expected: Any, actual: Any, rules: Rules, path: str = "$", depth: int = 0) -> Iterator[str]:
    """`$.total: expected 12, got 13`, one line for each place."""
    if depth < DEPTH and is_object(expected) and is_object(actual):
        for name, value in expected.items():
            at = f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"
            if name not in actual:
                yield f"{at}: expected {_short(value)}, got nothing"
            else:
                yield from differences(value, actual[name], rules, at, depth + 1)
        for name in () if rules.subset else actual.keys() - expected.keys():
            yield f"{path}.{name}: expected nothing, got {_short(actual[name])}"
    elif is_list(expected) and is_list(actual):
        yield from _list_differences(expected, actual, rules, path, depth)
    elif not _same(expected, actual):
        tolerance = getattr(expected, "tolerance", None)
        within = f" within {tolerance}" if tolerance is not None and str(tolerance) else ""
        yield f"{path}: expected {_short(expected)}{within}, got {_short(actual)}"


def _list_differences(
    expected: list[Any], actual: list[Any], rules: Rules, path: str, depth: int
) -> Iterator[str]:
    if not rules.ordered:
        pairs = _pairs(expected, actual, rules)
        taken = set(pairs.values())
        for at, one in enumerate(expected):
            if at not in pairs:
                yield f"{path}: lacks {_short(one)}"
        for at, one in enumerate(actual):
            if at not in taken:
                yield f"{path}: expected no item {_short(one)}"
        return
    if len(expected) != len(actual):
        yield f"{path}: expected a list of {len(expected)}, got a list of {len(actual)}"
    for at, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if depth < DEPTH:
            yield from differences(left, right, rules, f"{path}[{at}]", depth + 1)
        elif not _same(left, right):
            yield f"{path}[{at}]: expected {_short(left)}, got {_short(right)}"


def _pairs(expected: list[Any], actual: list[Any], rules: Rules) -> dict[int, int]:
    return pair([[at for at, one in enumerate(actual) if fits(wanted, one, rules)] for wanted in expected])


def _same(expected: Any, actual: Any) -> bool:
    """Whether two values are equal, or are numbers within the tolerance of the first."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    tolerance = getattr(expected, "tolerance", None)
    if tolerance is not None and isinstance(actual, int | float):
        from assay.checks.standard.decimals import decimal_of, is_near  # deferred import: few have tolerances

        left, right = decimal_of(_plain(expected)), decimal_of(actual)
        return is_near(right, left, tolerance.absolute, tolerance.relative)
    return expected == actual


def _plain(number: int | float) -> int | float:
    return int(number) if isinstance(number, int) else float(number)


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
