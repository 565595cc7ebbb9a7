"""A request that is all there: every problem at once, before anything runs (FEP 3.1, decision 33)."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.errors import InvalidRequest, Problem
from assay.fep.context import (
    OPTIONAL_OF_CASE,
    OPTIONAL_OF_OUTPUT,
    Context,
    kind_of,
    own_checks,
    problems_of_case,
    problems_of_output,
    read_checks,
    to_json_document,
    without_nulls,
)
from assay.fep.error_paths import joined, not_encoded
from assay.fep.plan import Checks, Plan, collect_problems
from assay.fep.problems import ProblemCollector, is_sequence, problems_of_checks, to_json
from assay.fep.scorer import Scorer
from assay.ports import Limits, Services
from assay.protocol.canonical import exact
from assay.protocol.evaluation import Check, ExperimentMetadata
from assay.protocol.json_types import is_list, is_object, preview
from assay.protocol.validation_messages import problems_in

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
T = TypeVar("T")
REQUEST = "checks", "experiment_metadata", "outputs", "test_cases"


def problems_of_request(said: Any) -> list[Problem]:
    """What keeps a document from being a request, its parts aside."""
    if not is_object(said):
        return [Problem("", f"expected an object with test_cases, outputs and checks, got {kind_of(said)}")]
    members: dict[str, Any] = said
    unknown = [
        Problem(member, f"no such member of a request; there are {', '.join(REQUEST)}")
        for member in members
        if member not in REQUEST
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
    places: Sequence[int]
    cases: int
    problems: list[Problem]
    refused: Sequence[tuple[int, Any]] = ()


def contexts_of(test_cases: Sequence[Any], outputs: Sequence[Any], limits: Limits) -> list[Context]:
    """Every one of them, or an InvalidRequest with all that is wrong."""
    found = contexts_in(test_cases, outputs, limits)
    if found.problems:
        raise InvalidRequest(found.problems)
    return found.contexts


def contexts_in(test_cases: Sequence[Any], outputs: Sequence[Any], limits: Limits) -> RequestContexts:
    """Pairs of a case and its output, as JSON: whatever the caller holds is read as what it would be on the wire."""
    problems = [
        Problem(name, f"expected a list, got {kind_of(given)}")
        for name, given in (("test_cases", test_cases), ("outputs", outputs))
        if not is_listing(given)
    ]
    listed = not problems
    cases = test_cases if is_listing(test_cases) else ()
    answers = outputs if is_listing(outputs) else ()
    if listed:
        problems += unpaired(len(cases), len(answers), limits)
    contexts: list[Context] = []
    places: list[int] = []
    refused: list[tuple[int, Any]] = []
    distinct = DistinctCases()
    for at, (case, output) in enumerate(islice(zip(cases, answers, strict=False), limits.max_cases)):
        here, there = f"test_cases[{at}]", f"outputs[{at}]"
        case_document, case_text, checks, wrong, own = _case(case, here, limits)
        output_document, output_text, wrong_output = _output(output, there, limits)
        if not wrong and distinct.differs(case_document):
            wrong = [another_case(here, case_document["id"])]
        wrong += wrong_output
        if wrong:
            problems += wrong
            refused.append((at, own))
            continue
        document = {"test_case": case_document, "output": output_document}
        line = b"".join((b'{"test_case":', case_text, b',"output":', output_text, b"}"))
        contexts.append(Context(line, document, checks))
        places.append(at)
    paired = min(len(cases), len(answers), limits.max_cases)
    for at, case in enumerate(islice(cases, paired, limits.max_cases), paired):
        *_, wrong, own = _case(case, f"test_cases[{at}]", limits)
        problems += wrong
        refused.append((at, own))
    for at, output in enumerate(islice(answers, paired, limits.max_cases), paired):
        problems += _output(output, f"outputs[{at}]", limits)[2]
    return RequestContexts(contexts, places, len(cases), problems, refused)


def unpaired(cases: int, outputs: int, limits: Limits) -> list[Problem]:
    """As many of the one as of the other are wanted, and not too many."""
    problems: list[Problem] = []
    if cases != outputs:
        problems.append(
            Problem("outputs", f"{outputs} outputs for {cases} test cases: expected one for each")
        )
    if cases > limits.max_cases:
        said = f"{cases} cases, and at most {limits.max_cases} are taken (raise it with ASSAY_MAX_CASES)"
        problems.append(Problem("test_cases", said))
    return problems


def another_case(place: str, id: str) -> Problem:
    return Problem(f"{place}.id", f"{preview(id)} stands for another test case further up")


def _case(
    given: Any, place: str, limits: Limits
) -> tuple[Any, bytes, list[Check] | None, list[Problem], Any]:
    """The case, its text, its own checks, its problems, and its own checks as the caller wrote them."""
    document, text, wrong = to_json_document(given, place, limits)
    if wrong:
        return document, text, None, wrong, None
    own: Any = None
    checks: list[Check] | None = None
    fewer = b"null" in text and without_nulls(document, OPTIONAL_OF_CASE)
    if is_object(document) and "checks" in document:
        own = document["checks"]
        checks, wrong = own_checks(document, place)
        fewer = True
    return (
        document,
        _encode(document) if fewer else text,
        checks,
        problems_of_case(document, place) + wrong,
        own,
    )


def _output(given: Any, place: str, limits: Limits) -> tuple[Any, bytes, list[Problem]]:
    document, text, wrong = to_json_document(given, place, limits)
    if wrong:
        return document, text, wrong
    if b"null" in text and without_nulls(document, OPTIONAL_OF_OUTPUT):
        text = _encode(document)
    return document, text, problems_of_output(document, place)


class DistinctCases:
    """The cases of one request by id. The exact form of a case is written once, however often its id comes back."""

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


def _digest(case: dict[str, Any]) -> bytes:
    return sha256(exact(case).encode("utf-8", "surrogatepass")).digest()


def sheets_of(plan: Plan, found: RequestContexts) -> list[Scorer]:
    """The checks of every case, so that what is wrong with any of them is said before any is run."""
    gathering = ProblemCollector()
    unequal = plan.each is not None and plan.each != found.cases
    if unequal:
        said = f"{plan.each} lists of checks for {found.cases} test cases: expected one for each"
        gathering.problems.append(Problem("checks", said))
    elif (
        plan.shared is not None
        and not found.refused
        and all(context.checks is None for context in found.contexts)
    ):
        return [plan.shared] * len(found.contexts)
    contexts = [
        (f"test_cases[{at}].checks", (at, context))
        for at, context in zip(found.places, found.contexts, strict=True)
        if not unequal or context.checks is not None
    ]
    sheets = gathering.read(lambda: collect_problems(contexts, lambda place, pair: plan.sheet(*pair, place)))
    gathering.problems += _refused_problems(found, plan)
    gathering.refuse()
    assert sheets is not None
    return sheets


def own_problems(found: RequestContexts, plan: Plan) -> list[Problem]:
    """What is wrong with the checks that cases bring, where those of the request are wrong themselves: `plan` is one without any."""
    gathering = ProblemCollector()
    for at, context in zip(found.places, found.contexts, strict=True):
        if context.checks is not None:
            gathering.read(lambda at=at, context=context: plan.sheet(at, context, f"test_cases[{at}].checks"))
    return gathering.problems + _refused_problems(found, plan)


def _refused_problems(found: RequestContexts, plan: Plan) -> list[Problem]:
    """What else is wrong with the own checks of cases that have problems: what `found` does not say already."""
    refused = [(f"test_cases[{at}]", checks) for at, checks in found.refused if checks is not None]
    known: dict[str, list[Problem]] = {case: [] for case, _ in refused}
    for problem in found.problems if known else ():
        case = problem.place.partition("]")[0] + "]"
        if case in known and problem.place.startswith(f"{case}.checks"):
            known[case].append(problem)
    return [
        problem
        for case, checks in refused
        for problem in plan.problems_of(checks, f"{case}.checks", known[case])
    ]


def plan_of(given: Any, registry: Registry, services: Services, options: ResultOptions | None = None) -> Plan:
    """Of checks as a caller holds them. One that is no check hides nothing that is wrong with the others."""
    try:
        checks = checks_from(given)
    except InvalidRequest as refusal:
        if not is_sequence(given):
            raise
        others = problems_of_checks(given, "checks", registry, services)
        whole = [problem for problem in refusal.problems if problem.place == "checks"]
        raise InvalidRequest(whole + others) from None
    return Plan(checks, registry, services, options)


def checks_from(given: Any, place: str = "checks") -> Checks:
    """Checks as a caller holds them: structs or dicts, one list for all cases or one a case."""
    if given is None:
        return None
    if not is_sequence(given):
        raise InvalidRequest(Problem(place, f"expected a list of checks, got {kind_of(given)}"))
    lists = [is_sequence(one) for one in given]
    if any(lists) and not all(lists):
        raise InvalidRequest(
            Problem(place, "expected one list of checks for all cases, or one list a case; got a mixture")
        )
    if any(lists):
        return collect_problems(
            [(f"{place}[{at}]", one) for at, one in enumerate(given)], lambda at, one: _checks(one, at)
        )
    return _checks(given, place)


def is_listing(given: Any) -> bool:
    """Something with a length to go through, a column of a table of somebody else's too."""
    return (
        isinstance(given, Iterable)
        and isinstance(given, Sized)
        and not isinstance(given, str | bytes | Mapping)
    )


def _checks(given: Sequence[Any], place: str) -> list[Check]:
    if all(isinstance(one, Check) for one in given):
        return list(given)
    checks, problems = read_checks([to_json(one) if isinstance(one, Check) else one for one in given], place)
    if problems:
        raise InvalidRequest(problems)
    return checks


def experiment_from(given: Any) -> ExperimentMetadata | None:
    if given is None or isinstance(given, ExperimentMetadata):
        return given
    try:
        document = to_json(given)
    except (TypeError, ValueError, RecursionError) as wrong:
        place = joined("experiment_metadata", not_encoded(given))
        raise InvalidRequest(Problem(place, f"not JSON: {wrong}")) from None
    if problems := problems_in(document, ExperimentMetadata, "experiment_metadata"):
        raise InvalidRequest(problems)
    return msgspec.convert(document, ExperimentMetadata)
