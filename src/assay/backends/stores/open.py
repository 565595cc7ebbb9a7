"""The store behind an address: `memory:`, `sqlite:///runs.db` or `postgresql://…`."""

from assay.backends.stores.memory import MemoryStore
from assay.errors import UsageError
from assay.ports import Cipher, Clock, Store


async def open_store(
    address: str,
    *,
    cipher: Cipher | None = None,
    sealing: bool = True,
    clock: Clock | None = None,
    patience: float = 30.0,
) -> Store:
    """What lies in `memory:` is never sealed: it is on no disk."""
    if address == "memory:":
        return MemoryStore(clock)
    try:
        from assay.backends.stores.sql import SqlStore  # 0.3 s that a plain evaluation does not need

        return await SqlStore.open(address, cipher=cipher, sealing=sealing, clock=clock, patience=patience)
    except ModuleNotFoundError as error:
        raise UsageError(f"a store needs {error.name}: pip install 'assay[store]'") from error
