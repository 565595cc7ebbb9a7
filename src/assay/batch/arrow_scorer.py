"""
The scorer of `evaluate` as a function of Arrow batches.

It is pickled as its checks and options; the plan is built where it is first used. So Spark, Dask, Ray Data and Daft can
send it to their workers.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from assay.api.arguments import check_arguments
from assay.api.cases_from_rows import RowReader, check_map
from assay.api.evaluate import context_at, with_one_input
from assay.api.evaluation import Checks, execution_options, with_functions, with_short_forms
from assay.backends.provider_config import ProviderPolicy
from assay.batch.result_columns import BatchLayout, ResultColumns, arrow_schema
from assay.checks.runner import ResultOptions
from assay.concurrency.garbage import gc_paused
from assay.errors import InvalidRequest, Problem, UsageError
from assay.extras import require
from assay.fep.execution.execute import Execution, ExecutionOptions
from assay.fep.outputs.resume import fingerprint
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import plan_of
from assay.fep.planning.scorer import ScoredCase
from assay.host import parts
from assay.inputs.context import Context, usual_context
from assay.inputs.frames import columns_of, is_frame, rows_of
from assay.inputs.input_digests import InputDigests
from assay.ports import Services
from assay.protocol.json_types import is_object, kind_of
from assay.results.slices import read_dimension
from assay.results.tally import Tally
from assay.settings import Settings, load

PLACE = "contexts"
NO_ID = (
    "expected a column `id`, because a batch does not know the numbers of its rows; name one with"
    ' columns={"id": COLUMN}'
)


class ScorerOptions(Struct, frozen=True):
    """All that a scorer is made of. It crosses processes."""

    checks: Any
    columns: dict[str, str] | None
    by: tuple[str, ...]
    content: bool
    skip_bad_rows: bool
    tasks: int | None
    timeout: float | None
    concurrency: int | None
    modules: tuple[str, ...]  # with checks, that every process imports
    limits: Any  # of the process that made the scorer


def scorer(
    checks: Checks,
    *,
    columns: Mapping[str, str] | None = None,
    by: str | Sequence[str] = (),
    content: bool = False,
    skip_bad_rows: bool = False,
    tasks: int | None = None,
    timeout: float | None = None,
    concurrency: int | None = None,
    check_modules: Sequence[str] = (),
) -> "ArrowScorer":
    """
    A function that scores every row of a RecordBatch, a table or a data frame, and can be pickled.

        score = assay.batch.scorer(checks, columns={"input": "question", "output": "answer"})
        results = score(table)

    A row has the case and its output, as for `evaluate`, and an id. `columns` names them as `map` of `evaluate` does.
    The results are of the same kind as the rows and in their order: `id`, `trial`, `status`, `problem`, and in `checks`
    a struct for each check. `by` adds the slices of each row; `content` adds the input, the output and the expected
    value. Reasons and messages of errors may quote the output. A row that is not a case is refused; with
    `skip_bad_rows` its status is `error`, and `problem` says why. `tasks` is the number of scorers that run at the same
    time on all machines: judges and remote embedders need it, as each scorer takes its share of a provider's limits.
    `check_modules` have checks, such as `mine:Polite`: every process imports them.
    """
    require("assay.batch", "tables", package="pyarrow")
    check_arguments(by=by)
    check_map(columns)
    names = (by,) if isinstance(by, str) else tuple(by)
    limits = load().limits
    return ArrowScorer(
        ScorerOptions(
            checks, None if columns is None else dict(columns), names, content, skip_bad_rows, tasks, timeout,
            concurrency, tuple(check_modules), limits,
        )
    )  # fmt: skip


class ArrowScorer:
    """A scorer of Arrow batches. `schema` is that of its results."""

    def __init__(self, options: ScorerOptions) -> None:
        self._options = options
        self._lock = threading.Lock()  # of checks that wait: their clients are closed after each batch
        self._settings = msgspec.structs.replace(load(), limits=options.limits)
        self._execution = execution_options(
            self._settings, options.concurrency, options.timeout, None, fail_fast=False, skip_rest=False
        )._replace(deferred=True)
        self._plan = _plan(options, self._settings, self._execution)
        shared = self._plan.shared
        assert shared is not None
        dimensions = [read_dimension(name) for name in options.by]
        self._layout = BatchLayout(shared.labels, shared.ranges, dimensions, options.content)
        self.schema: Any = arrow_schema(self._layout)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowScorer, (self._options,)

    def __call__(self, batch: Any) -> Any:
        """The results of a RecordBatch, a pyarrow table, or a data frame of pandas or polars, as the same kind."""
        pa: Any = import_module("pyarrow")
        if isinstance(batch, pa.RecordBatch):
            return self._score(pa.Table.from_batches([batch]))
        if not is_frame(batch):
            message = f"expected a RecordBatch, a table or a data frame, got {kind_of(batch)}"
            raise InvalidRequest(Problem("batch", message))
        results = self._score(batch)
        if isinstance(batch, pa.Table):
            return pa.Table.from_batches([results])
        if type(batch).__module__.startswith("polars"):
            return import_module("polars").from_arrow(results)
        index: Any = getattr(batch, "index", None)
        return self.to_pandas(results).set_axis(index)

    def to_pandas(self, results: Any = None) -> Any:
        """Results as a data frame with Arrow's types; without an argument the empty one, such as for Dask's `meta`."""
        pandas: Any = import_module("pandas")
        empty = self.schema.empty_table()
        return (empty if results is None else results).to_pandas(types_mapper=pandas.ArrowDtype)

    def score_rows(self, rows: Iterable[Any]) -> Any:
        """
        The results of rows or contexts of JSON as a RecordBatch. A row that is a refusal is one that cannot be read.
        """
        return self._results(_Rows(rows, None, self._options, self._settings))

    @property
    def fingerprint(self) -> str:
        """A digest of the checks with their versions, and of the options that change the results."""
        options = self._options
        checks = fingerprint(self._plan, []).checks
        members = [checks, options.columns, options.by, options.content, options.skip_bad_rows]
        return sha256(msgspec.json.encode(members)).hexdigest()

    @property
    def shares(self) -> int | None:
        """By how many scorers the limits of a provider are divided; None if no check asks a remote model."""
        return self._options.tasks if _asks_models(self._plan.services) else None

    @property
    def check_types(self) -> dict[str, str]:
        """The label of every check with its type."""
        return self._plan.label_types or {}

    def _score(self, frame: Any) -> Any:
        rows = _Rows(rows_of(frame, PLACE), columns_of(frame, PLACE), self._options, self._settings)
        return self._results(rows)

    def _results(self, rows: "_Rows") -> Any:
        execution = Execution(self._plan, rows.contexts(), Tally(), self._execution)
        scored: list[ScoredCase] = []
        if self._plan.shared is not None and self._plan.shared.waits:
            with self._lock:
                self._run(execution, scored)
        else:
            with gc_paused():  # a batch makes many objects and few cycles
                self._run(execution, scored)
        columns = ResultColumns(self._layout, [one.in_table(rows.table) for one in self._layout.dimensions])
        cases = iter(scored)
        for problems in rows.problems:
            if problems is None:
                columns.add_case(next(cases))
            else:
                columns.add_problems(problems)
        return columns.record_batch(self.schema)

    def _run(self, execution: Execution, scored: list[ScoredCase]) -> None:
        scored.extend(execution.score_in_place())
        if execution.is_complete:
            return
        from assay.concurrency.event_loop import run_to_end  # deferred import: asyncio, with TLS
        from assay.fep.execution.stream import stream  # deferred import: the same

        async def run() -> None:
            try:
                scored.extend([case async for case in stream(execution)])
            finally:
                await self._plan.services.close()

        run_to_end(run)


def _plan(options: ScorerOptions, settings: Settings, execution: ExecutionOptions) -> Plan:
    """The plan of the checks, which are the same for all rows. Raises InvalidRequest."""
    if options.tasks is not None and (type(options.tasks) is not int or options.tasks < 1):
        raise InvalidRequest(Problem("tasks", f"expected a whole number above 0, got {options.tasks!r}"))
    policy = ProviderPolicy(seconds=execution.seconds, share=options.tasks or 1)
    services = parts.services(settings, policy)
    checks, registry = with_functions(
        with_short_forms(options.checks), parts.registry(settings, options.modules)
    )
    plan = plan_of(checks, registry, services, ResultOptions())
    if plan.shared is None:
        message = "expected one list of checks for all rows, because the schema of the results depends on it"
        raise InvalidRequest(Problem("checks", message))
    if options.tasks is None and _asks_models(services):
        raise InvalidRequest(
            Problem(
                "tasks",
                "expected the number of scorers that run at the same time on all machines, because a check asks a"
                " remote model whose limits they share; got none",
            )
        )
    return plan


def _asks_models(services: Services) -> bool:
    return services.providers is not None and services.providers.remote


class _Rows:
    """The rows of one batch as contexts. `problems` has an entry for each row that was read: None for a case."""

    def __init__(
        self, rows: Iterable[Any], names: tuple[str, ...] | None, options: ScorerOptions, settings: Settings
    ) -> None:
        """`names`: of the columns of a table; None: the first row says which there are."""
        self._rows, self._settings, self._skip = rows, settings, options.skip_bad_rows
        self._reader = RowReader("context", options.columns or {}, PLACE, names)
        self.problems: list[Sequence[Problem] | None] = []
        self._is_sure_of_ids = "id" in (options.columns or {})
        if names is not None:
            self._require_id()

    @property
    def table(self) -> dict[str, list[str]]:
        """The columns, each with the place of its cells in a context."""
        return self._reader.table

    def _require_id(self) -> None:
        """Refuse rows without ids. Whole contexts, which are no rows of a table, have their own."""
        if self._is_sure_of_ids or not (table := self._reader.table):
            return
        if ["test_case", "id"] not in table.values():
            raise UsageError(f"{PLACE}: {NO_ID}")
        self._is_sure_of_ids = True

    def _context_of(self, document: Any, at: int) -> Context:
        """The context of a document, at once if it is a usual one."""
        usual = None
        if is_object(document) and document.keys() == {"test_case", "output"}:
            usual = usual_context(document["test_case"], document["output"], self._settings.limits)
        return usual or context_at(document, at, self._settings)

    def contexts(self) -> Iterator[Context]:
        inputs = InputDigests()
        for at, row in enumerate(self._rows):
            try:
                if isinstance(row, InvalidRequest):
                    raise row
                document = self._reader.read(row, at)
                if not self._is_sure_of_ids:
                    self._require_id()
                context = with_one_input(self._context_of(document, at), at, inputs)
            except InvalidRequest as refusal:
                if not self._skip:
                    raise
                self.problems.append(refusal.problems)
                continue
            self.problems.append(None)
            yield context
