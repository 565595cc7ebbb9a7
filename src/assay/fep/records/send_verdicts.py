"""
Sends the verdicts of a stored run to the backend of its traces.

The stored results are what waits to be sent. A document of the store has how many of them a receiver has acknowledged.
A sender that died is continued there: what was acknowledged is not sent again. A batch whose acknowledgement was lost
is sent again with the same ids, by which a receiver knows it (ADR-0199).
"""

import hashlib
from collections.abc import AsyncIterator, Callable

import msgspec
from msgspec import Struct

from assay.errors import Conflict, EnvironmentFailure
from assay.ports import PutDocument, Run, Store, Transaction
from assay.ports.kinds import STANDING
from assay.ports.verdicts import Verdict, VerdictReceiver
from assay.traces.verdicts import verdicts_of

KIND = "verdicts-sent"  # of the documents
BATCH = 512  # verdicts of a request
MAX_RESULTS = 2_000  # results without a verdict between two commits
_read = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Sent(Struct, kw_only=True):
    """What a receiver has acknowledged of a run, over all attempts."""

    ended: str = ""  # when the run ended; a run that is completed later has other results
    results: int = 0  # the first ones
    without_trace: int = 0  # of these, results that no span belongs to
    verdicts: int = 0
    rejected: int = 0
    reason: str = ""  # of the first rejection


async def send_verdicts(
    store: Store,
    run: Run,
    results: Callable[[int], AsyncIterator[bytes]],
    receiver: VerdictReceiver,
    *,
    explanations: bool = False,
) -> Sent:
    """
    Send what the receiver has not acknowledged, and return all that it has. `results` yields the lines of the run from
    an ordinal on.

    EnvironmentFailure: the receiver did not acknowledge a batch; the next call continues with it.
    """
    progress = await _Progress.read(store, run, receiver.address)
    sent, batch, covered = progress.sent, list[Verdict](), 0

    async def flush() -> None:
        nonlocal covered
        await progress.take()
        for at in range(0, len(batch), BATCH):
            part = batch[at : at + BATCH]
            rejected = await receiver.send(part)
            sent.verdicts += len(part) - (rejected.verdicts if rejected else 0)
            if rejected is not None:
                sent.rejected, sent.reason = sent.rejected + rejected.verdicts, sent.reason or rejected.reason
        sent.results += covered
        batch.clear()
        covered = 0
        await progress.save()

    ordinal = sent.results
    async for line in results(ordinal):
        verdicts = verdicts_of(_read(line), run.id, ordinal, explanations=explanations)
        if not verdicts:
            sent.without_trace += 1
        ordinal, covered = ordinal + 1, covered + 1
        batch += verdicts
        if len(batch) >= BATCH or covered >= MAX_RESULTS:
            await flush()
    if covered:
        await flush()
    return sent


class _Progress:
    """
    The document. A sender that has something to send takes it over, so that of two at once the one that began first
    stops.
    """

    def __init__(self, store: Store, run: Run, key: str, version: int, sent: Sent) -> None:
        self._store, self._run, self._key, self._version = store, run, key, version
        self.sent, self._is_taken = sent, False

    @classmethod
    async def read(cls, store: Store, run: Run, address: str) -> "_Progress":
        key = f"{run.id}/{hashlib.sha256(address.encode()).hexdigest()[:16]}"
        document = await store.document(run.tenant, KIND, key)
        grows = run.metadata.get(STANDING)  # a window: its end adds nothing
        ended = "" if grows or run.ended is None else run.ended.isoformat()
        sent = Sent() if document is None else msgspec.json.decode(document.data, type=Sent)
        if sent.ended != ended:
            sent = Sent(ended=ended)
        return cls(store, run, key, 0 if document is None else document.version, sent)

    async def take(self) -> None:
        """Take the document over before the first request."""
        if not self._is_taken:
            await self.save()
            self._is_taken = True

    async def save(self) -> None:
        document = PutDocument(
            tenant=self._run.tenant, kind=KIND, key=self._key, data=_encode(self.sent), version=self._version
        )
        try:
            await self._store.commit(Transaction(documents=[document]))
        except Conflict:
            raise EnvironmentFailure(f"{self._run.id}: another process sends its verdicts there") from None
        self._version += 1
