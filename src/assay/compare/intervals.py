"""How sure we are of a rate: the Wilson score interval, which holds at 0, at 1 and for few cases."""

from math import sqrt
from statistics import NormalDist


def wilson(passed: float, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval for `passed` of `total`; of nothing at all, nothing is known: (0, 1)."""
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = passed / total
    middle = (rate + z * z / (2 * total)) / (1 + z * z / total)
    reach = z * sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return (0.0 if passed == 0 else middle - reach), (1.0 if passed == total else middle + reach)
