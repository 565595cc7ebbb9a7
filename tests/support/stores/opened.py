"""A store for the time of a block: `async with sql_store(address) as store:`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from assay.backends.stores.open import open_store
from assay.backends.stores.sql.store import SqlStore


@asynccontextmanager
async def sql_store(address, cipher=None, **options) -> AsyncGenerator[SqlStore]:
    store = await SqlStore.open(address, cipher=cipher, **options)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def any_store(address) -> AsyncGenerator[Any]:
    """As a command opens it."""
    store = await open_store(address)
    try:
        yield store
    finally:
        await store.close()
