"""Until when a worker knows that the others take it for alive."""

import asyncio

from assay.backends.stores.open import open_store
from assay.errors import Conflict
from assay.runs.work_queue import WorkerRegistry

LEASE = 10.0


def test_a_worker_is_certain_for_half_a_lease_from_before_its_heartbeat_was_written():
    """Also if the store takes long. A heartbeat whose answer was lost says nothing of when it was written."""

    async def test():
        loop, store = asyncio.get_running_loop(), await open_store("memory:")
        registry, commit = WorkerRegistry(store, LEASE), store.commit
        began, outcomes = [], []

        async def slow(transaction):
            began.append(loop.time())
            await asyncio.sleep(0.02)
            await commit(transaction)
            if outcomes:
                raise outcomes.pop()

        store.commit = slow
        await registry.register()
        first = registry.certain_until
        assert began[0] - 0.01 <= first - LEASE / 2 <= began[0]
        assert await registry.beat()
        second = registry.certain_until
        assert began[0] < second - LEASE / 2 <= began[1]
        outcomes.append(Conflict("version", "documents[0]", "it was written before"))
        assert await registry.beat()
        assert registry.certain_until == second
        assert await registry.beat()
        assert registry.certain_until > second
        await store.close()

    asyncio.run(test())
