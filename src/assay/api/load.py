"""
The library's readers of files (FEP 2.1, 2.2): `load_cases` and `load_contexts`, also from tables with own columns, and
`read_traces`.
"""

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any

import msgspec

from assay.api.kept_traces import read_kept
from assay.backends.models.prices import published_cost
from assay.errors import BadLine, InvalidRequest, Problem
from assay.inputs.row_files import has_rows, items_of
from assay.inputs.rows import Part
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.settings import load
from assay.traces.trace_files import files_of, trace_items

Document = dict[str, Any]


def load_cases(path: str | PathLike[str], *, map: Mapping[str, str] | None = None) -> list[Document]:
    """
    The test cases of a file: JSONL, JSON, YAML, CSV or Parquet, by its extension.

    `map` names the columns of a table: `{"input": "question", "expected": "gold"}`. The usual names need no map.
    """
    return list(_documents(fspath(path), "case", map))


def load_contexts(
    path: str | PathLike[str], *, map: Mapping[str, str] | None = None
) -> tuple[list[Document], list[Document]]:
    """
    The test cases and the outputs of a file that holds both, for `evaluate`.

        cases, outputs = assay.load_contexts("answers.csv", map={"input": "question", "output": "answer"})
    """
    pairs = list(_documents(fspath(path), "context", map))
    return [pair["test_case"] for pair in pairs], [pair["output"] for pair in pairs]


def read_traces(*paths: str | PathLike[str]) -> list[Document]:
    """
    One context for each trace, or for each conversation, of files of OTLP: .json, .jsonl or .pb, also gzipped.

    A path may be that of a folder of such files, a pattern such as `week/*.jsonl`, or `kept:NAME`: the spans that a
    server keeps for a project.

        result = assay.evaluate_sync(assay.read_traces("traces.jsonl"), checks=checks)
    """
    names, limits = files_of(fspath(path) for path in paths), load().limits
    found: list[Document] = []
    try:
        for piece in trace_items(names, limits, published_cost, read_kept):
            if piece.problems:
                raise BadLine(piece.location, piece.problems)
            found.append(msgspec.json.decode(piece.raw))
    except BadLine as bad:
        raise InvalidRequest(bad.problems) from None
    return found


def _documents(name: str, part: Part, columns: Mapping[str, str] | None) -> Iterator[Document]:
    limits = load().limits
    has_rows(name, limits, part, columns)
    try:
        for piece in items_of(name, limits, part, columns):
            if piece.problems:
                raise BadLine(piece.location, piece.problems)
            yield _document(piece.raw, piece.location, part)
    except BadLine as bad:
        raise InvalidRequest(bad.problems) from None


def _document(raw: bytes, place: str, part: Part) -> Document:
    shape = _SHAPES[part]
    try:
        document = msgspec.json.decode(raw, type=shape)
        twice = duplicate_member(raw, document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(
            f"{place}: expected {'a test case' if part == 'case' else 'a context'}: {wrong}"
        ) from None
    if twice is not None:
        raise InvalidRequest(Problem(f"{place}: {twice}", TWICE))
    return document


_SHAPES: dict[Part, Any] = {"case": dict[str, Any], "context": dict[str, dict[str, Any]]}
