"""The lease of a run: who may take it, who may still write (fencing), and whose loss counts."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from assay.errors import Conflict
from assay.ports import ACTIVE, ANY_UNIT, EXECUTING, LOSSES, Run


def free(run: Run, holder: str, now: datetime) -> bool:
    """Whether this holder may take the run."""
    return run.status in ACTIVE and (run.holder in (None, holder) or run.leased is None or run.leased <= now)


def fence(run: Run, holder: str) -> None:
    """Refuse what a process writes after another one has taken its lease."""
    if run.holder != holder:
        text = f"{holder} no longer holds its lease; the holder is {run.holder or 'none'}"
        raise Conflict("lease", f"run {run.id}", text)


def lease_ahead(run: Run, holder: str, now: datetime) -> bool:
    """Whether another holder's lease was granted in the future: the clock was set back, so its end is meaningless."""
    other = run.status in ACTIVE and run.holder not in (None, holder)
    return other and run.granted is not None and run.granted > now


def anchor_lease(run: Run, now: datetime) -> Run:
    """Restart the lease now, with the same length. A live holder renews it before its end."""
    assert run.leased
    assert run.granted
    return msgspec.structs.replace(run, granted=now, leased=now + (run.leased - run.granted))


def take_lease(run: Run, holder: str, now: datetime, seconds: float) -> Run:
    """Give the lease to the holder. If another holder had not released it, this is a takeover."""
    metadata, takeovers = run.metadata, run.takeovers
    none: list[str] = []
    if run.holder not in (None, holder):
        losses = without_holder(add_loss(metadata, run.holder), holder)  # this one is alive
        most = most_losses(losses)
        takeovers = min(takeovers, most) if metadata.get(EXECUTING) == [] else most
        metadata = {**metadata, EXECUTING: none, LOSSES: losses}
    elif run.holder is None and EXECUTING in metadata:
        metadata = {**metadata, EXECUTING: none}
    leased = now + timedelta(seconds=seconds)
    return msgspec.structs.replace(
        run, holder=holder, granted=now, leased=leased, takeovers=takeovers, metadata=metadata
    )


def add_loss(metadata: Mapping[str, Any], holder: str) -> dict[str, list[str]]:
    """The losses after a holder was lost. They count for the units that it executed, and for no others."""
    executing, losses = metadata.get(EXECUTING), metadata.get(LOSSES, {})
    before = losses.get(ANY_UNIT, [])
    if executing is None:
        return {ANY_UNIT: [*before, holder]}
    return {unit: [*losses.get(unit, before), holder] for unit in executing} or losses


def without_holder(losses: Mapping[str, Sequence[str]], holder: str) -> dict[str, list[str]]:
    others = {unit: [one for one in lost if one != holder] for unit, lost in losses.items()}
    return {unit: lost for unit, lost in others.items() if lost}


def most_losses(losses: Mapping[str, Sequence[str]]) -> int:
    return max(map(len, losses.values()), default=0)


def claim_leases(
    runs: Iterable[Run], holder: str, now: datetime, seconds: float
) -> tuple[list[Run], list[Run]]:
    """The runs whose leases, granted in the future, restart; and the free runs with leases for the holder."""
    runs = list(runs)
    ahead = [run for run in runs if lease_ahead(run, holder, now)]
    free_runs = [run for run in runs if run not in ahead and free(run, holder, now)]
    return (
        [anchor_lease(run, now) for run in ahead],
        [take_lease(run, holder, now, seconds) for run in free_runs],
    )


def forgive_takeover(run: Run, holder: str) -> Run | None:
    """The run without the losses of this holder, if it has some and another process holds it."""
    losses: dict[str, list[str]] = run.metadata.get(LOSSES, {})
    if (
        run.status not in ACTIVE
        or run.holder == holder
        or not any(holder in lost for lost in losses.values())
    ):
        return None
    left = without_holder(losses, holder)
    return msgspec.structs.replace(
        run, takeovers=min(run.takeovers, most_losses(left)), metadata={**run.metadata, LOSSES: left}
    )


def release_lease(run: Run) -> Run:
    return msgspec.structs.replace(run, holder=None, leased=None, granted=None)
