"""Opens a store by its address. To add a store, add a row to STORES."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from assay.backends.stores.memory import MemoryStore
from assay.errors import UsageError
from assay.extras import missing_extra
from assay.ports import Cipher, Clock, Store


class OpenOptions(NamedTuple):
    cipher: Cipher | None
    sealing: bool
    clock: Clock | None
    patience: float


async def _open_memory(address: str, options: OpenOptions) -> Store:
    """It is not encrypted, because nothing is on disk."""
    return MemoryStore(options.clock)


async def _open_sql(address: str, options: OpenOptions) -> Store:
    try:
        from assay.backends.stores.sql.store import SqlStore  # 0.3 s that a plain evaluation does not need

        return await SqlStore.open(address, **options._asdict())
    except ModuleNotFoundError as error:
        raise missing_extra("a store", "store", error=error) from error


async def open_light_store(address: str, *, cipher: Cipher | None = None) -> Store:
    """A store for commands that read or run little: without SQLAlchemy where that is possible, else the whole store."""

    async def whole() -> Store:
        return await open_store(address, cipher=cipher)

    if cipher is None:
        try:
            from assay.backends.stores.sqlite_light import open_light  # deferred import: only commands use it
        except ModuleNotFoundError as error:
            raise missing_extra("a store", "store", error=error) from error
        light = open_light(address, whole)
        if light is not None:
            return light
    return await whole()


class StoreBackend(NamedTuple):
    """A kind of store: the form of its address, and the function that opens it."""

    form: str
    open: Callable[[str, OpenOptions], Awaitable[Store]]


STORES: dict[str, StoreBackend] = {  # by the scheme of the address
    "sqlite": StoreBackend("sqlite:///FILE", _open_sql),
    "postgresql": StoreBackend("postgresql://…", _open_sql),
    "memory": StoreBackend("memory:", _open_memory),
}


async def open_store(
    address: str,
    *,
    cipher: Cipher | None = None,
    sealing: bool = True,
    clock: Clock | None = None,
    patience: float = 30.0,
) -> Store:
    """Open the store at this address. `patience`: seconds that its database may be unreachable."""
    scheme, colon, _ = address.partition(":")
    if not colon:  # not quoted: it may be a password
        raise UsageError("database_url: expected a URL, such as sqlite:///runs.db")
    backend = STORES.get(scheme.partition("+")[0])
    if backend is None:
        forms = ", ".join(store.form for store in STORES.values())
        raise UsageError(f"there is no store for {scheme[:40]!r}; there are {forms}")
    return await backend.open(address, OpenOptions(cipher, sealing, clock, patience))
