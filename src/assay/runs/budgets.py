"""How long a run may take and how much it may spend."""

from datetime import datetime

from assay.ports import Clock


class TimeBudget:
    """The seconds that a run has from its first start. A restart does not extend them."""

    def __init__(self, clock: Clock, start: datetime | None, seconds: float) -> None:
        """`start` None: the run starts now."""
        self._clock, self._start, self.seconds = clock, start or clock.now(), seconds

    @property
    def remaining_seconds(self) -> float:
        """Seconds that remain; 0 when the time is up."""
        return max(0.0, self.seconds - (self._clock.now() - self._start).total_seconds())


class CostBudget:
    """The dollars that a run may spend. Only known costs count. Without a `ceiling` it is never exhausted."""

    def __init__(self, ceiling: float | None = None, spent: float = 0.0) -> None:
        self.ceiling, self.spent = ceiling, spent

    @property
    def exhausted(self) -> bool:
        return self.ceiling is not None and self.spent >= self.ceiling

    def charge(self, usd: float) -> None:
        self.spent += usd
