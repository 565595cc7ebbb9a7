"""Opens a store by URL: `memory:`, `sqlite:///runs.db` or `postgresql://…`."""

from assay.backends.stores.memory import MemoryStore
from assay.extras import missing_extra
from assay.ports import Cipher, Clock, Store


async def open_store(
    address: str,
    *,
    cipher: Cipher | None = None,
    sealing: bool = True,
    clock: Clock | None = None,
    patience: float = 30.0,
) -> Store:
    """Open the store. `memory:` is not encrypted, because nothing is on disk."""
    if address == "memory:":
        return MemoryStore(clock)
    try:
        from assay.backends.stores.sql import SqlStore  # 0.3 s that a plain evaluation does not need

        return await SqlStore.open(address, cipher=cipher, sealing=sealing, clock=clock, patience=patience)
    except ModuleNotFoundError as error:
        raise missing_extra("a store", "store", error=error) from error
