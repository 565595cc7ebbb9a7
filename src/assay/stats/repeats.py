"""pass@k and pass^k: does at least one of k trials of a case pass, and do all of them? Each with its interval."""

from collections.abc import Callable, Mapping
from math import comb, fsum

from assay.errors import InvalidRequest
from assay.stats.intervals import Rate, clustered_rate

Trials = Mapping[tuple[int, int], int]  # from (passed, trials) of a case to the number of such cases


def pass_at_k(cases: Trials, k: int) -> Rate | None:
    """The probability that at least one of k trials of a case passes: 1 - C(n - c, k) / C(n, k) for c of n. None without cases."""
    return _rate(cases, k, lambda passed, trials: 1 - comb(trials - passed, k) / comb(trials, k), "pass@k")


def pass_all_k(cases: Trials, k: int) -> Rate | None:
    """pass^k: the probability that k trials of a case all pass, C(c, k) / C(n, k) for c of n. None without cases."""
    return _rate(cases, k, lambda passed, trials: comb(passed, k) / comb(trials, k), "pass^k")


def _rate(cases: Trials, k: int, estimate: Callable[[int, int], float], name: str) -> Rate | None:
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
    rates: dict[float, int] = {}
    for (passed, trials), many in cases.items():
        rate = estimate(passed, trials)
        rates[rate] = rates.get(rate, 0) + many
    count = sum(rates.values())
    answers = sum(trials * many for (_, trials), many in cases.items())
    return clustered_rate(fsum(rate * many for rate, many in rates.items()) / count, rates, answers)
