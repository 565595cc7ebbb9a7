"""Labels of people for the cases of a run: in a member of the cases, in a file, or as corrections of a stored run."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay.comparison.result_files import cell_text, is_file
from assay.errors import BadLine, InvalidRequest, Problem, UsageError
from assay.errors.door import hint_of, place_of
from assay.inputs.files import SourceItem, read_items
from assay.inputs.rows import SYNONYMS, id_text
from assay.ports import Limits
from assay.protocol.annotations import ScoreCorrection
from assay.protocol.foreign_values import plain_value
from assay.protocol.json_types import JSON, is_object, preview
from assay.results.slices import Dimension, read_dimension
from assay.runs.labels import PersonLabel

PASS_WORDS = ("pass", "passed", "true", "yes", "y", "1", "good", "correct", "ok")
FAIL_WORDS = ("fail", "failed", "false", "no", "n", "0", "bad", "incorrect", "wrong")
NO_LABEL = ("", "-", "–", "n/a", "na")
LABEL_COLUMNS = (
    "passed",
    "label",
    "verdict",
)  # of a file with several columns, the first of these has the labels
SHOWN = 20  # columns that a refusal lists
_SEPARATORS = re.compile(r"[\s_\-.]+")
_FILE_COLUMN = re.compile(
    r"(.+\.(?:csv|tsv|jsonl|ndjson|json|yaml|yml|parquet)(?:\.gz)?):([^:/]+)", re.IGNORECASE
)


class LabelSource(Struct, frozen=True):
    """The labels of one annotator: `by_id` has them by the id of a case, else a member of the case has them."""

    name: str
    dimension: Dimension | None = None
    by_id: Mapping[str, Any] | None = None
    in_memory: bool = False  # the name is a place of its own, such as `labels[1]`
    stored: bool = False  # people stored them with the run, and may have none for this judge

    def value(self, context: JSON) -> Any:
        """The label of a case as it was given; None without one."""
        if self.by_id is not None:
            return self.by_id.get(context["test_case"]["id"])
        values = self.dimension.values(context) if self.dimension else []
        if len(values) > 1:
            raise InvalidRequest(
                Problem(self.place, f"expected one label for each case, got {len(values)} values")
            )
        return values[0] if values else None

    @property
    def place(self) -> str:
        """Where the caller named it."""
        return self.name if self.in_memory else place_of("labels", self.name)

    @property
    def reads_output(self) -> bool:
        return self.dimension is not None and self.dimension.query is not None


def read_labels(text: str, limits: Limits) -> LabelSource:
    """`human_a`, a path, `labels.csv` or `labels.csv:human_a`. Raises UsageError or InvalidRequest."""
    with_column = _FILE_COLUMN.fullmatch(text)
    if with_column is not None and not text.startswith("$"):
        return LabelSource(text, by_id=_file_labels(with_column[1], with_column[2], limits))
    if not text.startswith("$") and is_file(text):
        return LabelSource(text, by_id=_file_labels(text, None, limits))
    try:
        return LabelSource(text, read_dimension(text))
    except UsageError as wrong:
        raise UsageError(
            f"{place_of('labels', text)}: expected the name of a member of the cases, a path such as"
            " $.output.metadata.human, or a file such as labels.csv"
        ) from wrong


def mapped_labels(name: str, labels: Mapping[Any, Any]) -> LabelSource:
    """
    The labels of a mapping from the ids of cases. A whole number is its text, as an id of a table; a label that is
    missing, such as NaN, is none. Raises UsageError.
    """
    by_id: dict[str, Any] = {}
    for key, value in labels.items():
        id = id_text(plain_value(key))
        if not isinstance(id, str):
            raise UsageError(f"{name}: expected the ids of cases, texts or whole numbers, got {preview(key)}")
        if id in by_id:
            raise UsageError(f"{name}: the case {preview(id)} is there twice, as a text and as a number")
        label = plain_value(value)
        by_id[id] = None if isinstance(label, float) and label != label else label
    return LabelSource(name, by_id=by_id, in_memory=True)


def _file_labels(name: str, column: str | None, limits: Limits) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    try:
        for item in read_items(name, limits):
            row = _row(item)
            id_column, label_column = _columns(item, row, column)
            key = cell_text(row.get(id_column))
            if not key:
                raise InvalidRequest(Problem(item.location, f"{id_column}: expected the id of a case"))
            if key in labels:
                raise InvalidRequest(
                    Problem(
                        item.location,
                        f"the case {preview(key)} has a label twice; another annotator has a column or a file of"
                        " their own",
                    )
                )
            labels[key] = row.get(label_column)
    except BadLine as bad:
        raise InvalidRequest(bad.problems) from None
    if not labels:
        raise InvalidRequest(Problem(name, "expected rows with the id of a case and a label, got none"))
    return labels


def _row(item: SourceItem) -> JSON:
    if item.problems:
        raise BadLine(item.location, item.problems)
    try:
        row: Any = msgspec.json.decode(item.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem(item.location, f"not JSON: {wrong}")) from None
    if not is_object(row):
        raise InvalidRequest(Problem(item.location, "expected an object with the id of a case and a label"))
    return row


def _columns(item: SourceItem, row: JSON, column: str | None) -> tuple[str, str]:
    """The columns of the id and of the label."""
    columns = item.columns or tuple(row)
    shown = ", ".join(columns[:SHOWN])
    ids = [name for name in columns if _SEPARATORS.sub(" ", name).strip().lower() in SYNONYMS["id"]]
    if not ids:
        raise InvalidRequest(
            Problem(
                item.location, f"expected a column id or test_case_id with the id of the case, got {shown}"
            )
        )
    others = [name for name in columns if name != ids[0]]
    if column is not None:
        if column not in others:
            raise InvalidRequest(Problem(item.location, f"expected a column {column}, got {shown}"))
        return ids[0], column
    usual = [name for name in LABEL_COLUMNS if name in others]
    if usual or len(others) == 1:
        return ids[0], usual[0] if usual else others[0]
    raise InvalidRequest(
        Problem(
            item.location,
            f"expected a column {', '.join(LABEL_COLUMNS[:-1])} or {LABEL_COLUMNS[-1]}, got {shown};"
            " FILE:COLUMN names another",
        )
    )


ANNOTATIONS = "people"  # the name of the labels that are stored with a run, if one person gave them


def stored_labels(people: Mapping[str, Mapping[str, PersonLabel]]) -> list[LabelSource]:
    """The labels that people stored with a run, an annotator for each person."""
    if len(people) < 2:
        labels = {case: label for own in people.values() for case, label in own.items()}
        return [LabelSource(ANNOTATIONS, by_id=labels, stored=True)]
    return [LabelSource(person, by_id=labels, stored=True) for person, labels in people.items()]


def about_check(value: Any, check: str) -> Any:
    """The label of a case as far as it is about this check."""
    if not isinstance(value, PersonLabel):
        return value
    opinion = value.about(check)
    return None if opinion is None else opinion.correction


def is_absent(value: Any) -> bool:
    """Whether a cell has no label: it is null or empty."""
    return value is None or (isinstance(value, str) and value.strip().lower() in NO_LABEL)


def number_in(value: Any) -> float | None:
    """The number of a label; None for any other value."""
    if isinstance(value, ScoreCorrection):
        return None if value.score is UNSET else value.score
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number - number == 0 else None


def read_verdict(value: Any, bar: float | None, location: str) -> bool:
    """Whether a label is a pass. With a bar, a number is a pass from the bar on. Raises InvalidRequest."""
    if isinstance(value, ScoreCorrection) and value.passed is not UNSET:
        return value.passed
    if isinstance(value, bool):
        return value
    number = number_in(value)
    if number is not None and bar is not None:
        return number >= bar
    word = f"{number:g}" if number is not None else str(value).strip().lower()
    if word in PASS_WORDS or word in FAIL_WORDS:
        return word in PASS_WORDS
    hint = (
        f"{hint_of('bar', 'N', 'N')} says from which number on a label is a pass"
        if number is not None
        else f"{hint_of('check', 'CHECK:MEMBER')} compares a text of the judge's answer"
    )
    raise InvalidRequest(
        Problem(
            location,
            f"expected a pass ({', '.join(PASS_WORDS[:4])} …), a fail ({', '.join(FAIL_WORDS[:4])} …) or nothing,"
            f" got {preview(value) if number is None else f'{number:g}'}; {hint}",
        )
    )


def read_category(value: Any) -> str:
    """A label that is compared as a text. `2.0` and `2` are one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    number = number_in(value)
    return str(value).strip() if number is None else f"{number:g}"
