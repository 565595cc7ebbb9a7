"""
Whether a result file is complete. The file itself says so: without that, a part of a run looks like a run.

`metadata.run` has it: of an EvaluationRunResult in `.json`, and of the last result in `.jsonl`. The column `run` of the
last row has it in `.csv`, and the metadata of the file in `.parquet`.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.protocol.json_types import is_object
from assay.protocol.results import EvaluationSummary, Status
from assay.results.run_part import RunPart

MEMBER = "run"
PARQUET_KEY = b"assay.run"
Count = Annotated[int, msgspec.Meta(ge=0)]


class RunEnd(Struct, frozen=True, kw_only=True):
    """
    How many results were planned (None: it is not known), how many there are, and whether that is all.

    A part of a run is never complete; `planned` are then the results of its own cases.
    """

    planned: Count | None
    results: Count
    complete: bool
    part: RunPart | UnsetType = UNSET

    @property
    def missing(self) -> str:
        """What is missing of a run that is not complete."""
        if self.planned is None:
            return f"it has {self.results:,} results, and the run ended early"
        return f"it has {self.results:,} of {self.planned:,} results"


_Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(_Members).decode


def with_end(line: bytes, end: RunEnd) -> bytes:
    """A result with the end of its run in its metadata. Its other members keep their bytes."""
    return _with_member(line, msgspec.Raw(msgspec.json.encode(end)))


def without_end(line: bytes) -> bytes:
    """The result as it was before."""
    return line if end_of_line(line) is None else _with_member(line, None)


def _with_member(line: bytes, end: msgspec.Raw | None) -> bytes:
    members = _members(line)
    metadata = _members(members["metadata"]) if "metadata" in members else {}
    metadata = {name: value for name, value in metadata.items() if name != MEMBER}
    if end is not None:
        metadata[MEMBER] = end
    members = {name: value for name, value in members.items() if name != "metadata"}
    if metadata:
        members["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(members)


def end_of_line(line: bytes) -> RunEnd | None:
    """The end of the run that a result has in its metadata."""
    if b'"complete"' not in line:
        return None
    try:
        members = _members(line)
        return end_in(msgspec.json.decode(members["metadata"])) if "metadata" in members else None
    except (msgspec.DecodeError, RecursionError):
        return None


def end_in(metadata: Any) -> RunEnd | None:
    """The end of the run in some metadata; None if there is none that can be read."""
    if not is_object(metadata) or MEMBER not in metadata:
        return None
    try:
        return msgspec.convert(metadata[MEMBER], RunEnd)
    except msgspec.ValidationError:
        return None


def end_of_text(text: str | bytes) -> RunEnd | None:
    """The end of the run in a cell of a table, or in the metadata of a file."""
    try:
        return msgspec.json.decode(text, type=RunEnd)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class RunFooter(Struct, frozen=True, omit_defaults=True):
    """The members of a run's result other than its cases."""

    evaluation_id: str
    started_at: Any
    completed_at: Any
    status: Status
    summary: EvaluationSummary
    experiment: Any = None
    metadata: Any = None
    error: str = ""  # why the run did not end; not part of its result
    end: RunEnd | None = None  # a file says whether it is complete; not part of the result of a run
