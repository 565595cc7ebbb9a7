"""How long a run may take and how much it may spend."""

from collections.abc import Callable, Mapping
from datetime import datetime
from reprlib import repr as brief
from typing import Any

from assay.errors import Problem
from assay.ports import Clock
from assay.ports.kinds import PRIORITIES
from assay.protocol.json_types import is_object


class TimeBudget:
    """The seconds that a run has from its first start. A restart does not extend them."""

    def __init__(self, clock: Clock, start: datetime | None, seconds: float) -> None:
        """`start` None: the run starts now."""
        self._clock, self._start, self.seconds = clock, start or clock.now(), seconds
        self._over = False

    def end(self) -> None:
        """A timer of `remaining_seconds` has fired. The clock of a store may say a little later that some remain."""
        self._over = True

    @property
    def remaining_seconds(self) -> float:
        """Seconds that remain; 0 when the time is up."""
        return (
            0.0 if self._over else max(0.0, self.seconds - (self._clock.now() - self._start).total_seconds())
        )


class CostBudget:
    """The dollars that a run may spend. Only known costs count. Without a `ceiling` it is never exhausted."""

    def __init__(self, ceiling: float | None = None, spent: float = 0.0) -> None:
        self.ceiling, self.spent = ceiling, spent

    @property
    def exhausted(self) -> bool:
        return self.ceiling is not None and self.spent >= self.ceiling

    def charge(self, usd: float) -> None:
        self.spent += usd


# Validation of the options of a run (`configurable`, openwop-contract §3.1).

MINIMUM = {"recursionLimit": 1, "runTimeoutMs": 1, "maxLoopIterations": 1}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (lambda value: isinstance(value, str) and value != "", "the name of a model, PROVIDER:MODEL"),
    "temperature": (lambda value: _number(value) and 0 <= value <= 2, "a number from 0 to 2"),
    "maxTokens": (
        lambda value: isinstance(value, int) and _number(value) and value >= 1,
        "a whole number from 1",
    ),
    "priority": (
        lambda value: isinstance(value, int) and _number(value) and value in PRIORITIES,
        f"a whole number from {PRIORITIES[0]} to {PRIORITIES[-1]}; units of a lower number start first",
    ),
    "promptOverrides": (
        lambda value: is_object(value) and all(isinstance(text, str) for text in value.values()),
        "texts by their names",
    ),
}


def configurable_problems(configurable: Mapping[str, Any]) -> list[Problem]:
    """Every option with a bad value. Unknown options are not a problem: they pass through."""
    problems: list[Problem] = []
    for name, minimum in MINIMUM.items():
        value = configurable.get(name, minimum)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            problems.append(
                Problem(f"configurable.{name}", f"expected a whole number from {minimum}, got {brief(value)}")
            )
    share = configurable.get("escalationThreshold", 0)
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        problems.append(
            Problem("configurable.escalationThreshold", f"expected a number from 0 to 1, got {brief(share)}")
        )
    if (value := configurable.get("reasoningVerbosity", "off")) not in ("summary", "full", "off"):
        problems.append(
            Problem("configurable.reasoningVerbosity", f"expected summary, full or off, got {brief(value)}")
        )
    return problems + [
        Problem(f"configurable.{name}", f"expected {words}")
        for name, (fits, words) in VALUES.items()
        if name in configurable and not fits(configurable[name])
    ]
