"""The runs that a query names, and their order, for stores that hold runs as objects."""

from datetime import datetime, timedelta

from assay.ports import Run, RunQuery

MICROSECOND = timedelta(microseconds=1)


def age(run: Run) -> tuple[datetime, str]:
    return run.created, run.id


def number(run: Run, query: RunQuery) -> float | None:
    """The number that the order compares."""
    if query.order == "duration":
        lasted = run.ended - run.started if run.ended and run.started else None
        return None if lasted is None else lasted / MICROSECOND
    return run.facts.score if query.order == "score" else run.facts.cost


def is_beyond(run: Run, query: RunQuery) -> bool:
    assert query.beyond is not None
    value, created, id = query.beyond
    if query.order == "created":
        return age(run) > (created, id)
    mine = number(run, query)
    if mine is None or value is None:
        return mine is None and (value is not None or age(run) < (created, id))
    here, there = (mine, *age(run)), (value, created, id)
    return here > there if query.ascending else here < there


def matches(run: Run, query: RunQuery) -> bool:
    return (
        query.tenant in (None, run.tenant)
        and query.kind in (None, run.kind)
        and (query.kinds is None or run.kind in query.kinds)
        and query.passed in (None, run.facts.passed)
        and query.name in (None, run.name)
        and (query.statuses is None or run.status in query.statuses)
        and (query.since is None or run.created >= query.since)
        and (query.until is None or run.created < query.until)
        and (query.before is None or age(run) < query.before)
    )
