"""A request that is all there: every problem at once, before anything runs (FEP 3.1, decision 33)."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from hashlib import sha256
from typing import Any, TypeGuard

import msgspec

from assay.errors import InvalidRequest, Problem
from assay.fep.context import (
    Context,
    kind_of,
    plain,
    problems_of_case,
    problems_of_output,
    read_checks,
)
from assay.fep.plan import Checks, Plan, gathered
from assay.fep.sheet import Sheet
from assay.ports import Limits
from assay.protocol.canonical import canonical
from assay.protocol.evaluation import Check, ExperimentMetadata
from assay.protocol.misfits import message_of, place_in
from assay.protocol.values import is_list, is_object

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
REQUEST = "checks", "experiment_metadata", "outputs", "test_cases"


def problems_of_request(said: Any) -> list[Problem]:
    """What keeps a document from being a request, its parts aside."""
    if not is_object(said):
        return [Problem("", f"wanted an object with test_cases, outputs and checks, got {kind_of(said)}")]
    members: dict[str, Any] = said
    unknown = [
        Problem(member, f"no such member of a request; there are {', '.join(REQUEST)}")
        for member in members
        if member not in REQUEST
    ]
    return unknown + [
        Problem(name, f"wanted a list, got {kind_of(members[name]) if name in members else 'nothing'}")
        for name in ("test_cases", "outputs")
        if not is_list(members.get(name))
    ]


def contexts_of(test_cases: Sequence[Any], outputs: Sequence[Any], limits: Limits) -> list[Context]:
    """Pairs of a case and its output, as JSON: whatever the caller holds is read as what it would be on the wire."""
    unlike = [
        Problem(name, f"wanted a list, got {kind_of(given)}")
        for name, given in (("test_cases", test_cases), ("outputs", outputs))
        if not is_listing(given)
    ]
    if unlike:
        raise InvalidRequest(unlike)
    if len(test_cases) != len(outputs):
        raise InvalidRequest(
            Problem(
                "outputs", f"{len(outputs)} outputs for {len(test_cases)} test cases: wanted one for each"
            )
        )
    if len(test_cases) > limits.max_cases:
        raise InvalidRequest(
            Problem(
                "test_cases",
                f"{len(test_cases)} cases, and at most {limits.max_cases} are taken (raise it with ASSAY_MAX_CASES)",
            )
        )
    problems: list[Problem] = []
    contexts: list[Context] = []
    cases = DistinctCases()
    for at, (case, output) in enumerate(zip(test_cases, outputs, strict=True)):
        here, there = f"test_cases[{at}]", f"outputs[{at}]"
        case_document, case_text, wrong = plain(case, here, limits)
        output_document, output_text, wrong_output = plain(output, there, limits)
        wrong += wrong_output
        wrong = wrong or problems_of_case(case_document, here) + problems_of_output(output_document, there)
        checks: list[Check] | None = None
        if not wrong and "checks" in case_document:
            checks, wrong = read_checks(case_document.pop("checks"), f"{here}.checks")
            case_text = _encode(case_document)
        if not wrong and cases.differs(case_document):
            wrong = [
                Problem(f"{here}.id", f"{case_document['id']!r} stands for another test case further up")
            ]
        if wrong:
            problems += wrong
            continue
        document = {"test_case": case_document, "output": output_document}
        line = b"".join((b'{"test_case":', case_text, b',"output":', output_text, b"}"))
        contexts.append(Context(line, document, checks))
    if problems:
        raise InvalidRequest(problems)
    return contexts


class DistinctCases:
    """The cases of one request by id. The canonical form of a case is written once, however often its id comes back."""

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
    return sha256(canonical(case).encode("utf-8", "surrogatepass")).digest()


def sheets_of(plan: Plan, contexts: Sequence[Context]) -> list[Sheet]:
    """The checks of every case, so that what is wrong with any of them is said before any is run."""
    if plan.each is not None and plan.each != len(contexts):
        raise InvalidRequest(
            Problem(
                "checks", f"{plan.each} lists of checks for {len(contexts)} test cases: wanted one for each"
            )
        )
    if plan.shared is not None and all(context.checks is None for context in contexts):
        return [plan.shared] * len(contexts)
    return gathered(
        [(f"test_cases[{at}].checks", (at, context)) for at, context in enumerate(contexts)],
        lambda place, pair: plan.sheet(pair[0], pair[1], place),
    )


def checks_from(given: Any, place: str = "checks") -> Checks:
    """Checks as a caller holds them: structs or dicts, one list for all cases or one a case."""
    if given is None:
        return None
    if not is_sequence(given):
        raise InvalidRequest(Problem(place, f"wanted a list of checks, got {kind_of(given)}"))
    lists = [is_sequence(one) for one in given]
    if any(lists) and not all(lists):
        raise InvalidRequest(
            Problem(place, "wanted one list of checks for all cases, or one list a case; got a mixture")
        )
    if any(lists):
        return gathered(
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


def is_sequence(given: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


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
        return msgspec.convert(to_json(given), ExperimentMetadata)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(
            Problem(f"experiment_metadata{place_in(wrong)}", message_of(wrong, ExperimentMetadata))
        ) from None
    except TypeError as wrong:
        raise InvalidRequest(Problem("experiment_metadata", f"not JSON: {wrong}")) from None


def to_json(value: Any) -> Any:
    return _decode(_encode(value))
