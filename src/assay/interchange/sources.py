"""What a file is, as far as its beginning says: its format, the names of its members, its first document."""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import BadLine, InvalidRequest, Problem, UsageError
from assay.inputs.context import not_json
from assay.inputs.files import FORMATS, SourceItem, document_of, format_of, open_file, read_items
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_finite, is_list, is_object

HEAD = 1 << 20  # bytes of a JSON document that are looked at
ZIP = "zip"
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]', re.DOTALL)


class Candidate(NamedTuple):
    """A file whose tool is looked for. `members` are those of its document, or of its first one."""

    name: str
    format: str  # json, jsonl, yaml, csv, parquet or zip
    members: frozenset[str]
    below: Mapping[str, frozenset[str]]  # the members of its members
    first: Any = None  # the first document of a file of lines or of a list; the whole document of YAML

    def inside(self, member: str) -> frozenset[str]:
        return self.below.get(member, frozenset())


def candidate(name: str, limits: Limits) -> Candidate:
    """Look at the beginning of a file. Raises UsageError for a file that cannot be opened."""
    path = Path(name)
    if path.suffix.lower() == ".eval" or (
        path.is_file() and path.suffix.lower() not in FORMATS and _is_zip(path)
    ):
        return Candidate(name, ZIP, frozenset(), {})
    form, compressed = format_of(name, "json")
    if form == "json":
        with open_file(name, compressed=compressed) as file:
            return _of_json(name, file.read(HEAD).decode("utf-8-sig", errors="replace"))
    if form == "yaml":
        return _of_document(name, form, whole_document(name, limits))
    for item in read_items(name, limits, flat=True):
        return _of_document(name, form, item_of(item))
    return Candidate(name, form, frozenset(), {})


def whole_document(name: str, limits: Limits) -> Any:
    """The document of a file. YAML has NaN and infinity, and JSON has not."""
    document = document_of(name, limits)
    if not is_finite(document):
        raise InvalidRequest(Problem(name, "NaN and infinity are not JSON numbers"))
    return document


def _is_zip(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except OSError:
        return False


def _of_document(name: str, form: str, document: Any) -> Candidate:
    if is_list(document):
        return _of_document(name, form, document[0] if document else None)
    if not is_object(document):
        return Candidate(name, form, frozenset(), {}, document)
    below = {member: frozenset(one) for member, one in document.items() if is_object(one)}
    return Candidate(name, form, frozenset(document), below, document)


def _of_json(name: str, head: str) -> Candidate:
    """The names of the first two levels, from tokens: the document may be larger than what was read."""
    members: set[str] = set()
    below: dict[str, set[str]] = {}
    stack: list[str] = []
    current = ""
    listed = head.lstrip().startswith("[")
    objects = 0
    for found in _TOKEN.finditer(head):
        mark = found[0]
        if mark in "{[":
            stack.append(mark)
            objects += listed and stack == ["[", "{"]
            if objects > 1:  # only the first item of a list
                break
        elif mark in "}]":
            if stack:
                stack.pop()
        elif found[2]:
            level = stack[1:] if listed else stack
            if level == ["{"]:
                current = found[1]
                members.add(current)
            elif level == ["{", "{"]:
                below.setdefault(current, set()).add(found[1])
    first: Any = None
    if listed:
        first = []
    return Candidate(
        name, "json", frozenset(members), {member: frozenset(names) for member, names in below.items()}, first
    )


def item_of(item: SourceItem) -> Any:
    """The document of an item. Raises BadLine for one that is not JSON."""
    if item.problems:
        raise BadLine(item.location, item.problems)
    try:
        return msgspec.json.decode(item.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise BadLine(item.location, [Problem("", not_json(item.raw, wrong))]) from None


def object_of(item: SourceItem) -> JSON:
    """The document of an item, which must be an object."""
    document = item_of(item)
    if not is_object(document):
        raise BadLine(item.location, [Problem("", "expected an object")])
    return document


def folder_file(name: str, known: tuple[str, ...]) -> str:
    """The file of a folder that has one of the known names."""
    path = Path(name)
    if not path.is_dir():
        return name
    found = [one for one in known if (path / one).is_file()]
    if not found:
        raise UsageError(f"{name}: expected a file, or a folder with {', '.join(known)}")
    return str(path / found[0])
