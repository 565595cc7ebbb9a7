"""Pass rates of slices: the cases with one tag, or with one value at a path (FEP-46), in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay import jsonpath
from assay.errors import InvalidRequest, MalformedPath, PathFault, Problem, UsageError
from assay.errors.door import place_of
from assay.errors.nearest import did_you_mean
from assay.protocol.json_types import is_list, is_object
from assay.results.case_answers import Answers, CheckTally
from assay.results.check_names import result_label
from assay.results.columns import BLOCK, SpillFile
from assay.results.run_end import RunFooter
from assay.results.statistics import Statistics, statistics_of
from assay.results.tally import PACK_AFTER
from assay.stats.intervals import Rate

MAX_SLICES = 1_000  # of all dimensions together
NONE = "(none)"  # the slice of the cases without a value
LONGEST = 80  # characters of the name of a slice
MAX_NODES = 10_000
Columns = Mapping[str, list[str]]  # by the name of a column, the names that lead from a context to its cells
_decode = msgspec.json.Decoder().decode


class Dimension(NamedTuple):
    """What `--by` names: `tag`, a member of the case or its metadata, or a path."""

    name: str
    query: jsonpath.Query | None

    def slices_of(self, context: dict[str, Any]) -> list[str]:
        """The slices of a case: one for each tag or value, or NONE."""
        values = self.values(context)
        texts = [_text(one) for value in values for one in (value if is_list(value) else [value])]
        return list(dict.fromkeys(texts)) or [NONE]

    def in_table(self, columns: Columns) -> "Dimension":
        """The same of cases that come from a table: the name of a column means its cells, wherever they stand."""
        place = columns.get(self.name, ()) if self.query is None and self.name != "tag" else ()
        if not place or place in (["test_case", self.name], ["test_case", "metadata", self.name]):
            return self
        path = "".join(f"[{msgspec.json.encode(name).decode()}]" for name in place)
        return Dimension(self.name, jsonpath.compile(f"${path}"))

    def values(self, context: dict[str, Any]) -> list[Any]:
        """What the context has there; empty if it has nothing."""
        if self.query is not None:
            try:
                return self.query.values(context, max_nodes=MAX_NODES)
            except PathFault as fault:
                raise InvalidRequest(Problem(place_of("by", self.name), _too_much(fault))) from None
        case = context["test_case"]
        metadata = case.get("metadata")
        names = ("tags", "tag") if self.name in ("tag", "tags") else (self.name,)
        places = [place for place in (metadata, case) if is_object(place)]
        found = (place[name] for place in places for name in names if place.get(name) is not None)
        value = next(found, None)
        return [] if value is None else [value]


def read_dimension(text: Any) -> Dimension:
    """`tag`, the name of a member, or a JSONPath. Raises UsageError."""
    if not isinstance(text, str) or not text.startswith("$"):
        if not isinstance(text, str) or not text or "=" in text or ":" in text:
            raise UsageError(
                f"{place_of('by')}: expected tag, the name of a member or a path such as $.test_case.metadata.lang,"
                f" got {text!r}"
            )
        return Dimension("tag" if text == "tags" else text, None)
    try:
        return Dimension(text, jsonpath.compile(text))
    except MalformedPath as malformed:
        raise UsageError(f"{place_of('by')}: expected a path, got {text}: {malformed}") from None


MAX_MEMBERS = 50  # that a refusal lists
_NOT_LISTED = ("id", "input", "expected", "metadata")


def note_members(case: dict[str, Any], names: dict[str, None]) -> None:
    """Add the names of the members of a case and its metadata, as many as a refusal lists."""
    metadata = case.get("metadata")
    for part in (metadata if is_object(metadata) else {}, case):
        for name in part:
            if len(names) < MAX_MEMBERS and name not in _NOT_LISTED:
                names.setdefault(name)


def listed_members(names: Iterable[str]) -> str:
    listed = ", ".join(names)[:500]
    return f"the members are {listed}" if listed else "the cases have only id, input and expected"


def require_values(dimension: str, slices: Iterable[str], members: Iterable[str], option: str = "by") -> None:
    """Refuse a name that no case has: it is mistyped. Cases without any tag are no mistake. Raises UsageError."""
    if dimension != "tag" and set(slices) == {NONE}:
        known = list(members)
        raise UsageError(
            f"{place_of(option, dimension)}: no case has a value there; {listed_members(known)}"
            f"{did_you_mean(dimension, known, before='; ')}"
        )


def too_many_slices(dimension: str) -> InvalidRequest:
    message = f"more than {MAX_SLICES:,} slices; choose a member with fewer values"
    return InvalidRequest(Problem(place_of("by", dimension), message))


def _too_much(fault: PathFault) -> str:
    got = str(fault).partition(", which is the limit")[0]
    return f"expected a path to a value of a case, such as $.test_case.metadata.lang; {got}"


def slice_text(name: str) -> str:
    """The name of a slice for a person. One with outer spaces is in quotes, so that two slices never look alike."""
    return repr(name) if name != name.strip() else name


class SliceRates(NamedTuple):
    """The rates of one slice. `passed` and `failed` count checks."""

    dimension: str
    name: str
    passed: int
    failed: int
    statistics: Statistics | None

    @property
    def pass_rate(self) -> Rate | None:
        return self.statistics.pass_rate if self.statistics else None

    @property
    def case_pass_rate(self) -> Rate | None:
        return self.statistics.case_pass_rate if self.statistics else None


class _Slice:
    """The answers of the cases of one slice, for each list of checks that they have."""

    def __init__(self) -> None:
        self.rows: dict[str, CheckTally] = {}
        self.answers: dict[tuple[str, ...], Answers] = {}

    def of(self, labels: tuple[str, ...], aside: SpillFile) -> Answers:
        found = self.answers.get(labels)
        if found is None:
            rows = [self.rows.setdefault(label, CheckTally()) for label in labels]
            found = self.answers[labels] = Answers(labels, rows, {}, aside)
        return found


class SliceSink:
    """A sink of results that counts them by slice. Answers beyond a block are in a temporary file."""

    name = "--by"

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        self._dimensions = dimensions
        self.members: dict[str, None] = {}  # of the cases, for a refusal
        self._slices: dict[tuple[str, str], _Slice] = {}
        self._aside = SpillFile()
        self._loose = self._held = 0

    def write(self, line: bytes) -> None:
        case = _decode(line)
        context, results = case["execution_context"], case["check_results"]
        labels = _labels(results)
        note_members(context["test_case"], self.members)
        for dimension in self._dimensions:
            for name in dimension.slices_of(context):
                self._count(self._slice(dimension.name, name).of(labels, self._aside), context, results)
        if self._loose >= PACK_AFTER:
            self._pack()

    def _slice(self, dimension: str, name: str) -> _Slice:
        key = dimension, name
        found = self._slices.get(key)
        if found is None:
            if len(self._slices) >= MAX_SLICES:
                raise too_many_slices(dimension)
            found = self._slices[key] = _Slice()
        return found

    def _count(self, answers: Answers, context: dict[str, Any], results: list[dict[str, Any]]) -> None:
        id, code = context["test_case"]["id"], 0
        for at, result in enumerate(results):
            code |= answers.record(at, result["status"], _verdict(result["results"]), id)
        answers.close(id, code)
        self._loose += 1

    def _pack(self) -> None:
        """Count the answers and move them to columns; spill the columns to disk when they are large."""
        every = [answers for one in self._slices.values() for answers in one.answers.values()]
        held = 0
        for answers in every:
            answers.fold()
            answers.pack()
            held += answers.column.buffer_size
        self._loose = 0
        if held >= BLOCK:
            for answers in every:
                answers.column.spill()

    def rates(self) -> Iterator[SliceRates]:
        """Yield the rates of every slice: by dimension, and by name."""
        self._pack()
        order = {dimension.name: at for at, dimension in enumerate(self._dimensions)}
        for (dimension, name), one in sorted(
            self._slices.items(), key=lambda item: (order[item[0][0]], item[0][1] == NONE, item[0][1])
        ):
            columns = [(labels, answers.column) for labels, answers in one.answers.items()]
            passed = sum(row.passed for row in one.rows.values())
            failed = sum(row.failed for row in one.rows.values())
            yield SliceRates(dimension, name, passed, failed, statistics_of(columns, {}).statistics)

    def require_values(self) -> None:
        """Refuse a dimension that no case has. Raises UsageError."""
        for dimension in dict.fromkeys(dimension for dimension, _ in self._slices):
            require_values(dimension, (name for by, name in self._slices if by == dimension), self.members)

    def flush(self) -> None:
        """Nothing is written to a file."""

    def close(self, footer: RunFooter) -> None:
        """The rates are read after the run."""


def _labels(results: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(map(result_label, results))


def _verdict(results: dict[str, Any]) -> dict[str, Any]:
    """Only `passed`: a slice has no means."""
    response = results.get("response")
    passed = results.get("passed", response.get("passed") if is_object(response) else None)
    return {"passed": passed}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
