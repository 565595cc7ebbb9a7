"""
What a restart needs to know of batches: ids and digests, no content.

A run of a store has it in its store (ADR-0299). Results in a file have it in files of `ASSAY_HOME/batches`. Such a file
is locked while its process lives. The next process takes the files of dead ones over.
"""

import fcntl
import os
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from assay.concurrency.threads import run_blocking
from assay.errors import Conflict, EnvironmentFailure, ForeignFault
from assay.ports import DeleteDocument, Document, PutDocument, Run, Store, Transaction
from assay.ports.batches import BATCHES, BatchJournal, OpenBatch
from assay.ports.continued_runs import with_sources

KEEP_SECONDS = 29 * 86_400.0  # a provider deletes answers after that
PAGE = 20  # documents that are read at once

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OpenBatch).decode


class Journals:
    """Journals of this process: in a folder, or in the store of the one run whose judges it asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place: tuple[Store, Run] | None = None

    def bind(self, store: Store, run: Run) -> None:
        """Keep the batches of a run in its store. It is called before the first judge is asked."""
        self._place = store, run

    def journal(self, provider: str) -> BatchJournal:
        if self._place is None:
            return FileJournal(self._folder, provider)
        return StoreJournal(*self._place, provider)


class FileJournal:
    """A file of this process. A line is written and synchronised before what it says counts."""

    def __init__(self, folder: Path, provider: str) -> None:
        self._folder, self._provider = folder, provider
        self._path = folder / f"{provider}-{secrets.token_hex(8)}.jsonl"
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._open: dict[str, OpenBatch] = {}

    async def open(self) -> list[OpenBatch]:
        try:
            await run_blocking(self._begin)
        except OSError as failed:
            raise self._fault(failed) from None
        return list(self._open.values())

    async def write(self, batch: OpenBatch) -> bool:
        try:
            await run_blocking(self._write, batch)
        except OSError as failed:
            raise self._fault(failed) from None
        return True

    async def close(self) -> None:
        """Delete the file if no batch in it is open; else leave it to the next run."""
        await run_blocking(self._close)

    def _fault(self, failed: OSError) -> ForeignFault:
        return ForeignFault(f"a batch cannot be noted in {self._folder}: {failed.strerror or failed}")

    def _begin(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.fdopen(os.open(self._path, flags, 0o600), "wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._inherit(self._folder.glob(f"{self._provider}-*.jsonl"))

    def _write(self, batch: OpenBatch) -> None:
        assert self._file is not None
        with self._lock:
            self._open[batch.name] = batch
            if batch.closed:
                del self._open[batch.name]
            self._file.write(_encode(batch) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _close(self) -> None:
        if self._file is None:
            return
        if not self._open:
            self._path.unlink(missing_ok=True)
        with suppress(OSError):  # of what a full disk did not take
            self._file.close()

    def _inherit(self, paths: Iterable[Path]) -> None:
        for path in sorted(paths):
            if path == self._path or not path.stat().st_size:  # empty: its process is about to lock it
                continue
            with suppress(BlockingIOError, FileNotFoundError), path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its process lives
                for batch in _batches_in(file):
                    if time.time() - batch.at < KEEP_SECONDS:
                        self._write(batch)
                path.unlink()


def _batches_in(file: BinaryIO) -> Sequence[OpenBatch]:
    """The open batches of a file. A line that was cut off by a crash said nothing that counts."""
    found: dict[str, OpenBatch] = {}
    for line in file:
        with suppress(msgspec.DecodeError):
            batch = _decode(line)
            found[batch.name] = batch
    return [batch for batch in found.values() if not batch.closed]


class StoreJournal:
    """
    Batches as documents of a run: who holds the lease of the run has them, on any machine.

    The version of a document decides between two processes. The batches of the runs that this one continues are its own
    too.
    """

    def __init__(self, store: Store, run: Run, provider: str) -> None:
        self._store, self._run, self._provider = store, run, provider
        self._versions: dict[str, int] = {}

    async def open(self) -> list[OpenBatch]:
        found: list[OpenBatch] = []
        try:
            async for document in self._left():
                batch = _decode(document.data)
                is_old = time.time() - batch.at > KEEP_SECONDS
                if await self._take(batch, document) and not is_old:
                    found.append(batch)
        except EnvironmentFailure as failed:
            raise _fault(failed) from None
        return found

    async def write(self, batch: OpenBatch) -> bool:
        version = self._versions.get(batch.name, 0)
        change: PutDocument | DeleteDocument = self._put(batch, version)
        if batch.closed:
            change = DeleteDocument(tenant=self._run.tenant, kind=BATCHES, key=change.key, version=version)
        return await self._commit(batch, [change])

    async def close(self) -> None: ...

    async def _left(self) -> AsyncIterator[Document]:
        """The batches of the run, and of those that it continues."""
        async for run in with_sources(self._store, self._run):
            prefix, after = f"{run.id}/{self._provider}/", ""
            while page := await self._store.documents(
                run.tenant, BATCHES, prefix=prefix, after=after, limit=PAGE
            ):
                for document in page:
                    yield document
                after = page[-1].key

    async def _take(self, batch: OpenBatch, document: Document) -> bool:
        put = self._put(batch, document.version)
        if put.key == document.key:
            self._versions[batch.name] = document.version
            return await self._commit(batch, [put])
        gone = DeleteDocument(
            tenant=document.tenant, kind=BATCHES, key=document.key, version=document.version
        )
        return await self._commit(batch, [gone, self._put(batch, 0)])

    def _put(self, batch: OpenBatch, version: int) -> PutDocument:
        key = f"{self._run.id}/{self._provider}/{batch.name}"
        return PutDocument(
            tenant=self._run.tenant, kind=BATCHES, key=key, data=_encode(batch), version=version
        )

    async def _commit(self, batch: OpenBatch, changes: Sequence[PutDocument | DeleteDocument]) -> bool:
        try:
            await self._store.commit(Transaction(documents=changes))
        except Conflict:
            return False
        except EnvironmentFailure as failed:
            raise _fault(failed) from None
        self._versions[batch.name] = self._versions.get(batch.name, 0) + 1
        return True


def _fault(failed: EnvironmentFailure) -> ForeignFault:
    return ForeignFault(f"a batch cannot be noted in the store: {failed}")


class OrphanAnswers:
    """
    The requests of batches of dead processes, by their digest.

    The last equal request is taken first: a run writes its results in order, so the last are those without a result.
    """

    def __init__(self, batches: Sequence[OpenBatch]) -> None:
        self._by_digest: dict[str, list[tuple[OpenBatch, str]]] = defaultdict(list)
        for batch in batches:
            for request in batch.requests:
                self._by_digest[request.partition("-")[0]].append((batch, request))

    def take(self, digest: str) -> tuple[OpenBatch, str] | None:
        found = self._by_digest.get(digest)
        return found.pop() if found else None
