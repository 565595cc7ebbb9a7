"""pass@k and pass^k: does at least one of k trials of a case pass, and do all of them? Each with its interval."""

from collections.abc import Callable
from math import comb

from assay.errors import InvalidRequest
from assay.stats.intervals import Rate, Shares, mean_share


def pass_at_k(cases: Shares, k: int) -> Rate | None:
    """
    The probability that at least one of k trials of a case passes: 1 - C(n - c, k) / C(n, k) for c of n. None without
    cases.
    """
    return _rate(cases, k, lambda passed, trials: comb(trials, k) - comb(trials - passed, k), "pass@k")


def pass_all_k(cases: Shares, k: int) -> Rate | None:
    """pass^k: the probability that k trials of a case all pass, C(c, k) / C(n, k) for c of n. None without cases."""
    return _rate(cases, k, lambda passed, _: comb(passed, k), "pass^k")


def _rate(cases: Shares, k: int, passing: Callable[[int, int], int], name: str) -> Rate | None:
    """`passing`: how many of the C(n, k) draws of k trials pass."""
    least = min((trials for _, trials in cases), default=None)
    if k < 1:
        raise InvalidRequest(f"{name}: expected k of at least 1, got {k}")
    if least is None:
        return None
    if k > least:
        raise InvalidRequest(
            f"{name}: expected k of at most {least}, because a case has {least} measured "
            f"trial{'s' if least != 1 else ''}, got {k}; run more trials or choose a smaller k"
        )
    draws: dict[tuple[int, int], int] = {}
    for (passed, trials), many in cases.items():
        share = passing(passed, trials), comb(trials, k)
        draws[share] = draws.get(share, 0) + many
    return mean_share(draws, sum(trials * many for (_, trials), many in cases.items()))
