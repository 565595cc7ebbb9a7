"""
The formats that `assay export --to` writes: one module each.

An export streams: it receives the results of a run as lines, and writes bytes. What was not measured is written as not
measured, never as a score.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.errors import UsageError
from assay.interchange.exports.every_eval_ever import EveryEvalEverAggregate, EveryEvalEverInstances
from assay.interchange.exports.exported import ExportedCase, ExportedRun, Write, read_case
from assay.interchange.exports.inspect_archive import InspectArchive
from assay.interchange.exports.inspect_log import InspectLog
from assay.interchange.exports.openinference import OpenInferenceDataset
from assay.interchange.exports.promptfoo_results import PromptfooResults


class Export(Protocol):
    """Receives the cases of a run in order, then its end."""

    def add(self, case: ExportedCase, /) -> None: ...
    def close(self) -> None: ...


class ExportFormat(NamedTuple):
    """A format: its name, and what writes a file of each of its extensions."""

    name: str
    writers: dict[str, Callable[[ExportedRun, Write], Export]]

    @property
    def extensions(self) -> str:
        return " or ".join(self.writers)


EXPORTS = (
    ExportFormat("inspect", {".eval": InspectArchive, ".json": InspectLog}),
    ExportFormat("every-eval-ever", {".json": EveryEvalEverAggregate, ".jsonl": EveryEvalEverInstances}),
    ExportFormat("promptfoo", {".json": PromptfooResults}),
    ExportFormat("openinference", {".jsonl": OpenInferenceDataset}),
)
NAMES = tuple(one.name for one in EXPORTS)


def writer_of(to: str, name: str) -> Callable[[ExportedRun, Write], Export]:
    """What writes this file in the format `to`. Raises UsageError for another format, or another extension."""
    found = next((one for one in EXPORTS if one.name == to), None)
    if found is None:
        raise UsageError(f"--to: expected one of {', '.join(NAMES)}, got {to!r}")
    for extension, writer in found.writers.items():
        if name.endswith(extension):
            return writer
    raise UsageError(f"{name}: expected a file of {to} that ends in {found.extensions}")


class ExportSink:
    """Reads the lines of results once, and writes them in the format."""

    def __init__(self, run: ExportedRun, to: str, name: str, write: Write) -> None:
        self._export = writer_of(to, name)(run, write)
        self._seen: dict[str, int] = {}  # how often each case has come: trials have no number of their own

    def add(self, line: bytes) -> None:
        self._export.add(read_case(_decode(line), self._seen))

    def close(self) -> None:
        self._export.close()


_decode: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode
