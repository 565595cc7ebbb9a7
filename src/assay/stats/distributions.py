"""The distributions of scipy, loaded when a comparison first needs them (extra `compare`)."""

from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from assay.extras import require

FEATURE = "a comparison"


class SpecialFunctions(Protocol):
    """The functions of `scipy.special` that assay uses. They load much faster than `scipy.stats`."""

    def ndtr(self, x: float) -> float: ...
    def ndtri(self, p: float) -> float: ...
    def stdtr(self, df: float, t: float) -> float: ...
    def stdtrit(self, df: float, p: float) -> float: ...
    def nctdtr(self, df: float, nc: float, t: float) -> float: ...
    def bdtr(self, k: float, n: int, p: float) -> float: ...


@cache
def special() -> SpecialFunctions:
    require(FEATURE, "compare")
    return cast("SpecialFunctions", import_module("scipy.special"))


@cache
def numpy() -> Any:
    require(FEATURE, "compare")
    return import_module("numpy")


def normal_quantile(probability: float) -> float:
    return float(special().ndtri(probability))


def normal_tail(z: float) -> float:
    """The probability of a value above `z`."""
    return float(special().ndtr(-z))


def student_quantile(probability: float, df: float) -> float:
    return float(special().stdtrit(df, probability))


def student_tail(t: float, df: float) -> float:
    """The probability of a value above `t`."""
    return float(special().stdtr(df, -t))


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """The probability of at most so many successes."""
    return float(special().bdtr(successes, trials, probability))
