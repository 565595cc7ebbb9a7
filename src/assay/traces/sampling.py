"""
The probability with which a sender sampled a trace, as its spans record it.

OpenTelemetry has it as the threshold `th` in the member `ot` of the W3C tracestate: up to 14 hexadecimal digits, the
share that was rejected. Other senders write the attribute `sampling.probability`. Without both it is not known.

A run of traces has a share of all traces: its senders sampled them, and so may the window of a server.
"""

from math import inf
from typing import Any

from assay.protocol.json_types import JSON, is_object
from assay.results.reasons import number_of

ATTRIBUTE = "sampling.probability"
MAX_STATE = 4_096  # characters of a tracestate that are read; W3C wants 512
_DIGITS = 14


def probability_of(state: str, attributes: JSON) -> float | None:
    """
    >>> probability_of("vendor=x,ot=rv:abcdef01234567;th:c", {})
    0.25
    """
    for member in state[:MAX_STATE].split(","):
        name, _, value = member.strip().partition("=")
        for part in value.split(";") if name == "ot" else ():
            threshold = part.removeprefix("th:")
            if (
                threshold != part
                and 0 < len(threshold) <= _DIGITS
                and not threshold.strip("0123456789abcdef")
            ):
                return 1 - int(threshold.ljust(_DIGITS, "0"), 16) / 16**_DIGITS
    number = number_of(attributes.get(ATTRIBUTE))
    return number if number is not None and 0 < number <= 1 else None


class SampledTraces:
    """Counts the traces of a run. A trace that was sampled with the probability p stands for 1/p of them."""

    __slots__ = ("_all", "_highest", "_lowest", "_results", "_stated", "window")

    def __init__(self) -> None:
        self.window: float | None = None  # the sampling rate of a window that a server received
        self._results = self._stated = 0
        self._all = 0.0
        self._lowest, self._highest = inf, 0.0

    def add(self, metadata: Any) -> None:
        """Count a result with the metadata of its output."""
        self._results += 1
        trace = metadata.get("trace") if is_object(metadata) else None
        rate = number_of(trace.get("sampling_probability")) if is_object(trace) else None
        if rate is not None and 0 < rate <= 1:
            self._stated += 1
            self._all += 1 / rate
            self._lowest, self._highest = min(self._lowest, rate), max(self._highest, rate)

    @property
    def rate(self) -> float | None:
        """None: it is not known. What a sender did is known if each of its traces says it."""
        sent = self._stated / self._all if self._stated and self._stated == self._results else None
        if self.window is None or sent is None:
            return self.window if sent is None else sent
        return self.window * sent

    @property
    def spread(self) -> tuple[float, float] | None:
        """The lowest and the highest rate of the senders, if they differ."""
        return (self._lowest, self._highest) if self._stated and self._lowest < self._highest else None
