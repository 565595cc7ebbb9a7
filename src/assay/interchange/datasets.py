"""Datasets of flex-evals, pydantic-evals, DeepEval, Ragas and LangSmith: which member is the input, the output, …"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from assay.inputs.files import document_of, format_of, read_items
from assay.interchange.imported import CannotCarry, Imported, ImportReport, Reader, listed, members
from assay.interchange.made_checks import EXPECTED, OUTPUT, At, check, named
from assay.interchange.sources import Candidate, item_of
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object


class Dataset(NamedTuple):
    """
    Where a dataset has what a case needs. The first name that a row has counts; other members are metadata.

    `rows` are members that hold the list of rows, `signs` members that a row of another tool does not have.
    """

    signs: tuple[frozenset[str], ...]
    input: tuple[str, ...]
    output: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    id: tuple[str, ...] = ("id",)
    rows: tuple[str, ...] = ()


DATASETS: dict[str, Dataset] = {
    "flex-evals": Dataset(
        (frozenset(("test_cases", "checks")), frozenset(("test_cases", "outputs"))),
        ("input",),
        expected=("expected",),
        rows=("test_cases",),
    ),
    "pydantic-evals": Dataset(
        (frozenset(("cases",)),), ("inputs",), expected=("expected_output",), id=("name",), rows=("cases",)
    ),
    "deepeval": Dataset(
        (frozenset(("input", "actual_output")), frozenset(("input", "expected_output", "retrieval_context"))),
        ("input",),
        ("actual_output",),
        ("expected_output",),
        ("name", "id"),
        ("goldens", "test_cases"),
    ),
    "ragas": Dataset(
        (
            frozenset(("user_input",)),
            frozenset(("question", "contexts", "answer")),
            frozenset(("question", "contexts", "ground_truth")),
        ),
        ("user_input", "question"),
        ("response", "answer"),
        ("reference", "ground_truth", "ground_truths"),
    ),
    "langsmith": Dataset(
        (frozenset(("inputs", "outputs")), frozenset(("inputs", "dataset_id"))),
        ("inputs",),
        expected=("outputs", "reference_outputs"),
        rows=("examples",),
    ),
}


def recognises(one: Candidate, name: str) -> bool:
    """Whether the members of a file, or of its first row, are those of the dataset."""
    if name == "pydantic-evals" and not _has_inputs(one):
        return False
    return any(sign <= one.members for sign in DATASETS[name].signs)


def _has_inputs(one: Candidate) -> bool:
    if one.format == "json":
        return "cases" in one.members
    rows = listed(one.first, "cases") if is_object(one.first) else []
    return any(is_object(row) and "inputs" in row for row in rows)


def read(files: Sequence[str], report: ImportReport, limits: Limits, name: str) -> Iterator[Imported]:
    """The rows of all files."""
    number = 0
    for file in files:
        rows, general = _rows(file, DATASETS[name], limits)
        own = _checks(name, general, file, report)
        for place, row in rows:
            number += 1
            if not is_object(row):
                report.leave(place, "a row", "it is no object")
                continue
            yield _case(row, number, place, name, own, report)


def _rows(file: str, dataset: Dataset, limits: Limits) -> tuple[Iterator[tuple[str, Any]], JSON]:
    """The rows with their places, and the members beside them."""
    form, _ = format_of(file, "json")
    if form in ("json", "yaml"):
        document = document_of(file, limits)
        if is_object(document):
            member = next((one for one in dataset.rows if is_list(document.get(one))), None)
            found = listed(document, member) if member else [document]
            outputs = listed(document, "outputs") if member == "test_cases" else []
            if outputs:
                found = [
                    {"output": output, **row} if is_object(row) else row
                    for row, output in zip(found, outputs, strict=False)
                ]
            rest = {name: one for name, one in document.items() if name not in (member, "outputs")}
            return ((f"{file}: {member}[{at}]", row) for at, row in enumerate(found)), rest
    return ((item.location, item_of(item)) for item in read_items(file, limits, flat=True)), {}


def _case(
    row: JSON, number: int, place: str, name: str, general: list[tuple[str, JSON]], report: ImportReport
) -> Imported:
    dataset = DATASETS[name]
    taken = {
        *dataset.input,
        *dataset.output,
        *dataset.expected,
        *dataset.id,
        "checks",
        "evaluators",
        "output",
    }
    case: JSON = {"id": str(_first(row, dataset.id) or number), "input": _first(row, dataset.input)}
    expected = _first(row, dataset.expected)
    case |= {} if expected is None else {"expected": expected}
    metadata = dict(members(row, "metadata"))
    metadata |= {
        key: one for key, one in row.items() if key not in taken and key != "metadata" and one is not None
    }
    case |= {"metadata": metadata} if metadata else {}
    output: Any = _first(row, dataset.output)
    recorded = None if output is None else {"value": output}
    if name == "flex-evals" and is_object(row.get("output")):
        recorded = row["output"]
    checks = [*general, *_checks(name, row, place, report)]
    report.carry("rows")
    report.carry("recorded outputs", int(recorded is not None))
    return Imported(case, recorded, named(checks), [], "")


def _first(row: JSON, names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _checks(name: str, holder: JSON, place: str, report: ImportReport) -> list[tuple[str, JSON]]:
    """The checks of flex-evals as they are, and the evaluators of pydantic-evals that have an equal."""
    if name == "flex-evals":
        return [
            (str(one.get("name") or one["type"]), {key: part for key, part in one.items() if key != "name"})
            for one in listed(holder, "checks")
            if is_object(one) and isinstance(one.get("type"), str)
        ]
    if name != "pydantic-evals":
        return []
    made: list[tuple[str, JSON]] = []
    for at, one in enumerate(listed(holder, "evaluators")):
        kind, options = _evaluator(one)
        try:
            if kind not in EVALUATORS:
                raise CannotCarry("there is no check for it")
            made.append((kind, EVALUATORS[kind](options)))
            report.carry(f"evaluator {kind}: {made[-1][1]['type']}")
        except CannotCarry as why:
            report.leave(f"{place}.evaluators[{at}]", f"evaluator {kind}", str(why))
    return made


def _evaluator(one: Any) -> tuple[str, Any]:
    """The name of an evaluator and its arguments: `Name`, `{Name: argument}` or `{Name: {…}}`."""
    if isinstance(one, str):
        return one, {}
    if is_object(one) and len(one) == 1:
        return next(iter(one.items()))
    return "without a name", {}


def _contains(options: Any) -> JSON:
    given: Any = options if is_object(options) else {"value": options}
    if not isinstance(given.get("value"), str) or not given["value"]:
        raise CannotCarry("its value is no text")
    more = {} if given.get("case_sensitive", True) else {"case_sensitive": False}
    return check("contains", text=OUTPUT, phrases=[given["value"]], **more)


def _equals(options: Any) -> JSON:
    value: Any = options["value"] if is_object(options) and "value" in options else options
    return check("json_match", actual=OUTPUT, expected=value)


def _max_duration(options: Any) -> JSON:
    seconds: Any = options.get("seconds") if is_object(options) else options
    if not isinstance(seconds, int | float):
        raise CannotCarry("its duration is no number of seconds")
    return check("threshold", value=At("$.output.metadata.latency_ms"), max_value=seconds * 1000)


EVALUATORS: dict[str, Callable[[Any], JSON]] = {
    "EqualsExpected": lambda _: check("json_match", actual=OUTPUT, expected=EXPECTED),
    "Equals": _equals,
    "Contains": _contains,
    "MaxDuration": _max_duration,
}


def reader_of(name: str) -> Reader:
    """The reader of a dataset."""
    return partial(read, name=name)
