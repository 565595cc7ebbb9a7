"""The queue of units in the tables of DBOS: put, read, cancel, delete. Every call blocks: callers use a thread."""

from collections.abc import Callable, Iterable, Sequence, Set
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from dbos import DBOSClient, DBOSPortableJSONSerializer
from sqlalchemy import Engine, event, text

from assay.backends.stores.sql.connect import RetryPolicy, open_engine
from assay.backends.stores.sql.tables import UNIT_SCHEMA as SCHEMA

APPLICATION, QUEUE, UNIT = "assay", "units", "assay.unit"
ENDED = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
CHUNK = 500  # rows in one statement
P = ParamSpec("P")
T = TypeVar("T")
_AT_ONCE = RetryPolicy(0.0)
_EXTENSION = 'CREATE EXTENSION IF NOT EXISTS "uuid-ossp";'


class QueuedUnit(NamedTuple):
    """A unit for the queue. `id` depends only on the work and the unit, so that a unit is queued once."""

    id: str
    work: str
    sealed: str
    tenant: str
    priority: int


class UnitStatus(NamedTuple):
    id: str
    status: str
    executor: str  # that has it, or had it last
    attempts: int  # how often it was given to an executor
    output: Any


def open_unit_engine(address: str, connections: int) -> Engine:
    """
    The connections of DBOS, with the timeouts of the store's: a process that stands still releases its locks.

    DBOS creates an extension that it does not use, and that many installations of PostgreSQL do not have or allow.
    """
    engine = open_engine(address, connections)

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def without_extension(  # pyright: ignore[reportUnusedFunction]
        _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> tuple[str, Any]:
        return statement.replace(_EXTENSION, ""), parameters

    return engine


def in_plain_errors(call: Callable[P, T]) -> Callable[P, T]:
    """The call, whose failures of the database are an EnvironmentFailure, at once: callers retry."""

    @wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> T:
        return _AT_ONCE.over(lambda: call(*args, **kwargs))

    return plain


class UnitQueue:
    """A client of the queue. A lost connection raises at once: callers retry."""

    def __init__(self, engine: Engine, version: str) -> None:
        self._engine, self._version = engine, version
        self._client = DBOSClient(
            system_database_engine=engine,
            dbos_system_schema=SCHEMA,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            lazy=True,
            retry_connection_errors=False,
        )

    @in_plain_errors
    def put(self, units: Iterable[QueuedUnit]) -> None:
        """Queue the units in one transaction. A unit that the queue has already is left as it is."""
        with self._engine.begin() as connection:
            for unit in units:
                self._client.enqueue_in_transaction(
                    connection,
                    {
                        "workflow_name": UNIT,
                        "queue_name": QUEUE,
                        "workflow_id": unit.id,
                        "app_version": self._version,
                        "queue_partition_key": unit.tenant or "-",
                        "priority": unit.priority,
                    },
                    unit.work,
                    unit.sealed,
                )

    @in_plain_errors
    def ended(self, ids: Sequence[str]) -> list[UnitStatus]:
        """Those of the units that ended, with their outputs."""
        return [*self._list(ids, status=ENDED, load_output=True)]

    @in_plain_errors
    def statuses(self, ids: Sequence[str]) -> dict[str, UnitStatus]:
        """The units that the queue has, without their outputs."""
        return {unit.id: unit for unit in self._list(ids)}

    @in_plain_errors
    def units_of(self, executor: str) -> set[str]:
        """The units that this executor has."""
        pending = self._client.list_workflows(
            status="PENDING", name=UNIT, executor_id=executor, load_input=False, load_output=False
        )
        return {unit.workflow_id for unit in pending}

    @in_plain_errors
    def put_back(self, ids: Sequence[str]) -> None:
        """Queue units again that no executor executes, although one has them."""
        self._client.resume_workflows(list(ids), queue_name=QUEUE)

    @in_plain_errors
    def forgive(self, ids: Sequence[str]) -> None:
        """Their executor had paused or was stopped: it did not die of these units, so that attempt does not count."""
        statement = text(
            f"UPDATE {SCHEMA}.workflow_status SET recovery_attempts = recovery_attempts - 1"  # noqa: S608  # a constant
            " WHERE workflow_uuid = ANY(:ids) AND status IN ('PENDING', 'ENQUEUED') AND recovery_attempts > 0"
        )
        with self._engine.begin() as connection:
            connection.execute(statement, {"ids": list(ids)})

    @in_plain_errors
    def executors(self) -> set[str]:
        """The executors that have units of this version."""
        pending = self._client.list_workflows(
            status="PENDING", name=UNIT, app_version=self._version, load_input=False, load_output=False
        )
        return {unit.executor_id for unit in pending if unit.executor_id}

    @in_plain_errors
    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel units that have not ended. Their executors notice it at their next look."""
        for some in _chunks(ids):
            self._client.cancel_workflows(some)

    @in_plain_errors
    def delete(self, ids: Sequence[str]) -> None:
        for some in _chunks(ids):
            self._client.delete_workflows(some)

    @in_plain_errors
    def sweep(self, before: datetime, versions: Set[str] | None = None) -> int:
        """
        Delete units that ended before this time and whose conductor is gone. Return their number.

        With `versions`, also delete older units of all other versions, because no worker will take them. A conductor
        that waits for one queues it again.
        """
        left = list[str]()
        if versions is not None:
            waiting = self._client.list_workflows(
                status=["ENQUEUED", "PENDING"],
                name=UNIT,
                end_time=before.isoformat(),
                limit=CHUNK,
                load_input=False,
                load_output=False,
            )
            left = [unit.workflow_id for unit in waiting if unit.app_version not in versions]
        old = self._client.list_workflows(
            status=ENDED,
            name=UNIT,
            completed_before=before.isoformat(),
            limit=CHUNK,
            load_input=False,
            load_output=False,
        )
        ids = [*left, *(unit.workflow_id for unit in old)]
        self.delete(ids)
        return len(ids)

    def close(self) -> None:
        self._client.destroy()

    def _list(self, ids: Sequence[str], *, load_output: bool = False, **filters: Any) -> Iterable[UnitStatus]:
        for some in _chunks(ids):
            for one in self._client.list_workflows(
                workflow_ids=some, load_input=False, load_output=load_output, **filters
            ):
                yield UnitStatus(
                    one.workflow_id,
                    one.status,
                    one.executor_id or "",
                    one.recovery_attempts or 0,
                    one.output if load_output else None,
                )


def _chunks(ids: Sequence[str]) -> Iterable[list[str]]:
    return (list(ids[start : start + CHUNK]) for start in range(0, len(ids), CHUNK))
