"""
What a restart needs to know of batches, in a file of the process that submitted them: ids and digests, no content.

A file is locked while its process lives. The next run takes the files of dead processes over.
"""

import fcntl
import os
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

KEEP_SECONDS = 29 * 86_400.0  # a provider deletes answers after that


class OpenBatch(msgspec.Struct, kw_only=True):
    """A batch that was submitted, or whose submission is not certain while it has no `id`."""

    name: str
    requests: list[str]
    at: float  # when it was submitted, by the clock
    id: str = ""
    closed: bool = False


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OpenBatch).decode


class BatchJournal:
    """
    The open batches of this process, and those of dead ones that nothing has taken over.

    A line is written and synchronised before what it says counts: a batch before it is submitted, and its id before
    an answer is waited for.
    """

    def __init__(self, folder: Path, provider: str) -> None:
        """`provider`: the digest of its name and address. Each provider has its own files."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{provider}-{secrets.token_hex(8)}.jsonl"
        self._lock = threading.Lock()
        number = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(number, "wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._open: dict[str, OpenBatch] = {}
        self._inherit(folder.glob(f"{provider}-*.jsonl"))

    @property
    def batches(self) -> list[OpenBatch]:
        return list(self._open.values())

    def write(self, batch: OpenBatch) -> None:
        with self._lock:
            self._open[batch.name] = batch
            if batch.closed:
                del self._open[batch.name]
            self._file.write(_encode(batch) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Delete the file if no batch in it is open; else leave it to the next run."""
        if not self._open:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _inherit(self, paths: Iterable[Path]) -> None:
        for path in sorted(paths):
            if path == self._path or not path.stat().st_size:  # empty: its process is about to lock it
                continue
            with suppress(OSError), path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its process lives
                for batch in _batches_in(file):
                    if time.time() - batch.at < KEEP_SECONDS:
                        self.write(batch)
                path.unlink()


def _batches_in(file: BinaryIO) -> Sequence[OpenBatch]:
    """The open batches of a file. A line that was cut off by a crash said nothing that counts."""
    found: dict[str, OpenBatch] = {}
    for line in file:
        with suppress(msgspec.DecodeError):
            batch = _decode(line)
            found[batch.name] = batch
    return [batch for batch in found.values() if not batch.closed]


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
