"""Datasets of flex-evals, pydantic-evals, DeepEval, Ragas and LangSmith."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from assay.inputs.column_presets import PRESETS
from assay.inputs.files import format_of, read_items
from assay.interchange.imported import CannotCarry, Imported, ImportReport, Reader, listed, place_in
from assay.interchange.made_checks import EXPECTED, OUTPUT, At, check, named
from assay.interchange.ragas_messages import conversation, is_conversation
from assay.interchange.sources import Candidate, item_of, whole_document
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object


class Dataset(NamedTuple):
    """
    How a dataset is recognised. `rows` are members that hold the list of rows, `signs` members that a row of another
    tool does not have, `checks` a member with the checks of a row.
    """

    signs: tuple[frozenset[str], ...]
    rows: tuple[str, ...] = ()
    checks: str = ""


DATASETS: dict[str, Dataset] = {
    "flex-evals": Dataset(
        (frozenset(("test_cases", "checks")), frozenset(("test_cases", "outputs"))), ("test_cases",), "checks"
    ),
    "pydantic-evals": Dataset((frozenset(("cases",)),), ("cases",), "evaluators"),
    "deepeval": Dataset(
        (
            frozenset(("input", "actual_output")),
            frozenset(("input", "expected_output", "retrieval_context")),
            frozenset(("scenario", "expected_outcome")),
        ),
        ("goldens", "test_cases"),
    ),
    "ragas": Dataset(
        (
            frozenset(("user_input",)),
            frozenset(("question", "contexts", "answer")),
            frozenset(("question", "contexts", "ground_truth")),
        )
    ),
    "langsmith": Dataset(
        (frozenset(("inputs", "outputs")), frozenset(("inputs", "dataset_id"))), ("examples",)
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
        rows, general = _rows(file, name, limits, report)
        own = _checks(name, general, f"{file}: ", report)
        for place, row in rows:
            number += 1
            if not is_object(row):
                report.leave(place, "a row", "it is no object")
                continue
            yield _case(row, number, place, name, own, report)


def _rows(
    file: str, name: str, limits: Limits, report: ImportReport
) -> tuple[Iterator[tuple[str, Any]], JSON]:
    """The rows with their places, and the members beside them."""
    dataset = DATASETS[name]
    form, _ = format_of(file, "json")
    if form not in ("json", "yaml"):
        return ((item.location, item_of(item)) for item in read_items(file, limits, flat=True)), {}
    document = whole_document(file, limits)
    if not is_object(document):
        items = read_items(file, limits, flat=True)
        return ((item.location, item_of(item)) for item in items), {}
    member = next((one for one in dataset.rows if is_list(document.get(one))), None)
    if member is None:
        return iter([(file, document)]), {}
    taken = {member, dataset.checks} | ({"outputs"} if name == "flex-evals" else set[str]())
    report.describe(file, document, taken)
    found = listed(document, member)
    if name == "flex-evals":
        found = _joined(found, document, file, report)
        document = {} if _each_has_own(document) else document
    return ((f"{file}: {member}[{at}]", row) for at, row in enumerate(found)), document


def _each_has_own(document: JSON) -> bool:
    """Whether the checks of flex-evals are a list for each case."""
    checks = listed(document, "checks")
    return bool(checks) and all(is_list(one) for one in checks)


def _joined(cases: list[Any], document: JSON, file: str, report: ImportReport) -> list[Any]:
    """The cases of flex-evals with the outputs and the checks that stand beside them, in their order."""
    beside = {"output": listed(document, "outputs")}
    if _each_has_own(document):
        beside["checks"] = listed(document, "checks")
    for member, several in beside.items():
        if several and len(several) != len(cases):
            count = f"{len(several)} stand beside {len(cases)} test cases"
            report.leave(file, "checks" if member == "checks" else "outputs", count)
        elif several:
            cases = [
                {member: one, **row} if is_object(row) else row
                for row, one in zip(cases, several, strict=True)
            ]
    return cases


def _case(
    row: JSON, number: int, place: str, name: str, general: list[tuple[str, JSON]], report: ImportReport
) -> Imported:
    dataset, preset = DATASETS[name], PRESETS[name]
    found = {part: _name_of(row, names) for part, names in preset._asdict().items()}
    taken = {*found.values(), dataset.checks}
    identity = str(row[found["id"]]) if found["id"] else str(number)
    case: JSON = {"id": identity, "input": row.get(found["input"])}
    case |= {"expected": row[found["expected"]]} if found["expected"] else {}
    given: Any = row.get("metadata")
    metadata: JSON = dict(given) if is_object(given) else {} if given is None else {"metadata": given}
    metadata |= {
        key: one for key, one in row.items() if key not in taken and key != "metadata" and one is not None
    }
    case |= {"metadata": metadata} if metadata else {}
    output: Any = row[found["output"]] if found["output"] else None
    recorded = None if output is None else {"value": output}
    if name == "flex-evals" and is_object(output):
        recorded = output
    if name == "ragas" and is_conversation(case["input"]):
        case["input"], answered = conversation(case["input"], place, report)
        recorded = recorded or answered
    checks = [*general, *_checks(name, row, place, report)]
    report.carry("rows")
    report.carry("recorded outputs", int(recorded is not None))
    judged = [one[1]["type"] in JUDGES for one in checks]
    plain, judges = (
        named([one for one, is_judge in zip(checks, judged, strict=True) if is_judge is wanted])
        for wanted in (False, True)
    )
    return Imported(case, recorded, plain, judges, "")


def _name_of(row: JSON, names: Sequence[str]) -> str:
    """The first of the names that has a value in the row, or an empty text."""
    return next((name for name in names if row.get(name) is not None), "")


def _checks(name: str, holder: JSON, place: str, report: ImportReport) -> list[tuple[str, JSON]]:
    """The checks of flex-evals as they are, and the evaluators of pydantic-evals that have an equal."""
    member = DATASETS[name].checks
    if not member:
        return []
    made: list[tuple[str, JSON]] = []
    if not is_list(holder.get(member) or []):
        report.leave(place_in(place, member), member, "it is no list")
    for at, one in enumerate(listed(holder, member)):
        here = f"{place_in(place, member)}[{at}]"
        if name == "flex-evals":
            if is_object(one) and isinstance(one.get("type"), str):
                unnamed = {key: part for key, part in one.items() if key != "name"}
                made.append((str(one.get("name") or one["type"]), unnamed))
                report.carry(f"check {one['type']}")
            else:
                report.leave(here, "a check", "it has no type")
            continue
        kind, options = _evaluator(one)
        try:
            if kind not in EVALUATORS:
                raise CannotCarry("there is no check for it")
            made.append((kind, EVALUATORS[kind](options)))
            report.carry(f"evaluator {kind}: {made[-1][1]['type']}")
        except CannotCarry as why:
            report.leave(here, f"evaluator {kind}", str(why))
            continue
        if is_object(options):
            report.leave_others(options, _OPTIONS.get(kind, ()), f"{here}.{kind}", f"{kind}.", _WHY)
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


def _llm_judge(options: Any) -> JSON:
    rubric: Any = options.get("rubric") if is_object(options) else options
    if not isinstance(rubric, str) or not rubric:
        raise CannotCarry("its rubric is no text")
    return check("rubric", criteria=[rubric])


JUDGES = frozenset(("rubric",))
_OPTIONS = {
    "Equals": ("value",),
    "Contains": ("value", "case_sensitive"),
    "MaxDuration": ("seconds",),
    "LLMJudge": ("rubric",),
}
_WHY = {
    "model": "the judge asks your model; see [models] in assay.toml",
    "include_input": "the judge has a prompt of its own",
    "include_expected_output": "the judge has a prompt of its own",
    "evaluation_name": "the check has the name of its evaluator",
}
EVALUATORS: dict[str, Callable[[Any], JSON]] = {
    "EqualsExpected": lambda _: check("json_match", actual=OUTPUT, expected=EXPECTED),
    "Equals": _equals,
    "Contains": _contains,
    "MaxDuration": _max_duration,
    "LLMJudge": _llm_judge,
}


def reader_of(name: str) -> Reader:
    """The reader of a dataset."""
    return partial(read, name=name)
