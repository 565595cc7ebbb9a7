"""
The data keys of tenants (ADR-0081): random keys that the store has encrypted with a key of the host.

A transaction that writes reads the key of each tenant again and locks it. So after a key is retired, no transaction
encrypts with it. A reader looks again after `FRESH` seconds.
"""

import secrets
import threading
import time
from collections.abc import Iterable
from datetime import datetime
from importlib import import_module
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, bindparam, select

from assay.backends.stores.records.codec import DATA_KEY
from assay.backends.stores.records.record_rows import moment, stamp
from assay.backends.stores.sql.tables import tenant_keys
from assay.errors import EnvironmentFailure
from assay.ports import Cipher, Clock

HOST = ""  # the tenant of the host's own documents; its key also hashes the names of runs
KEY_BYTES = 32
FRESH = 5.0  # seconds that a reader uses a key without a look at the store
IDLE = 60.0  # seconds after which a key that was not used leaves the memory
MOST = 8192  # keys in memory
MOST_CURRENT = 1024  # of them in use by the writer; a transaction has fewer tenants
_CURRENT = (
    select(tenant_keys.c.tenant, tenant_keys.c.id)
    .where(tenant_keys.c.retired.is_(None), tenant_keys.c.tenant.in_(bindparam("tenants", expanding=True)))
    .with_for_update(read=True, key_share=True)
)


class DataKey(NamedTuple):
    """A key as this process has it. Without a cipher it is destroyed, or the store lacks it (`destroyed` is None)."""

    cipher: Cipher | None
    destroyed: datetime | None
    checked: float


class DataKeys:
    """The data keys that this process has read. Threads share it."""

    def __init__(self, cipher: Cipher | None, *, sealing: bool) -> None:
        self._cipher, self.sealing = cipher, sealing and cipher is not None
        self._lock = threading.Lock()
        self._keys: dict[str, DataKey] = {}  # by id, the oldest first
        self.in_use: dict[
            str, Cipher
        ] = {}  # by tenant, the keys that encrypt; a transaction has prepared its own
        self.ciphers: dict[str, Cipher] = {}  # by id, those of `_keys`
        self._host: Cipher | None = None

    def open(self, engine: Engine, clock: Clock) -> None:
        """Read the key of the host's own documents; create it if records are encrypted."""
        if self._cipher is None:
            return
        query = select(tenant_keys).where(tenant_keys.c.tenant == HOST, tenant_keys.c.retired.is_(None))
        with engine.connect() as connection, connection.begin():
            row = connection.execute(query).first()
        if row is not None:
            self._use(HOST, self._unwrap(row))
        elif self.sealing:
            with engine.connect().execution_options(writes=True) as connection, connection.begin():
                self.prepare(connection, (HOST,), clock.now())

    @property
    def host(self) -> Cipher | None:
        return self._host

    def find(self, id: str) -> DataKey:
        """The key of this id, which `load` has read."""
        return self._keys.get(id) or DataKey(None, None, 0.0)

    def prepare(self, connection: Connection, tenants: Iterable[str], now: datetime) -> None:
        """Read and lock the key of each tenant in a transaction that writes. A tenant without one gets one."""
        names = sorted({*tenants} - ({HOST} if self._host is not None else set[str]()))
        if not self.sealing or not names:
            return
        found = self._read_current(connection, names)
        for tenant in names:
            if tenant not in found:
                self._create(connection, tenant, now)
        if len(found) < len(names):
            found = self._read_current(connection, names)
        if absent := {id for tenant, id in found.items() if self._known(tenant, id) is None}:
            self._fetch(connection, absent)
        for tenant, id in found.items():
            self._use(tenant, self._require(tenant, id))

    def load(self, connection: Connection, ids: Iterable[str]) -> None:
        """Read the keys of these ids, unless they were read a moment ago."""
        now = time.monotonic()
        old = {id for id in ids if id.startswith(DATA_KEY) and self.find(id).checked < now - FRESH}
        if old and self._cipher is not None:
            self._fetch(connection, old)

    def _fetch(self, connection: Connection, ids: set[str]) -> None:
        now = time.monotonic()
        rows = {
            row.id: row for row in connection.execute(select(tenant_keys).where(tenant_keys.c.id.in_(ids)))
        }
        with self._lock:
            for id in [id for id, key in self._keys.items() if key.checked < now - IDLE and id not in ids]:
                self._drop(id)  # a key that was destroyed elsewhere does not stay in this memory
            for id in ids:
                key = self._read(rows.get(id), self._keys.get(id), now)
                if key.cipher is None:
                    self._drop(id)
                else:
                    self.ciphers[id] = key.cipher
                self._keys.pop(id, None)
                self._keys[id] = key
            while len(self._keys) > MOST:
                self._drop(next(iter(self._keys)))

    def forget(self, tenant: str) -> None:
        """The keys of the tenant were retired or destroyed."""
        with self._lock:
            self.in_use.pop(tenant, None)
            self._keys.clear()
            self.ciphers.clear()

    def wrap(self, tenant: str, id: str, key: bytes) -> dict[str, Any]:
        """The columns of a key, encrypted with the newest key of the host."""
        assert self._cipher is not None
        return {"key_id": self._cipher.key_id, "data": self._cipher.seal(key, _label(tenant, id))}

    def unwrap(self, row: Row[Any]) -> bytes:
        assert self._cipher is not None
        try:
            return self._cipher.open(row.key_id, row.data, _label(row.tenant, row.id))
        except EnvironmentFailure as wrong:
            raise EnvironmentFailure(f"the data key {row.id!r} of tenant {row.tenant!r}: {wrong}") from None

    def _drop(self, id: str) -> None:
        self._keys.pop(id, None)
        self.ciphers.pop(id, None)

    def _unwrap(self, row: Row[Any]) -> Cipher:
        assert self._cipher is not None
        return self._cipher.data_cipher(row.id, self.unwrap(row))

    def _read(self, row: Row[Any] | None, before: DataKey | None, now: float) -> DataKey:
        if row is None:
            return DataKey(None, None, now)
        if row.destroyed is not None:
            return DataKey(None, moment(row.destroyed), now)
        known = before.cipher if before else None
        return DataKey(known or self._unwrap(row), None, now)

    def _require(self, tenant: str, id: str) -> Cipher:
        cipher = self._known(tenant, id)
        if cipher is None:
            raise EnvironmentFailure(f"the data key {id!r} of tenant {tenant!r} cannot be read")
        return cipher

    def _known(self, tenant: str, id: str) -> Cipher | None:
        current = self.in_use.get(tenant)
        return current if current is not None and current.key_id == id else self.find(id).cipher

    def _use(self, tenant: str, cipher: Cipher) -> None:
        if tenant == HOST:
            self._host = cipher
        with self._lock:
            self.in_use.pop(tenant, None)
            self.in_use[tenant] = cipher
            while len(self.in_use) > MOST_CURRENT:
                del self.in_use[next(one for one in self.in_use if one not in (HOST, tenant))]

    def _read_current(self, connection: Connection, tenants: list[str]) -> dict[str, str]:
        """The ids of the keys in use, by tenant."""
        rows = connection.execute(_CURRENT, {"tenants": tenants})
        return {row.tenant: row.id for row in rows}

    def _create(self, connection: Connection, tenant: str, now: datetime) -> None:
        """Create a key. If another process creates one at the same time, that of the first one stays."""
        id = f"{DATA_KEY}{secrets.token_hex(12)}"
        row = {"id": id, "tenant": tenant, "created": stamp(now)}
        insert = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert
        row |= self.wrap(tenant, id, secrets.token_bytes(KEY_BYTES))
        connection.execute(insert(tenant_keys).on_conflict_do_nothing(), row)


def _label(tenant: str, id: str) -> bytes:
    return "\0".join(("tenant_keys", tenant, id)).encode()
