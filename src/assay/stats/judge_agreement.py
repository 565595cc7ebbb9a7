"""
Agreement between judges, or between a judge and people: Cohen's kappa and Krippendorff's alpha.

Both compare the agreement with that of chance. If all answers are in one category, chance agrees too: they are
undefined.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import fsum, hypot, sqrt

from msgspec import Struct

from assay.errors import InvalidRequest
from assay.stats.distributions import normal_quantile
from assay.stats.intervals import CONFIDENCE, UNIT, Mean, Range, mean_of
from assay.stats.paired import LEVEL

ONE_CATEGORY = "undefined: all answers are in one category, so agreement by chance is certain"
NO_PAIRS = "undefined: no case has two answers"


class Agreement(Struct, frozen=True):
    """
    `value` is 1 for full agreement, 0 for that of chance. If it is None, `reason` says why.

    `observed` is the share of pairs of answers that agree. `low` and `high` are the interval of Cohen's kappa.
    """

    value: float | None
    observed: float | None
    cases: int
    low: float | None = None
    high: float | None = None
    reason: str = ""


def cohen_kappa(pairs: Iterable[tuple[Hashable, Hashable]], level: float = LEVEL) -> Agreement:
    """
    Cohen's kappa of two raters, from both answers to each case.

    The interval uses the variance of Fleiss, Cohen and Everitt (1969), within -1 and 1. It has no width at full
    agreement and is then left out.
    """
    table = Counter(pairs)
    total = sum(table.values())
    if not total:
        return Agreement(None, None, 0, reason=NO_PAIRS)
    rows, columns = Counter[Hashable](), Counter[Hashable]()
    for (one, other), many in table.items():
        rows[one] += many
        columns[other] += many
    observed = sum(many for (one, other), many in table.items() if one == other) / total
    chance = sum(many * columns[one] for one, many in rows.items()) / total**2
    if len(rows.keys() | columns.keys()) == 1:
        return Agreement(None, observed, total, reason=ONE_CATEGORY)
    kappa = (observed - chance) / (1 - chance)
    variance = _kappa_variance(table, rows, columns, kappa, chance)
    if variance < 1e-12 or observed == 1:  # without width, as if one rater always says the same
        return Agreement(kappa, observed, total)
    reach = normal_quantile((1 + level) / 2) * sqrt(variance)
    return Agreement(kappa, observed, total, max(-1.0, kappa - reach), min(1.0, kappa + reach))


def _kappa_variance(
    table: Mapping[tuple[Hashable, Hashable], int],
    rows: Mapping[Hashable, int],
    columns: Mapping[Hashable, int],
    kappa: float,
    chance: float,
) -> float:
    total = sum(table.values())
    diagonal = others = 0.0
    for (one, other), many in table.items():
        share = many / total
        if one == other:
            diagonal += share * (1 - (rows[one] + columns[one]) / total * (1 - kappa)) ** 2
        else:
            others += share * ((columns.get(one, 0) + rows.get(other, 0)) / total) ** 2
    rest = (kappa - chance * (1 - kappa)) ** 2
    return (diagonal + (1 - kappa) ** 2 * others - rest) / ((1 - chance) ** 2 * total)


def krippendorff_alpha(cases: Iterable[Sequence[Hashable]]) -> Agreement:
    """
    Krippendorff's alpha for answers in categories, from all answers to each case; a missing answer is left out.

    A case with fewer than two answers has no pairs and does not count.
    """
    within = 0.0
    totals = Counter[Hashable]()
    counted = agreeing = pairs = 0
    for answers in cases:
        size = len(answers)
        if size < 2:
            continue
        counts = Counter(answers)
        within += _unequal_pairs(counts) / (size - 1)
        agreeing += sum(many * (many - 1) for many in counts.values())
        pairs += size * (size - 1)
        totals.update(counts)
        counted += 1
    if not pairs:
        return Agreement(None, None, 0, reason=NO_PAIRS)
    if len(totals) == 1:
        return Agreement(None, 1.0, counted, reason=ONE_CATEGORY)
    chance = _unequal_pairs(totals) / (sum(totals.values()) - 1)
    return Agreement(1 - within / chance, agreeing / pairs, counted)


def _unequal_pairs(counts: Mapping[Hashable, int]) -> int:
    """The number of ordered pairs of unequal answers."""
    size = sum(counts.values())
    return size * size - sum(many * many for many in counts.values())


# The mean of a judge corrected by human labels (PPI++: A. Angelopoulos, J. Duchi, T. Zrnic, 2023).


class Label(Struct, frozen=True):
    """A case with a human label: what the judge said, and what the person said, from 0 to 1."""

    judged: float
    human: float


class CorrectedMean(Struct, frozen=True):
    """
    `mean` is corrected, `uncorrected` is the judge's own.

    `bias` is judge minus person, over the labels. Each has its 95% limits.

    `weight` is the share of the judge's information that is used (lambda).
    """

    mean: float
    low: float
    high: float
    uncorrected: float
    bias: float
    bias_low: float
    bias_high: float
    weight: float
    labels: int
    cases: int
    level: float


def corrected_mean(
    judged: Sequence[float], labels: Sequence[Label], *, weight: float | None = None
) -> CorrectedMean:
    """
    The mean over all cases as people would have judged them. `judged` are the judgements of all cases, labelled or not.

    `weight` replaces the one that makes the interval shortest: 0 uses the labels alone, 1 trusts the judge fully.
    """
    cases, count = len(judged), len(labels)
    if not count or count > cases:
        raise InvalidRequest(f"expected 1 to {cases} labels, one for each case at most, got {count}")
    for value in (*judged, *(value for one in labels for value in (one.judged, one.human))):
        if not 0 <= value <= 1:
            raise InvalidRequest(f"expected scores from 0 to 1, got {value:g}")
    weight = _best_weight(labels) if weight is None else weight
    machine, machine_low, machine_high = _limits(judged, UNIT)
    rest, rest_low, rest_high = _limits([one.human - weight * one.judged for one in labels], (-weight, 1.0))
    bias, bias_low, bias_high = _limits([one.judged - one.human for one in labels], (-1.0, 1.0))
    mean = min(1.0, max(0.0, rest + weight * machine))
    return CorrectedMean(
        mean=mean,
        low=max(0.0, mean - hypot(rest - rest_low, weight * (machine - machine_low))),
        high=min(1.0, mean + hypot(rest_high - rest, weight * (machine_high - machine))),
        uncorrected=machine,
        bias=bias,
        bias_low=bias_low,
        bias_high=bias_high,
        weight=weight,
        labels=count,
        cases=cases,
        level=CONFIDENCE,
    )


def _limits(values: Sequence[float], limits: Range) -> tuple[float, float, float]:
    """The mean of the values, and its limits. A value may leave the range by a rounding error."""
    found: Mean = mean_of([min(max(value, limits[0]), limits[1]) for value in values], len(values), limits)
    assert found.low is not None
    assert found.high is not None
    return found.mean, found.low, found.high


def _best_weight(labels: Sequence[Label]) -> float:
    """Covariance of person and judge over the judge's variance, from 0 to 1. 0 if the judge never varies."""
    people = fsum(one.human for one in labels) / len(labels)
    machine = fsum(one.judged for one in labels) / len(labels)
    spread = fsum((one.judged - machine) ** 2 for one in labels)
    if not spread:
        return 0.0
    together = fsum((one.human - people) * (one.judged - machine) for one in labels)
    return min(1.0, max(0.0, together / spread))
