"""The answers of a batch in a temporary file: hundreds of megabytes, of which one line is in memory at a time."""

import os
import tempfile
from collections.abc import Callable, Set
from contextlib import suppress
from typing import BinaryIO

import msgspec

from assay.backends.models.provider_client import ProviderClient
from assay.concurrency.threads import run_blocking
from assay.ports.batches import BatchAnswers, BatchResponse

LONGEST_LINE = 64 * 1024 * 1024  # bytes, as of the answer to a single call; a longer line answers nothing
ReadLine = Callable[[bytes], tuple[str, BatchResponse] | None]


class AnswerFile:
    """
    Lines of answers, found by the ids of their requests. Of an id the first answer counts.

    `read` raises DecodeError, or returns None, for a line that is no answer: its request counts as not answered.
    """

    def __init__(self, read: ReadLine) -> None:
        self._read = read
        self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._places: dict[str, tuple[int, int]] = {}  # offset and length

    async def fetch(self, line: ProviderClient, path: str) -> None:
        """Append a file of the provider."""
        await line.get(path, into=self._file)
        await run_blocking(self._index)

    def ids(self) -> Set[str]:
        return self._places.keys()

    def get(self, id: str) -> BatchResponse | None:
        place = self._places.get(id)
        if place is None:
            return None
        at, length = place
        found = self._read(os.pread(self._file.fileno(), length, at))
        return None if found is None else found[1]

    def close(self) -> None:
        self._file.close()

    def _index(self) -> None:
        self._file.seek(0)
        at, whole = 0, True
        while data := self._file.readline(LONGEST_LINE):
            begins, whole = whole, data.endswith(b"\n")
            if begins and (whole or len(data) < LONGEST_LINE):
                with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                    if (found := self._read(data)) is not None:
                        self._places.setdefault(found[0], (at, len(data)))
            at += len(data)


class BothFiles:
    """The answers of two files. Those of the first count."""

    def __init__(self, *files: BatchAnswers) -> None:
        self._files = files

    def ids(self) -> Set[str]:
        return {id for file in self._files for id in file.ids()}

    def get(self, id: str) -> BatchResponse | None:
        return next((file.get(id) for file in self._files if id in file.ids()), None)

    def close(self) -> None:
        for file in self._files:
            file.close()


async def fetched(line: ProviderClient, read: ReadLine, *paths: str) -> BatchAnswers:
    """The answers in these files of the provider."""
    files = [AnswerFile(read) for _ in paths]
    complete = False
    try:
        for file, path in zip(files, paths, strict=True):
            await file.fetch(line, path)
        complete = True
    finally:
        if not complete:
            BothFiles(*files).close()
    return BothFiles(*files)
