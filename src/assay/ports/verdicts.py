"""Verdicts about spans, and the backends of traces that receive them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct


class Verdict(Struct, frozen=True, kw_only=True):
    """
    What one check said about one span. `uid` is the same whenever this result is sent.

    It has no content but `explanation`, which is there only if content may leave this host.
    """

    uid: str
    run: str
    trace_id: str
    span_id: str
    name: str
    time: int  # nanoseconds since 1970
    by_model: bool = False  # a model is the judge
    label: str | None = None
    score: float | None = None
    explanation: str | None = None
    response_id: str | None = None
    error_type: str | None = None  # it was not measured


class Rejected(NamedTuple):
    """Verdicts that a receiver took and did not keep. Sending them again would not help."""

    verdicts: int
    reason: str


class VerdictReceiver(Protocol):
    """A backend of traces. `address` says where it is, without credentials."""

    @property
    def address(self) -> str: ...

    async def send(self, verdicts: Sequence[Verdict]) -> Rejected | None:
        """
        Return when the receiver has acknowledged them. It repeats what a receiver may accept later.

        EnvironmentFailure: they were not acknowledged.
        """
        ...
