"""Turns rows of a table into contexts, cases or outputs, by `--map` or by the usual names of columns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from assay.errors import Problem, UsageError
from assay.errors.door import columns_of
from assay.errors.nearest import did_you_mean
from assay.inputs.cells import Cells
from assay.inputs.column_presets import PRESETS
from assay.protocol.json_types import is_list, is_object, preview

# Maps the columns of a table to test cases and outputs: CSV, Parquet, and JSON rows with names of their own.

ABSENT: Any = object()
Part = Literal["context", "case", "output"]
# of CSV, whose cells are texts; of a table with types and nulls: Parquet and data frames; or an object of JSON
RowKind = Literal["csv", "typed", "json"]
SYNONYMS = {
    "id": ("id", "case id", "test case id"),
    "input": ("input", "question", "prompt", "query"),
    "output": ("output", "answer", "response", "prediction", "completion"),
    "expected": (
        *(
            "expected",
            "expected answer",
            "expected output",
            "gold",
            "gold answer",
            "reference",
            "reference answer",
        ),
        *("correct", "correct answer", "ideal", "ideal answer", "answer key", "target", "label"),
        *("ground truth", "truth"),
    ),
    "tags": ("tags", "tag", "category"),
}
# names of the outputs of one of several models, such as model_a, gpt_4_answer or candidate; never chosen without --map
_OUTPUTS = re.compile(
    "(model|output|answer|response|prediction|completion|system)s? (?P<which>[a-z0-9. ]+)|baseline|candidate"
    "|(?P<whose>[a-z0-9. ]+) (output|answer|response|prediction|completion)"
)
# words of a column that says something about an output, and is none
_MEASURES = re.compile(
    r"\b(name|version|id|type|kind|time|ms|seconds|tokens?|length|len|cost|usd|price|latency|date|score|count"
    r"|label|correct|expected|gold|reference|true|right|best|ideal|target|key|human|rating|grade|url|hash|format)\b"
)
TARGETS = (*SYNONYMS, "metadata.NAME", "preset")
PRESET = "preset"
NEEDED: dict[Part, tuple[str, ...]] = {
    "context": ("input", "output"),
    "case": ("input",),
    "output": ("output",),
}
NO_ID = "the row has no id: give every row one, or leave out the column, and the rows are numbered"
SHOWN = 20  # columns that a refusal lists
_SEPARATORS = re.compile(r"[\s_\-]+")


class UnclearColumns(UsageError):
    """The columns do not say which of them is a part of a case. `outputs` are those that may be the output, if any."""

    def __init__(self, message: str, outputs: Sequence[str] = ()) -> None:
        self.outputs = tuple(outputs)
        super().__init__(message)


def read_map(texts: Iterable[str]) -> dict[str, str]:
    """`["input=question"]` as `{"input": "question"}`. Raises UsageError."""
    columns: dict[str, str] = {}
    for text in texts:
        target, equals, column = (part.strip() for part in text.partition("="))
        if not equals or not target or not column:
            raise UsageError(f"--map: expected TARGET=COLUMN, such as input=question, got {text!r}")
        if target in columns:
            raise UsageError(f"--map: {target} is given twice, as {columns[target]!r} and as {column!r}")
        columns[target] = column
    check_targets(columns, "--map: ")
    return columns


def check_targets(columns: Mapping[str, str], place: str) -> None:
    for target, column in columns.items():
        if target == PRESET and column not in PRESETS:
            raise UsageError(f"{place}{PRESET}: expected one of {', '.join(PRESETS)}, got {column[:100]!r}")
        if target not in (*SYNONYMS, PRESET) and not re.fullmatch(r"metadata\.[^.]+", target):
            raise UsageError(f"{place}expected one of {', '.join(TARGETS)} as the target, got {target!r}")


class ColumnMap(NamedTuple):
    """Where each part of a case is found in a row."""

    part: Part
    columns: dict[str, str]
    chosen: frozenset[
        str
    ]  # the targets that `--map` names: they win over a column with the name of the target
    empty: Any  # an input or output whose cell is empty: "" in CSV, None in tables with nulls; else a problem
    output_members: bool  # the output has columns such as output.value and output.metadata.ms

    def apply(self, cells: Cells, number: int) -> tuple[dict[str, Any], list[Problem]]:
        """The context, case or output of a row, and its problems. `number` becomes the id of a case that has none."""
        parts: dict[str, Any] = {}
        row = cells.row
        columns = {target: self._column(row, target) for target in self.columns}
        problems = (
            [one for column in columns.values() if (one := cells.problem(column))] if cells.infinite else []
        )
        for target, column in columns.items():
            value = find_member(row, column)
            if value is ABSENT and target in ("input", "output"):
                value = self.empty
            if target == "id" and (value is ABSENT or value is None):
                problems.append(Problem(column, NO_ID))
            elif value is ABSENT and target in NEEDED[self.part]:
                problems.append(Problem(column, f"the row has no such member, which is the {target}"))
            parts[target] = value
        _remove_used(row, columns)
        if self.part == "context" and is_object(row.get("test_case")):  # columns such as test_case.id
            inner = row.pop("test_case")
            for name in inner:
                rename_member(row, name, "case")
            row |= inner
        output = parts.pop("output", ABSENT)
        result: Any = None if output is ABSENT else self._output(output)
        if self.part == "output":
            members: dict[str, Any] = result or {}
            for name in members:
                rename_member(row, name, "output")
            return {**row, **members}, problems
        case = self._case(row, parts, number)
        return (case if self.part == "case" else {"test_case": case, "output": result}), problems

    def _column(self, row: dict[str, Any], target: str) -> str:
        """The column of a target. A row that has the name of FEP is read by it, unless `--map` says otherwise."""
        named = target in ("id", "input", "expected") and target in row and target not in self.chosen
        return target if named else self.columns[target]

    def _output(self, output: Any) -> dict[str, Any]:
        if not self.output_members or not is_object(output):
            return {"value": output}
        return output if self.empty is ABSENT else {"value": self.empty, **output}

    def _case(self, row: dict[str, Any], parts: dict[str, Any], number: int) -> dict[str, Any]:
        id = parts.pop("id", ABSENT)
        if id is ABSENT and "id" not in self.columns:
            id = str(number)
        case: dict[str, Any] = {"id": id_text(id)}
        case |= {name: parts.pop(name) for name in ("input", "expected") if name in parts}
        for name in case.keys() & self.chosen:
            rename_member(row, name, "case")
        case |= row
        metadata = dict(row["metadata"]) if is_object(row.get("metadata")) else {}
        if (tags := parts.pop("tags", ABSENT)) is not ABSENT and tags is not None:
            # a column that is called tags is a member of the case
            place = case if self.columns["tags"] == "tags" else metadata
            rename_member(place, "tags", "metadata")
            place["tags"] = _tags(tags, self.columns["tags"])
        for target, value in parts.items():
            name = target.removeprefix("metadata.")
            rename_member(metadata, name, "metadata")
            metadata[name] = value
        if metadata:
            if not is_object(case.get("metadata")):
                rename_member(case, "metadata", "case")
            case["metadata"] = {name: value for name, value in metadata.items() if value is not ABSENT}
        return {name: value for name, value in case.items() if value is not ABSENT}


def find_columns(
    columns: Sequence[str], mapping: Mapping[str, str], part: Part, file: str, *, kind: RowKind
) -> ColumnMap:
    """Choose a column for every target, from `--map` or by the usual names. A UsageError shows the columns."""
    check_targets(mapping, f"{file}: ")
    table = kind != "json"
    bare = [column.removesuffix(":json") for column in columns]
    available = {*bare, *_prefixes(bare)}
    inside = set[str]() if table else available  # the members of a JSON row may be objects
    mapping = _with_preset(mapping, bare, part)
    found = {
        target: one if one in available or one.split(".")[0] in inside else _like(one, bare, columns, file)
        for target, one in mapping.items()
    }
    used = set(found.values())
    targets = [target for target in SYNONYMS if target not in mapping and _concerns(target, part)]
    for target in targets:
        names = [column for column in bare if column not in used and _normal(column) in SYNONYMS[target]]
        if part == "output" and target == "output" and "value" in available:
            names = ["value"]
        # the name of FEP, also for columns such as output.value
        if target in available and target not in used:
            names = [target]
        if target == "output" and names and _may_be_expected(names[0], bare, found):
            raise UnclearColumns(
                f"{file}: {preview(names[0])} may be the output or the expected value; {list_columns(columns)}; "
                f"say {columns_of({'output': 'COLUMN'})}, and {columns_of({'expected': 'COLUMN'})} if there is one"
            )
        if len(names) > 1:
            options = " or ".join(columns_of({target: name}) for name in names)
            raise UnclearColumns(
                f"{file}: several columns may be the {target}: say {options}; {list_columns(columns)}"
            )
        if names:
            found[target] = names[0]
    if part == "case" and "expected" not in found:  # without outputs, an answer is the expected one
        answers = [column for column in bare if _normal(column) == "answer" and column not in used]
        found |= {"expected": answers[0]} if len(answers) == 1 else {}
    inner = {column.removeprefix("test_case.") for column in bare if column.startswith("test_case.")}
    if lacking := [target for target in NEEDED[part] if target not in found and target not in inner]:
        raise _missing_columns(lacking, columns, found, file)
    members = any(column.startswith("output.") for column in bare)
    found = {name: column for name, column in found.items() if name in mapping or name not in inner}
    return ColumnMap(part, found, frozenset(mapping), _EMPTY[kind], members)


def _with_preset(mapping: Mapping[str, str], bare: Sequence[str], part: Part) -> dict[str, str]:
    """The columns that a preset names and the table has, and those that `--map` names, which win."""
    columns = {target: column for target, column in mapping.items() if target != PRESET}
    if PRESET not in mapping:
        return columns
    taken = {*columns.values()}
    known = {
        target: next((name for name in names if name in bare and name not in taken), None)
        for target, names in PRESETS[mapping[PRESET]]._asdict().items()
        if _concerns(target, part)
    }
    return {target: name for target, name in known.items() if name is not None} | columns


def _like(name: str, bare: Sequence[str], columns: Sequence[str], file: str) -> str:
    """The only column that `--map` may mean: spaces, `_`, `-` and case make no difference. Raises UsageError."""
    same = [column for column in bare if _normal(column) == _normal(name)]
    if len(same) == 1:
        return same[0]
    longer = [column for column in bare if f" {_normal(column)} ".find(f" {_normal(name)} ") >= 0]
    hint = f" (did you mean {longer[0]}?)" if len(longer) == 1 else did_you_mean(name, bare, " (", ")")
    raise UsageError(f"{file}: there is no column {name!r}{hint}; {list_columns(columns)}")


def has_expected(columns: Sequence[str], found: ColumnMap) -> bool:
    """Whether a column of the table is the expected value."""
    own = (f"{column.removesuffix(':json')}." for column in columns)
    return "expected" in found.columns or any(one.startswith("test_case.expected.") for one in own)


def _missing_columns(
    lacking: Sequence[str], columns: Sequence[str], found: Mapping[str, str], file: str
) -> UnclearColumns:
    """It proposes only columns that look like outputs."""
    bare = [column.removesuffix(":json") for column in columns]
    outputs = model_columns(bare, found.values()) if lacking == ["output"] else []
    if outputs:
        line = " or ".join(columns_of({"output": name}) for name in outputs)
    else:
        line = columns_of(dict.fromkeys(lacking, "COLUMN"))
    return UnclearColumns(
        f"{file}: no column for {' and '.join(lacking)}; {list_columns(columns)}; say {line}", outputs
    )


def model_columns(columns: Iterable[str], used: Iterable[str] = ()) -> list[str]:
    """The columns that look like the outputs of one of several models."""
    taken = {*used}
    return [column for column in columns if column not in taken and _is_of_model(_normal(column))]


def _is_of_model(name: str) -> bool:
    found = _OUTPUTS.fullmatch(name)
    return found is not None and not _MEASURES.search(found["which"] or found["whose"] or "")


def _may_be_expected(column: str, columns: Sequence[str], found: Mapping[str, str]) -> bool:
    """Whether an `answer` beside the outputs of models may be the expected one: no other column is."""
    known = "expected" in found or any(_normal(one) in SYNONYMS["expected"] for one in columns)
    return _normal(column) == "answer" and not known and bool(model_columns(columns, [column]))


def is_row(document: Any, part: Part) -> bool:
    """Whether a JSON document is a row with columns of its own, and not a context, case or output of FEP."""
    if not is_object(document) or not document:
        return False
    if "test_case" in document:
        return False
    if part == "context":
        return not is_object(document.get("output"))
    return "value" not in document if part == "output" else not {"id", "input"} <= document.keys()


def names_part(row: Mapping[str, Any], part: Literal["input", "output"]) -> bool:
    """Whether a row has a column with a usual name of the input or the output."""
    return any(_normal(column) in SYNONYMS[part] for column in row)


_EMPTY: dict[RowKind, Any] = {"csv": "", "typed": None, "json": ABSENT}


def _remove_used(row: dict[str, Any], columns: Mapping[str, str]) -> None:
    """Remove the columns of targets. A column such as `topic` that is the tags stays a member, for `--by topic`."""
    used = [one for target, one in columns.items() if target != "tags" or _normal(one) in ("tags", "tag")]
    for column in sorted(used, key=len):  # an object before its members
        remove_member(row, column)


def id_text(id: Any) -> Any:
    """A whole number as a text. A column of ids with a missing one has floats in pandas."""
    whole = type(id) is int or (type(id) is float and id.is_integer())
    return str(int(id)) if whole else id


def _tags(value: Any, column: str) -> list[Any]:
    """A list of tags. A text in a column that is called tags may hold several, between commas or semicolons."""
    if is_list(value):
        return value
    if isinstance(value, str) and _normal(column) == "tags":
        return [tag.strip() for tag in re.split("[,;]", value) if tag.strip()]
    return [value]


def _concerns(target: str, part: Part) -> bool:
    return part == "context" or (target == "output") == (part == "output")


def _normal(column: str) -> str:
    return _SEPARATORS.sub(" ", column.strip()).casefold()


def _prefixes(columns: Iterable[str]) -> set[str]:
    return {
        ".".join(parts[:at])
        for column in columns
        for parts in [column.split(".")]
        for at in range(1, len(parts))
    }


def list_columns(columns: Sequence[str]) -> str:
    shown = ", ".join(preview(column) for column in columns[:SHOWN])
    more = f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
    return f"its columns are {shown}{more}" if columns else "it has no columns"


# The members of a row: a dot in the name of a column leads into an object.


def find_member(row: dict[str, Any], column: str) -> Any:
    """The value of a column. A dot leads into an object."""
    inside, name = _holder(row, column)
    return inside.get(name, ABSENT) if is_object(inside) else ABSENT


def remove_member(row: dict[str, Any], column: str) -> None:
    inside, name = _holder(row, column)
    if is_object(inside):
        inside.pop(name, None)


def _holder(row: dict[str, Any], column: str) -> tuple[Any, str]:
    """The object that has a column as a member, and the name of the member."""
    if column in row:
        return row, column
    *outer, last = column.split(".")
    inside: Any = row
    for name in outer:
        inside = inside.get(name) if is_object(inside) else None
    return inside, last


def rename_member(members: dict[str, Any], name: str, prefix: str) -> None:
    """Keep a member under another name, such as `case_expected`, because a column that was named takes its place."""
    if name not in members:
        return
    other = f"{prefix}_{name}"
    while other in members:
        other = f"{prefix}_{other}"
    members[other] = members.pop(name)


ROW_KINDS: dict[str, RowKind] = {"csv": "csv", "parquet": "typed"}


def split_columns(columns: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of the cases, and those of the outputs."""
    every = columns or {}
    of_output = {target: column for target, column in every.items() if target in ("output", PRESET)}
    return {target: column for target, column in every.items() if target != "output"}, of_output
