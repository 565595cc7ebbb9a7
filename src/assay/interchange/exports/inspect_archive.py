"""A log of inspect as an archive (`.eval`): a member for each sample, as `inspect view` lists it under any name."""

import zipfile
from tempfile import SpooledTemporaryFile
from typing import Any

import msgspec

from assay.interchange.exports.exported import ExportedCase, ExportedRun, ListWriter, Write
from assay.interchange.exports.inspect_log import SPOOLED, LogHead, sample_of
from assay.protocol.json_types import JSON

SUMMARY = "id", "epoch", "input", "target", "metadata", "scores"
LONGEST_ID = 1_000  # characters that the name of a member has room for


class InspectArchive:
    """Samples stream into the archive; what is said of all of them follows."""

    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._head, self._count = LogHead(run), 0
        held: Any = _Stream(write)
        self._zip = zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED)
        self._file = SpooledTemporaryFile(SPOOLED)  # noqa: SIM115  # closed with the log
        self._summaries = ListWriter(self._keep, b"")

    def add(self, case: ExportedCase) -> None:
        self._head.add(case)
        self._count += 1
        sample = sample_of(case)
        is_name = len(case.id) <= LONGEST_ID and "\0" not in case.id
        name = case.id if is_name else f"sample {self._count}"
        self._member(f"samples/{name}_epoch_{case.trial}.json", sample)
        summary: JSON = {member: sample[member] for member in SUMMARY} | {"completed": "error" not in sample}
        self._summaries.add(summary | ({"error": sample["error"]["message"]} if "error" in sample else {}))

    def close(self) -> None:
        self._summaries.close()
        with self._file as file, self._zip.open(_about("summaries.json"), "w") as member:
            file.seek(0)
            while part := file.read(SPOOLED):
                member.write(part)
        self._member("header.json", self._head.document())
        self._zip.close()

    def _member(self, name: str, document: JSON) -> None:
        self._zip.writestr(_about(name), msgspec.json.encode(document))

    def _keep(self, data: bytes) -> None:
        self._file.write(data)


def _about(name: str) -> zipfile.ZipInfo:
    """A member without a time, so that the same run is the same file."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


class _Stream:
    """What an archive is written to: it has no place to go back to."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, data: bytes) -> int:
        self._write(bytes(data))
        return len(data)

    def flush(self) -> None: ...
