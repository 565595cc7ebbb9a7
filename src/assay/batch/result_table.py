"""Reads results in Arrow: the outcomes of rows are counted by pattern, in columns."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from assay.errors import InvalidRequest, Problem
from assay.extras import require
from assay.fep.outputs.failing_cases import CASES, CHECKS, FailedCheck, FailingCase
from assay.inputs.frames import BATCH, is_frame
from assay.protocol.json_types import kind_of
from assay.protocol.results import Status
from assay.results.statistics import Group
from assay.stats.intervals import Range

NEEDED = ("id", "status", "problem", "checks")


class OutcomePattern(NamedTuple):
    """The outcomes of the checks of a result: one word for each check, and its code as `Answers` has it."""

    words: tuple[str, ...]

    @property
    def code(self) -> int:
        size, code = len(self.words), 0
        for at, word in enumerate(self.words):
            if word == "passed":
                code |= ((1 << size) + 1) << at
            elif word == "failed":
                code |= 1 << size + at
            elif word != "other":
                code |= (3 if word == "error" else 1) << 2 * size
        return code


def _word(status: Status, passed: bool | None) -> str:
    if status != "completed":
        return status
    return "other" if passed is None else "passed" if passed else "failed"


class ResultTable:
    """The results of one part. `len` is the number of results; rows that are no cases are in `bad_rows`."""

    def __init__(self, results: Any) -> None:
        require("assay.batch", "tables", package="pyarrow")
        table = _table_of(results)
        missing = [name for name in NEEDED if name not in table.column_names]
        if missing:
            got = ", ".join(table.column_names[:20]) or "no columns"
            raise InvalidRequest(
                Problem("parts", f"expected results of assay.batch.scorer, got a table with {got}")
            )
        pc: Any = import_module("pyarrow.compute")
        self._pc = pc
        self.bad_rows: int = table.num_rows - table["problem"].null_count
        self._table = table.filter(pc.is_null(table["problem"])) if self.bad_rows else table
        self.labels = _names(table.schema.field("checks").type)
        self.dimensions = _names(table.schema.field("slices").type) if "slices" in table.column_names else ()

    def __len__(self) -> int:
        return self._table.num_rows

    def ids(self) -> Iterator[str]:
        for batch in self._table.select(["id"]).to_batches(max_chunksize=BATCH):
            yield from batch.column(0).to_pylist()

    def statuses(self) -> "Counter[Status]":
        counts = self._pc.value_counts(self._table["status"])
        return Counter({one["values"]: one["counts"] for one in counts.to_pylist()})

    @cached_property
    def _repeated(self) -> bool:
        return self._pc.count_distinct(self._table["id"]).as_py() < len(self)

    @cached_property
    def _outcomes(self) -> Any:
        """The status and the verdict of every check as columns."""
        pa: Any = import_module("pyarrow")
        columns: dict[str, Any] = {}
        for at, label in enumerate(self.labels):
            for name in ("status", "passed"):
                columns[f"{name}{at}"] = self._member(label, name)
        return pa.table(columns) if columns else pa.table({"none": pa.nulls(len(self))})

    def _member(self, label: str, name: str) -> Any:
        at = self.labels.index(label)
        kind = self._table.schema.field("checks").type.field(at).type
        return self._pc.struct_field(self._table["checks"], [at, kind.get_field_index(name)])

    def patterns(self, rows: Any = None) -> Counter[OutcomePattern]:
        """How many results have each pattern of outcomes. `rows`: the numbers of some."""
        outcomes = self._outcomes if rows is None else self._outcomes.take(rows)
        counts = Counter[OutcomePattern]()
        for *cells, many in _counted(outcomes):
            counts[self._pattern(cells)] += many
        return counts

    def _pattern(self, cells: Sequence[Any]) -> OutcomePattern:
        pairs = zip(cells[::2], cells[1::2], strict=True) if self.labels else ()
        return OutcomePattern(tuple(_word(status, passed) for status, passed in pairs))

    def groups(self, rows: Any = None) -> Counter[Group] | None:
        """The outcomes of each case that is repeated, with the number of cases that have them. None: none is."""
        if not self._repeated:
            return None
        outcomes = self._outcomes if rows is None else self._outcomes.take(rows)
        ids = (self._table["id"] if rows is None else self._table["id"].take(rows)).to_pylist()
        codes: dict[tuple[Any, ...], int] = {}
        by_id: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for id, cells in zip(
            ids, zip(*(one.to_pylist() for one in outcomes.columns), strict=True), strict=True
        ):
            code = codes.get(cells)
            if code is None:
                code = codes[cells] = self._pattern(cells).code
            by_id[id].append((0, code))
        return Counter(tuple(sorted(group)) for group in by_id.values())

    def slices(self) -> Iterator[tuple[tuple[str, str], Counter[OutcomePattern], Counter[Group] | None]]:
        """The patterns and the groups of every slice."""
        pc = self._pc
        for at, dimension in enumerate(self.dimensions):
            values = pc.struct_field(self._table["slices"], [at]).combine_chunks()
            rows, names = pc.list_parent_indices(values), pc.list_flatten(values)
            for name in pc.unique(names).to_pylist():
                chosen = rows.filter(pc.equal(names, name))
                yield (dimension, name), self.patterns(chosen), self.groups(chosen)

    def numbers(self) -> Iterator[tuple[str, str, Range | None, Iterable[list[float]]]]:
        """The numbers of each check by name, with their range and the answers of each case."""
        pc, ids = self._pc, self._table["id"]
        for label in self.labels:
            lists = self._member(label, "numbers").combine_chunks()
            flat = pc.list_flatten(lists)
            if not len(flat):
                continue
            owners = ids.take(pc.list_parent_indices(lists)).to_pylist()
            found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
            limits: dict[str, Range | None] = {}
            for id, number in zip(owners, flat.to_pylist(), strict=True):
                name, low = number["name"], number["low"]
                limits.setdefault(name, None if low is None else (low, number["high"]))
                found[name][id].append(number["value"])
            for name, by_id in found.items():
                yield label, name, limits[name], by_id.values()

    def failing(self) -> list[FailingCase]:
        """The cases with the first ids among those that did not pass."""
        pc = self._pc
        failed: Any = None
        for label in self.labels:
            passed = pc.equal(self._member(label, "passed"), False)  # of Arrow
            one = pc.or_(
                pc.not_equal(self._member(label, "status"), "completed"), pc.fill_null(passed, False)
            )
            failed = one if failed is None else pc.or_(failed, one)
        if failed is None:
            return []
        rows = self._table.select(["id", "trial", "checks"]).filter(failed)
        first = sorted(set(rows["id"].to_pylist()), key=lambda id: (len(id), id))[:CASES]
        pa: Any = import_module("pyarrow")
        rows = rows.filter(pc.is_in(rows["id"], pa.array(first, pa.string())))
        cases: dict[Any, FailingCase] = {}
        for row in sorted(rows.to_pylist(), key=lambda row: row["trial"] or 0):
            case = _failing_case(row)
            key = (case.id, tuple(case.checks)) if case.trials else len(cases)
            trials = [*cases[key].trials, *case.trials] if key in cases else case.trials
            cases[key] = FailingCase(case.id, case.checks, trials, case.more)
        return list(cases.values())


def _failing_case(row: Any) -> FailingCase:
    failing = [
        FailedCheck(label, check["reason"] or "")
        for label, check in row["checks"].items()
        if check["status"] != "completed" or check["passed"] is False
    ]
    trials = [] if row["trial"] is None else [row["trial"]]
    return FailingCase(row["id"], failing[:CHECKS], trials, max(0, len(failing) - CHECKS))


def _counted(table: Any) -> Iterator[tuple[Any, ...]]:
    """The distinct rows of a table, each with their number at its end."""
    counted = table.group_by(table.column_names, use_threads=False).aggregate([([], "count_all")])
    columns = [counted[name].to_pylist() for name in (*table.column_names, "count_all")]
    return zip(*columns, strict=True)


def _table_of(results: Any) -> Any:
    pa: Any = import_module("pyarrow")
    if isinstance(results, pa.RecordBatch):
        return pa.Table.from_batches([results])
    if not is_frame(results):
        message = f"expected results of assay.batch.scorer or a Summary, got {kind_of(results)}"
        raise InvalidRequest(Problem("parts", message))
    return results if isinstance(results, pa.Table) else pa.table(results)


def _names(kind: Any) -> tuple[str, ...]:
    return tuple(kind.field(at).name for at in range(kind.num_fields))
