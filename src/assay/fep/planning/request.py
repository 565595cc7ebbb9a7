"""Validates a whole request before anything runs, and reports all its problems (FEP 3.1, FEP-33)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.fep.planning.plan import (
    Checks,
    Plan,
    ProblemCollector,
    collect_problems,
    is_sequence,
    problems_of_checks,
    to_json,
)
from assay.fep.planning.scorer import Scorer
from assay.inputs.context import (
    OPTIONAL_OF_CASE,
    OPTIONAL_OF_OUTPUT,
    Context,
    join_path,
    kind_of,
    own_checks,
    path_of_unencodable,
    problems_of_case,
    problems_of_output,
    read_checks,
    remove_nulls,
    to_json_document,
    usual_context,
)
from assay.ports import Limits, Services
from assay.protocol.canonical import exact
from assay.protocol.evaluation import Check, ExperimentMetadata
from assay.protocol.json_types import is_list, is_object, preview
from assay.protocol.validation_messages import problems_in

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
T = TypeVar("T")
REQUEST = "checks", "experiment_metadata", "outputs", "test_cases"


def problems_of_request(document: Any) -> list[Problem]:
    """The problems of a document as a request, without those of its parts."""
    if not is_object(document):
        return [
            Problem("", f"expected an object with test_cases, outputs and checks, got {kind_of(document)}")
        ]
    members: dict[str, Any] = document
    others = (member for member in members if member not in REQUEST)
    unknown = [
        Problem(member, f"a request has no such member; its members are {', '.join(REQUEST)}")
        for member in islice(others, MOST_PROBLEMS)
    ]
    return unknown + [
        Problem(name, f"expected a list, got {kind_of(members[name]) if name in members else 'nothing'}")
        for name in ("test_cases", "outputs")
        if not is_list(members.get(name))
    ]


class RequestContexts(NamedTuple):
    """
    The contexts of a request, the index of each one's case, the number of cases, and the problems of the others.

    `refused`: the own checks of the cases that have problems, by index, as the caller wrote them.
    """

    contexts: list[Context]
    case_indexes: Sequence[int]
    cases: int
    problems: list[Problem]
    refused: Sequence[tuple[int, Any]] = ()


def contexts_of(test_cases: Sequence[Any], outputs: Sequence[Any], limits: Limits) -> list[Context]:
    """All contexts of a request. Raises InvalidRequest with all problems."""
    request = contexts_in(test_cases, outputs, limits)
    if request.problems:
        raise InvalidRequest(request.problems)
    return request.contexts


def contexts_in(test_cases: Sequence[Any], outputs: Sequence[Any], limits: Limits) -> RequestContexts:
    """Pair each case with its output, as JSON. The caller's objects are read as their JSON would be."""
    problems = [
        Problem(name, f"expected a list, got {kind_of(value)}")
        for name, value in (("test_cases", test_cases), ("outputs", outputs))
        if not is_listing(value)
    ]
    listed = not problems
    cases = test_cases if is_listing(test_cases) else ()
    answers = outputs if is_listing(outputs) else ()
    if listed:
        problems += pairing_problems(len(cases), len(answers), limits)
    contexts: list[Context] = []
    case_indexes: list[int] = []
    refused: list[tuple[int, Any]] = []
    distinct = DistinctCases()
    for at, (case, output) in enumerate(islice(zip(cases, answers, strict=False), limits.max_cases)):
        context = usual_context(case, output, limits)
        if context is not None and not distinct.differs(context.document["test_case"]):
            contexts.append(context)
            case_indexes.append(at)
            continue
        here, there = f"test_cases[{at}]", f"outputs[{at}]"
        case_document, case_text, checks, wrong, own = _read_case(case, here, limits)
        output_document, output_text, wrong_output = _read_output(output, there, limits)
        if not wrong and distinct.differs(case_document):
            wrong = [distinct.problem(here, case_document)]
        wrong += wrong_output
        if wrong:
            problems += wrong
            refused.append((at, own))
            if len(problems) >= MOST_PROBLEMS:
                return RequestContexts(contexts, case_indexes, len(cases), problems, refused)
            continue
        document = {"test_case": case_document, "output": output_document}
        line = b"".join((b'{"test_case":', case_text, b',"output":', output_text, b"}"))
        contexts.append(Context(line, document, checks))
        case_indexes.append(at)
    for at, wrong, own in _read_halves(cases, answers, limits):
        problems += wrong
        if at is not None:
            refused.append((at, own))
        if len(problems) >= MOST_PROBLEMS:
            break
    return RequestContexts(contexts, case_indexes, len(cases), problems, refused)


def _read_halves(
    cases: Sequence[Any], outputs: Sequence[Any], limits: Limits
) -> Iterator[tuple[int | None, list[Problem], Any]]:
    """
    Cases without an output, each with its index, its problems and its own checks; and the problems of outputs without a
    case.
    """
    paired = min(len(cases), len(outputs), limits.max_cases)
    for at, case in enumerate(islice(cases, paired, limits.max_cases), paired):
        *_, wrong, own = _read_case(case, f"test_cases[{at}]", limits)
        yield at, wrong, own
    for at, output in enumerate(islice(outputs, paired, limits.max_cases), paired):
        yield None, _read_output(output, f"outputs[{at}]", limits)[2], None


def pairing_problems(cases: int, outputs: int, limits: Limits) -> list[Problem]:
    """The problems of the counts: there must be one output for each case, and no more cases than the limit."""
    problems: list[Problem] = []
    if cases != outputs:
        problems.append(
            Problem("outputs", f"{outputs} outputs for {cases} test cases: expected one for each")
        )
    if cases > limits.max_cases:
        message = f"{cases} cases; the limit is {limits.max_cases} (raise it with ASSAY_MAX_CASES)"
        problems.append(Problem("test_cases", message))
    return problems


def _read_case(
    value: Any, path: str, limits: Limits
) -> tuple[Any, bytes, list[Check] | None, list[Problem], Any]:
    """The case, its text, its own checks, its problems, and its own checks as the caller wrote them."""
    document, text, problems = to_json_document(value, path, limits)
    if problems:
        return document, text, None, problems, None
    own: Any = None
    checks: list[Check] | None = None
    changed = b"null" in text and remove_nulls(document, OPTIONAL_OF_CASE)
    if is_object(document) and "checks" in document:
        own = document["checks"]
        checks, problems = own_checks(document, path)
        changed = True
    return (
        document,
        _encode(document) if changed else text,
        checks,
        problems_of_case(document, path) + problems,
        own,
    )


def _read_output(value: Any, path: str, limits: Limits) -> tuple[Any, bytes, list[Problem]]:
    document, text, problems = to_json_document(value, path, limits)
    if problems:
        return document, text, problems
    if b"null" in text and remove_nulls(document, OPTIONAL_OF_OUTPUT):
        text = _encode(document)
    return document, text, problems_of_output(document, path)


class DistinctCases:
    """The cases of one request by id. The canonical form of a case is computed once, however often its id occurs."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}
        self._digests: dict[str, bytes] = {}

    def differs(self, case: dict[str, Any]) -> bool:
        """Whether an earlier case with this id is not this case."""
        id: str = case["id"]
        first = self._first.setdefault(id, case)
        if first is case:
            return False
        if id not in self._digests:
            self._digests[id] = _digest(first)
        return _digest(case) != self._digests[id]

    def problem(self, path: str, case: dict[str, Any]) -> Problem:
        """The problem of a case that differs, with the name of a member that is not the same."""
        id, first = case["id"], self._first[case["id"]]
        names = (
            preview(name) for name in first | case if first.get(name, self) != case.get(name, self)
        )  # the type of a number may differ, too
        message = (
            f"{preview(id)} is already the id of another test case: {next(names, 'a number')} differs;"
            " trials of one case are equal, and other cases have other ids"
        )
        return Problem(f"{path}.id", message)


def _digest(case: dict[str, Any]) -> bytes:
    return sha256(exact(case).encode("utf-8", "surrogatepass")).digest()


def scorers_of(plan: Plan, request: RequestContexts) -> list[Scorer]:
    """The scorer of every case. Raises InvalidRequest with the problems of all cases before any check runs."""
    collector = ProblemCollector()
    unequal = plan.list_count is not None and plan.list_count != request.cases
    if unequal:
        message = f"{plan.list_count} lists of checks for {request.cases} test cases: expected one for each"
        collector.add([Problem("checks", message)])
    elif (
        plan.shared is not None
        and not request.refused
        and all(context.checks is None for context in request.contexts)
    ):
        return [plan.shared] * len(request.contexts)
    contexts = [
        (f"test_cases[{at}].checks", (at, context))
        for at, context in zip(request.case_indexes, request.contexts, strict=True)
        if not unequal or context.checks is not None
    ]
    scorers = collector.read(
        lambda: collect_problems(contexts, lambda path, pair: plan.scorer_for(*pair, path))
    )
    collector.add(_other_context_problems(request, plan))
    collector.refuse()
    assert scorers is not None
    return scorers


def own_problems(request: RequestContexts, plan: Plan) -> list[Problem]:
    """The problems of the own checks of cases, for a request whose checks are invalid. `plan` has no checks."""
    collector = ProblemCollector()
    for at, context in zip(request.case_indexes, request.contexts, strict=True):
        if context.checks is not None:
            collector.read(
                lambda at=at, context=context: plan.scorer_for(at, context, f"test_cases[{at}].checks")
            )
    collector.add(_other_context_problems(request, plan))
    return collector.problems


def _other_context_problems(request: RequestContexts, plan: Plan) -> Iterator[Problem]:
    """The problems of the own checks of refused cases that `request` does not report already."""
    refused = [(f"test_cases[{at}]", checks) for at, checks in request.refused if checks is not None]
    reported: dict[str, list[Problem]] = {case: [] for case, _ in refused}
    for problem in request.problems if reported else ():
        case = problem.place.partition("]")[0] + "]"
        if case in reported and problem.place.startswith(f"{case}.checks"):
            reported[case].append(problem)
    for case, checks in refused:
        yield from plan.problems_of(checks, f"{case}.checks", reported[case])


def plan_of(value: Any, registry: Registry, services: Services, options: ResultOptions | None = None) -> Plan:
    """The problems of the caller's checks. Each check is read, whatever is wrong with the others."""
    try:
        checks = checks_from(value)
    except InvalidRequest as refusal:
        if not is_sequence(value):
            raise
        others = problems_of_checks(value, "checks", registry, services)
        list_problems = [problem for problem in refusal.problems if problem.place == "checks"]
        raise InvalidRequest(list_problems + others) from None
    return Plan(checks, registry, services, options)


def checks_from(value: Any, path: str = "checks") -> Checks:
    """The caller's checks: structs or dicts, one list for all cases or one list per case."""
    if value is None:
        return None
    if not is_sequence(value):
        raise InvalidRequest(Problem(path, f"expected a list of checks, got {kind_of(value)}"))
    lists = [is_sequence(one) for one in value]
    if any(lists) and not all(lists):
        raise InvalidRequest(
            Problem(path, "expected one list of checks for all cases, or one list a case; got a mixture")
        )
    if any(lists):
        return collect_problems(
            [(f"{path}[{at}]", one) for at, one in enumerate(value)], lambda at, one: _checks(one, at)
        )
    return _checks(value, path)


def is_listing(value: Any) -> bool:
    """Whether the value has a length and can be iterated. A column of a data frame also counts."""
    return (
        isinstance(value, Iterable)
        and isinstance(value, Sized)
        and not isinstance(value, str | bytes | Mapping)
    )


def _checks(value: Sequence[Any], path: str) -> list[Check]:
    if all(isinstance(one, Check) for one in value):
        return list(value)
    checks, problems = read_checks([to_json(one) if isinstance(one, Check) else one for one in value], path)
    if problems:
        raise InvalidRequest(problems)
    return checks


def experiment_from(value: Any) -> ExperimentMetadata | None:
    if value is None or isinstance(value, ExperimentMetadata):
        return value
    try:
        document = to_json(value)
    except (TypeError, ValueError, RecursionError) as wrong:
        path = join_path("experiment_metadata", path_of_unencodable(value))
        raise InvalidRequest(Problem(path, f"not JSON: {wrong}")) from None
    if problems := problems_in(document, ExperimentMetadata, "experiment_metadata"):
        raise InvalidRequest(problems)
    return msgspec.convert(document, ExperimentMetadata)
