"""The table of cases in a database: rows by run and number, and their sums."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, or_, select, tuple_

from assay.backends.stores.row_values import COUNTS
from assay.backends.stores.tables import case_blocks
from assay.ports import CaseBlock, CaseTotals

SUMS = (*COUNTS.values(), "spent", "unknown")
MOST = 500  # runs in one statement
ERASED = 1_000  # rows that one step of an erasure deletes
_NAMES = [column.name for column in case_blocks.columns]


def list_blocks(connection: Connection, run: str, start: int, limit: int, holding: str) -> list[CaseBlock]:
    table = case_blocks.c
    reaching = select(func.max(table.first)).where(table.run == run, table.first <= start).scalar_subquery()
    query = select(*case_blocks.columns).where(
        table.run == run, table.first >= func.coalesce(reaching, 0), table.last >= start
    )
    if holding:
        query = query.where(or_(*(table[COUNTS[outcome]] > 0 for outcome in holding)))
    rows = connection.execute(query.order_by(table.first).limit(limit))
    return [CaseBlock(**dict(zip(_NAMES[1:], row[1:], strict=True))) for row in rows]


def sum_blocks(connection: Connection, ids: Sequence[str]) -> dict[str, CaseTotals]:
    sums = [func.sum(case_blocks.c[name]).label(name) for name in SUMS]
    found: dict[str, CaseTotals] = {}
    for at in range(0, len(ids), MOST):
        where = case_blocks.c.run.in_(ids[at : at + MOST])
        for row in connection.execute(
            select(case_blocks.c.run, *sums).where(where).group_by(case_blocks.c.run)
        ):
            counts = {name: int(getattr(row, name)) for name in SUMS if name != "spent"}
            found[row.run] = CaseTotals(**counts, spent=float(row.spent))
    return found


def delete_blocks(connection: Connection, runs: Sequence[str]) -> int:
    """Delete some rows of runs whose evidence is gone; return their number. Repeat until it is 0."""
    place = case_blocks.c.run, case_blocks.c.first
    some = select(*place).where(case_blocks.c.run.in_(runs)).order_by(*place).limit(ERASED)
    return connection.execute(delete(case_blocks).where(tuple_(*place).in_(some))).rowcount
