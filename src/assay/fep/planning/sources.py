"""Sources of contexts: a file of contexts, a file of cases and one of outputs, or a request file (FEP-34)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import BadLine, EnvironmentFailure, InvalidRequest, Problem, UsageError
from assay.fep.planning.plan import Plan, ProblemCollector, other_problems
from assay.fep.planning.request import RequestContexts, contexts_in, experiment_from, problems_of_request
from assay.fep.planning.short_checks import expand_checks
from assay.inputs.context import Context, NotAContext, read_context, to_json_document
from assay.inputs.files import (
    BLOCK,
    LineItems,
    SourceItem,
    check_readable,
    document_of,
    format_of,
    lines_of,
    open_file,
    read_items,
)
from assay.inputs.input_digests import InputCheck, InputDigests, digest_of, other_input
from assay.inputs.places import NO_PLACES, InputTable, Places
from assay.inputs.portions import Portion
from assay.inputs.row_files import has_rows, items_of
from assay.inputs.rows import split_columns
from assay.ports import Limits
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import is_list, is_object, kind_of
from assay.traces.trace_case import Price
from assay.traces.trace_files import ReadKept, files_of, trace_items

OnBad = Callable[[BadLine], None]


class Source:
    """
    Iterates over the contexts of an input. `read`: how many bytes of the input are read; `place`: the current item.
    """

    def __init__(
        self,
        items: Iterator[SourceItem] | LineItems,
        limits: Limits,
        on_bad: OnBad | None,
        *,
        rows: bool = False,
        inputs: InputCheck | None = None,
        table: InputTable | None = None,
    ) -> None:
        """
        `rows`: the items are made from rows of a table, so they are not the lines of the file. `table`: its columns.
        """
        self._items, self._limits, self._on_bad, self.rows = items, limits, on_bad, rows
        self._table = table
        self.inputs = inputs or InputDigests()
        self._expected = InputDigests() if rows else None
        self.other_expected = 0  # rows with the id and input of an earlier one, and another expected value
        self.read = 0
        self._item: SourceItem | None = None
        self._line = 0  # the number of the current item, if the items are lines
        self.plan: Plan | None = None  # to find what else is wrong with the checks of a bad line

    def __iter__(self) -> Iterator[Context]:
        """
        Yield the contexts. An item that is not a context is passed to `on_bad`; without `on_bad`, BadLine is raised.
        """
        return self._from_lines(self._items) if isinstance(self._items, LineItems) else self._from_items()

    def _from_lines(self, items: LineItems) -> Iterator[Context]:
        limits, add = self._limits, self.inputs.add
        for self._line, line, self.read in items.lines():
            try:
                context = read_context(line, limits)
            except NotAContext as wrong:
                self.report_bad(wrong.problems + other_problems(wrong, self.plan))
                continue
            case = context.document["test_case"]
            if (earlier := add(case["id"], case["input"], self._line)) is not None:
                self.report_bad([other_input(case["id"], f"{items.name}:{earlier}")])
                continue
            yield context

    @property
    def location(self) -> str:
        """The place of the current item."""
        if isinstance(self._items, LineItems):
            return f"{self._items.name}:{self._line}"
        return "" if self._item is None else self._item.location

    def _from_items(self) -> Iterator[Context]:
        limits = self._limits
        for item in self._items:
            self._item, self.read = item, item.end
            if item.problems:
                self.report_bad(item.problems)
                continue
            try:
                context = read_context(item.raw, limits)
            except NotAContext as wrong:
                self.report_bad(wrong.problems + other_problems(wrong, self.plan))
                continue
            case = context.document["test_case"]
            earlier = self.inputs.add(case["id"], case["input"], item.number)
            if earlier is not None:
                self.report_bad([other_input(case["id"], item.location_of(earlier))])
                continue
            if (
                self._expected
                and self._expected.add(case["id"], case.get("expected"), item.number) is not None
            ):
                self.other_expected += 1
            yield context

    @property
    def columns(self) -> Places:
        """The columns of the table; those of standard input are known with the first row."""
        return NO_PLACES if self._table is None else self._table.places

    @property
    def streamed(self) -> bool:
        """Whether the first item may say more about the columns."""
        return self._table is not None

    def report_bad(self, problems: Sequence[Problem]) -> None:
        """Report that the current item is not a context."""
        bad = BadLine(self.location, problems)
        if self._on_bad is None:
            raise bad
        self._on_bad(bad)


def valid_contexts(
    contexts: Iterable[Context], source: Source | None, plan: Plan, first: int = 0
) -> Iterator[Context]:
    """Yield the contexts that the plan can score. A context with invalid own checks is reported as a bad line."""
    at = first
    if source is not None:
        source.plan = plan
    for context in contexts:
        if plan.shared is None or context.checks is not None:
            try:
                plan.scorer_for(at, context)
            except InvalidRequest as refusal:
                if source is None:
                    raise
                source.report_bad(refusal.problems)
                continue
        at += 1
        yield context


def inputs_before(
    name: str, limits: Limits, identity: tuple[int, int], number: int, start: int = 0
) -> Iterator[tuple[str, int, int]]:
    """
    The id, the digest of the input and the line of each context of a file before line `number`.

    `start`: an offset in the file. Lines that start before it are left out and not counted.
    """
    _, compressed = format_of(name, "jsonl")
    with open_file(name, compressed=compressed) as file:
        if file_identity(name) != identity:
            raise EnvironmentFailure(f"{name}: another file has this name now")
        if start > 0:
            file.seek(start - 1)
            while (rest := file.readline(BLOCK)) and not rest.endswith(b"\n"):
                pass
        for at, text, _ in lines_of(file, limits):
            if at >= number:
                return
            try:
                case = read_context(text, limits).document["test_case"]
            except NotAContext:
                continue  # reported before
            yield case["id"], digest_of(case["input"]), at


def file_identity(name: str) -> tuple[int, int]:
    """The device and the inode of a file."""
    try:
        file = Path(name).stat()
    except OSError as wrong:
        raise EnvironmentFailure(f"{name}: expected a file that can be read, got {wrong.strerror}") from None
    return file.st_dev, file.st_ino


def from_contexts(
    name: str,
    limits: Limits,
    on_bad: OnBad | None,
    columns: Mapping[str, str] | None = None,
    portion: Portion | None = None,
) -> Source:
    """
    Contexts, or rows of a table: `columns` says which column is the input, the output and so on. `portion`: only those.
    """
    table = InputTable()
    rows = has_rows(name, limits, "context", columns, table)
    if not rows and not columns and name != "-" and format_of(name, "jsonl")[0] == "jsonl":
        read_again = (
            partial(inputs_before, name, limits, file_identity(name))
            if Path(name).is_file() and portion is None
            else None
        )
        lines = LineItems(name, limits, portion)
        return Source(lines, limits, on_bad, inputs=InputDigests(read_again))
    items = items_of(name, limits, "context", columns, table, portion)
    return Source(items, limits, on_bad, rows=rows, table=table)


def from_cases(
    cases: str, limits: Limits, on_bad: OnBad | None, columns: Mapping[str, str] | None = None
) -> Source:
    """Cases without outputs, for an agent. Each context has the output null."""
    of_case, _ = split_columns(columns)
    table = InputTable()
    rows = has_rows(cases, limits, "case", of_case, table)
    items = items_of(cases, limits, "case", of_case, table)
    return Source(_with_empty_outputs(cases, items), limits, on_bad, rows=rows, table=table)


def _with_empty_outputs(cases: str, items: Iterable[SourceItem]) -> Iterator[SourceItem]:
    for case in items:
        if case.problems or not _is_json(case.raw):
            yield case  # reported as not a context
        elif _is_context(case.raw):
            message = f"expected a test case, got a test case with its output: use --contexts {cases}"
            yield case._replace(raw=b"", problems=(Problem("", message),))
        else:
            yield case._replace(raw=b'{"test_case":' + case.raw + b',"output":{"value":null}}')


def _is_context(raw: bytes) -> bool:
    document = msgspec.json.decode(raw)
    return is_object(document) and document.keys() == {"test_case", "output"}


def from_traces(
    names: Sequence[str], limits: Limits, on_bad: OnBad | None, price: Price | None, read_kept: ReadKept
) -> Source:
    """One context for each trace, or for each conversation, of files of OTLP, or of what a server keeps."""
    return Source(trace_items(files_of(names), limits, price, read_kept), limits, on_bad)


def from_pair(
    cases: str,
    outputs: str,
    limits: Limits,
    on_bad: OnBad | None,
    columns: Mapping[str, str] | None = None,
) -> Source:
    """Pairs each case with its output. Raises InvalidRequest before anything runs if the files differ in length."""
    of_case, of_output = split_columns(columns)
    table = InputTable()
    if "-" not in (cases, outputs):
        has_rows(cases, limits, "case", of_case, table)
        has_rows(outputs, limits, "output", of_output, table)
        case_count = sum(1 for _ in read_items(cases, limits, member="test_cases"))
        output_count = sum(1 for _ in read_items(outputs, limits, member="outputs"))
        if case_count != output_count:
            raise InvalidRequest(_length_problem(cases, case_count, outputs, output_count))
    elif cases == outputs:
        raise UsageError("--cases and --outputs: expected at most one '-' (standard input), got two")
    else:
        check_readable(cases if outputs == "-" else outputs)
    case_items = items_of(cases, limits, "case", of_case, table)
    output_items = items_of(outputs, limits, "output", of_output, table)
    return Source(_pair_items(cases, outputs, case_items, output_items), limits, on_bad, table=table)


def _pair_items(
    cases: str, outputs: str, case_items: Iterator[SourceItem], output_items: Iterator[SourceItem]
) -> Iterator[SourceItem]:
    for at, (case, output) in enumerate(zip_longest(case_items, output_items)):
        if case is None or output is None:
            longer = f"more than {at}"
            raise InvalidRequest(
                _length_problem(
                    cases, longer if output is None else at, outputs, longer if case is None else at
                )
            )
        broken = next((one for one in (case, output) if one.problems or not _is_json(one.raw)), None)
        if broken is not None:
            yield broken  # reported as not a context
            continue
        raw = b'{"test_case":' + case.raw + b',"output":' + output.raw + b"}"
        yield case._replace(raw=raw, suffix=f" with {output.location}")


def _is_json(raw: bytes) -> bool:
    """Whether the text is one JSON value, so that it can be embedded in a larger text."""
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class RequestFile(NamedTuple):
    """A request file: its contexts, its checks as they are written there, and its problems."""

    contexts: RequestContexts
    checks: Any
    experiment: ExperimentMetadata | None
    problems: list[Problem]


def from_request(name: str, limits: Limits) -> RequestFile:
    """Read a request file. The problems are complete, except for those of the checks, which are not read yet."""
    request = document_of(name, limits)
    collector = ProblemCollector()
    collector.problems += problems_of_request(request)
    members: dict[str, Any] = request if is_object(request) else {}
    parts = {
        part: _as_json(members.get(part), part, limits, collector)
        for part in ("checks", "experiment_metadata")
    }
    cases, outputs = (members.get(part) for part in ("test_cases", "outputs"))
    contexts = contexts_in(cases if is_list(cases) else (), outputs if is_list(outputs) else (), limits)
    listed = is_list(cases) and is_list(outputs)
    collector.problems += [
        one for one in contexts.problems if listed or one.place not in ("test_cases", "outputs")
    ]
    experiment = collector.read(lambda: experiment_from(parts["experiment_metadata"]))
    parts["checks"], wrong = expand_checks(parts["checks"], "checks")
    collector.problems += wrong
    checks: Any = [] if parts["checks"] is None and members.get("checks") is not None else parts["checks"]
    return RequestFile(contexts, checks, experiment, with_file_name(name, collector.problems))


def checks_in(name: str, limits: Limits) -> list[Any]:
    """The checks of a file, as they are written there: a list, or an object with the member `checks`."""
    checks, problems = read_checks(name, limits)
    if problems:
        raise InvalidRequest(with_file_name(name, problems))
    return checks


def read_checks(name: str, limits: Limits) -> tuple[list[Any], list[Problem]]:
    """The checks of a file, and the problems of those that cannot be written out. These have no arguments."""
    document = document_of(name, limits)
    if is_object(document) and document.keys() == {"checks"}:
        document = document["checks"]
    if not is_list(document):
        raise InvalidRequest(
            Problem(
                name,
                f"expected a list of checks, or an object with the member checks, got {kind_of(document)}",
            )
        )
    collector = ProblemCollector()
    checks, wrong = expand_checks(_as_json(document, "checks", limits, collector), "checks")
    return checks, [*collector.problems, *wrong]


def _as_json(value: Any, path: str, limits: Limits, collector: ProblemCollector) -> Any:
    """Convert a value to JSON and collect its problems: a YAML file may contain NaN."""
    document, _, problems = to_json_document(value, path, limits)
    collector.problems += problems
    return document


def with_file_name(name: str, problems: Any) -> list[Problem]:
    return [Problem(": ".join(filter(None, (name, problem.place))), problem.message) for problem in problems]


def _length_problem(cases: str, case_count: int | str, outputs: str, output_count: int | str) -> Problem:
    return Problem(
        "outputs",
        f"{cases} has {case_count} test cases and {outputs} has {output_count} outputs: expected one for each",
    )
