"""
What a worker of a cluster does: it scores a part of the input, and writes its results and then its marker.

A part without a marker is not finished. Two workers that score the same part write the same results.
"""

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from assay.batch.arrow_scorer import ArrowScorer
from assay.batch.dataset_parts import DatasetPart, batches_of, file_system
from assay.batch.summary import Summary
from assay.errors import Refusal
from assay.protocol.json_types import is_list
from assay.settings import load

MARKERS = "_finished"  # a folder: engines that read the results leave out a name that begins so


class PartDone(Struct, frozen=True):
    """What came of a part. `refusal`: why it could not be scored; then the run ends."""

    part: DatasetPart
    summary: Summary | None = None
    earlier: bool = False  # its results were there before
    refusal: str = ""


class Marker(Struct, frozen=True):
    """It stands beside the results of a finished part. `fingerprint`: of its checks and of its range."""

    fingerprint: str
    results: int
    bad_rows: int


def results_path(folder: str, part: DatasetPart) -> str:
    return f"{folder}/part-{part.number:06}.parquet"


def marker_path(folder: str, part: DatasetPart) -> str:
    return f"{folder}/{MARKERS}/part-{part.number:06}.json"


def read_marker(system: Any, folder: str, part: DatasetPart) -> Marker | None:
    """The marker of a finished part; None if it is not finished."""
    with suppress(FileNotFoundError, msgspec.DecodeError):
        return msgspec.json.decode(system.cat_file(marker_path(folder, part)), type=Marker)
    return None


def score_part(
    score: ArrowScorer, part: DatasetPart, address: str, output: str, fingerprint: str
) -> PartDone:
    """Score a part, unless its results are there. `address`: of the input, for its file system."""
    try:
        return _score_part(score, part, address, output, fingerprint)
    except Refusal as refusal:
        return PartDone(part, refusal=f"{part.name}: {refusal}")


def _score_part(
    score: ArrowScorer, part: DatasetPart, address: str, output: str, fingerprint: str
) -> PartDone:
    parquet: Any = import_module("pyarrow.parquet")
    target, folder = file_system(output)
    marker = read_marker(target, folder, part)
    if marker is not None and marker.fingerprint == fingerprint:
        with target.open(results_path(folder, part), "rb") as file:
            return PartDone(part, Summary.of(parquet.read_table(file)), earlier=True)
    arrow: Any = import_module("pyarrow")
    source, _ = file_system(address)
    file = arrow.BufferOutputStream()  # whole before it is stored: a part that fails leaves no rows
    with parquet.ParquetWriter(file, score.schema) as writer:
        for results in _results(score, source, part):
            writer.write_batch(results)
    stored = file.getvalue()
    summary = Summary.of(parquet.read_table(arrow.BufferReader(stored)))
    target.pipe_file(results_path(folder, part), stored.to_pybytes())
    written = Marker(fingerprint, summary.results, summary.bad_rows)
    target.pipe_file(marker_path(folder, part), msgspec.json.encode(written))
    return PartDone(part, summary)


def _results(score: ArrowScorer, source: Any, part: DatasetPart) -> Iterator[Any]:
    for rows in batches_of(source, part, load().limits):
        yield score.score_rows(rows) if is_list(rows) else score(rows)
