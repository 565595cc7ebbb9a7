"""
What the agents of a run answered, while their judges wait for batches: for hours, and over restarts (ADR-0294).

An answer is content. It is a document below the id of its run, from before its judge waits until the transaction that
records its unit. A run that continues another one takes the answers that are left there.
"""

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType

from assay.concurrency.parking import hold
from assay.ports import DeleteDocument, PutDocument, Run, RunUpdate, Store, Transaction
from assay.ports.continued_runs import SOURCE, with_sources
from assay.ports.kinds import unit_holder

ANSWERS = "agent-answer"  # the kind of the documents
REQUEST = "request"  # the kind of the evidence that says what a run asks
PAGE = 1_000
NONE: Mapping[int, str] = MappingProxyType({})


class AgentAnswers:
    """Of one run. `keys` names the documents of answers that were recorded before, by the numbers of their units."""

    def __init__(
        self, store: Store, run: str, tenant: str, keys: Mapping[int, str] = NONE, *, keeps: bool
    ) -> None:
        """`keeps`: the judges of the run wait for batches."""
        self._store, self._run, self._tenant, self._keys, self.keeps = store, run, tenant, keys, keeps

    def key(self, unit: int) -> str:
        """The document of a unit that was answered before; "": there is none."""
        return self._keys.get(unit, "")

    def is_inherited(self, key: str) -> bool:
        """Whether a run that this one continues asked the agent."""
        return bool(key) and not key.startswith(f"{self._run}/")

    async def read(self, key: str) -> bytes | None:
        found = await self._store.document(self._tenant, ANSWERS, key) if key else None
        if found is None:
            return None
        hold(len(found.data))
        return found.data

    async def keep(self, unit: int, answer: bytes) -> None:
        """Record an answer before it is judged. Conflict: another process has the run by now."""
        hold(len(answer))
        lease = RunUpdate(run=self._run, holder=unit_holder.get())
        put = PutDocument(
            tenant=self._tenant, kind=ANSWERS, key=f"{self._run}/{unit}", data=answer, version=None
        )
        await self._store.commit(Transaction(entries=[lease], documents=[put]))

    def forget(self, unit: int) -> list[PutDocument | DeleteDocument]:
        """The changes that delete an answer. They are written with the result of its unit."""
        keys = {self.key(unit)} | ({f"{self._run}/{unit}"} if self.keeps else set[str]())
        return [
            DeleteDocument(tenant=self._tenant, kind=ANSWERS, key=key, version=None)
            for key in sorted(keys)
            if key
        ]


async def answers_of(store: Store, run: Run, *, keeps: bool) -> AgentAnswers:
    """The answers that are left of a run that goes on, and of those that it continues and that asked the same."""
    keys: dict[int, str] = {}
    if run.status == "pending" and SOURCE not in run.metadata:  # it begins
        return AgentAnswers(store, run.id, run.tenant, keeps=keeps)
    async for one in with_sources(store, run):
        found = [key async for key in _keys(store, one)]
        if found and one.id != run.id and await _request(store, one) != await _request(store, run):
            break
        for key in found:
            keys.setdefault(int(key.rpartition("/")[2]), key)
    return AgentAnswers(store, run.id, run.tenant, keys, keeps=keeps)


async def _keys(store: Store, run: Run) -> AsyncIterator[str]:
    prefix, after = f"{run.id}/", ""
    while page := await store.document_infos(run.tenant, ANSWERS, prefix=prefix, after=after, limit=PAGE):
        for info in page:
            yield info.key
        after = page[-1].key


async def _request(store: Store, run: Run) -> list[bytes]:
    return [chunk.data for chunk in await store.chunks(run.id, REQUEST, limit=1)]
