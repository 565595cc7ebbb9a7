"""Several comparisons at once: Holm's adjustment of p values, with intervals that say the same."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from assay.concurrency.loop_budget import spend
from assay.stats.paired import LEVEL, PairedResult, PairedSample

Key = TypeVar("Key", bound=Hashable)


def holm(samples: Mapping[Key, PairedSample], level: float = LEVEL) -> dict[Key, PairedResult]:
    """
    The result of each sample, with Holm's adjusted p and an adjusted interval, in the order of `samples`.

    With m samples, the one with the i-th smallest p has an interval at 1 - (1 - level) / (m - i + 1). From the first
    that does not exclude 0 on, all have the level of that one. An interval excludes 0 exactly if Holm's procedure
    rejects that the difference is 0. A sample without a p value counts as one with p = 1.
    """
    plain: dict[Key, PairedResult] = {}
    for key, sample in samples.items():
        spend()  # there may be thousands of samples
        plain[key] = sample.interval(level)
    ranked = sorted(plain, key=lambda key: _p_value(plain[key]))
    found: dict[Key, PairedResult] = {}
    adjusted, stopped_at = 0.0, None
    for rank, key in enumerate(ranked):
        spend()
        remaining = len(ranked) - rank
        adjusted = max(adjusted, min(1.0, remaining * _p_value(plain[key])))
        share = stopped_at or remaining
        result = samples[key].interval(1 - (1 - level) / share)
        if stopped_at is None and not excludes_zero(result):
            stopped_at = remaining
        found[key] = replace(result, adjusted_p=adjusted if result.p_value is not None else None)
    return {key: found[key] for key in samples}


def excludes_zero(result: PairedResult) -> bool:
    return result.low is not None and result.high is not None and (result.low > 0 or result.high < 0)


def _p_value(result: PairedResult) -> float:
    return 1.0 if result.p_value is None else result.p_value
