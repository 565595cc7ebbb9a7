"""An evaluation request from its bytes (FEP 3.1): cases and outputs are copied through, never written anew."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from assay.errors import InvalidRequest, Problem
from assay.fep.context import Context, NotAContext, context_of, maybe_deep, not_json, read_context, too_deep
from assay.fep.inline import waits
from assay.fep.problems import ProblemCollector
from assay.fep.request import (
    DistinctCases,
    RequestContexts,
    another_case,
    experiment_from,
    own_problems,
    problems_of_request,
    sheets_of,
    unpaired,
)
from assay.fep.scorer_source import ScoredParts
from assay.fep.service import PlannedEvaluation
from assay.ports import Limits
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import JSON, is_deeper, is_list, is_object, preview
from assay.protocol.validation_messages import (
    is_number_too_large,
    message_of,
    number_too_large,
    place_in,
    problems_in,
)
from assay.serve.fep.plan_cache import CachedPlan, PlanCache
from assay.serve.web.footprint import check_elements
from assay.serve.web.sorted_json import sorted_json

T = TypeVar("T")
ABSENT = Raw(b"")
AT_ONCE = 1024 * 1024  # bytes of a body that are decoded in one go
ARGUMENTS = "resolved_arguments"  # a parameter of the query
WITHOUT_ARGUMENTS = b"\nresolved_arguments=false"  # in the digest of a request
LONGEST_NAME = 512  # bytes: what a record is filed under
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_CASE_ALONE = b'{"test_case":%b,"output":{"value":0}}'
_OUTPUT_ALONE = b'{"test_case":{"id":"-","input":0},"output":%b}'


class StreamHeader(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a body of lines."""

    checks: Raw = ABSENT
    experiment_metadata: Raw = ABSENT


class RawRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request whose parts are not read yet."""

    test_cases: list[Raw]
    outputs: list[Raw]
    checks: Raw = ABSENT
    experiment_metadata: Raw = ABSENT


class ParsedRequest(Struct, frozen=True):
    """A request that makes sense, with its contexts in memory; and where what its results are made of goes, if anybody wants it."""

    asked: PlannedEvaluation
    contexts: list[Context]
    told: list[ScoredParts | None] | None = None


_wire = msgspec.json.Decoder(RawRequest).decode
_head = msgspec.json.Decoder(StreamHeader).decode


def read_request(
    body: bytes, plans: PlanCache, limits: Limits, elements: int, *, arguments: bool = True
) -> ParsedRequest:
    """
    Every problem at once, each with its place, before anything runs (decision 33). No part has more elements.

    `arguments`: results say what checks were given.
    """
    problems: list[Problem] = []
    try:
        wire = decoded(_wire, body)
    except InvalidRequest as first:
        check_elements(body, elements)
        said = decoded(_decode, body)
        problems += problems_of_request(said) or first.problems
        wire = _readable(said)
        body = b""  # which is not what is in `wire`
    if len(body) > elements:
        _bounded_parts(wire, elements)
    return parse_parts(
        lambda: _contexts(wire, body, limits),
        lambda: experiment_of(bytes(wire.experiment_metadata), limits),
        lambda: plans.of(bytes(wire.checks), arguments=arguments),
        plans,
        problems,
    )


def _readable(said: Any) -> RawRequest:
    """As much of a request as can be read of what is none, to say what else is wrong with it."""
    members: dict[str, Any] = said if is_object(said) else {}

    def listed(name: str) -> list[Raw]:
        items = members.get(name)
        return [Raw(_encode(one)) for one in items] if is_list(items) else []

    def part(name: str) -> Raw:
        return Raw(_encode(members[name])) if name in members else ABSENT

    return RawRequest(
        test_cases=listed("test_cases"),
        outputs=listed("outputs"),
        checks=part("checks"),
        experiment_metadata=part("experiment_metadata"),
    )


def _bounded_parts(wire: RawRequest, most: int) -> None:
    gathering = ProblemCollector()
    for name in ("test_cases", "outputs"):
        for at, part in enumerate(getattr(wire, name)):
            if len(part) > most:
                gathering.read(partial(check_elements, bytes(part), most, f"{name}[{at}]"))
    for name in ("checks", "experiment_metadata"):
        gathering.read(partial(check_elements, bytes(getattr(wire, name)), most, name))
    gathering.refuse()


def parse_parts(
    read: Callable[[], RequestContexts],
    name: Callable[[], ExperimentMetadata | None],
    plan: Callable[[], CachedPlan],
    plans: PlanCache,
    problems: Sequence[Problem] = (),
) -> ParsedRequest:
    """From what each part of a request is read with; what is wrong with any of them is said together with `problems`."""
    gathering = ProblemCollector()
    gathering.problems += problems
    unread = {problem.place for problem in problems}
    found = read()
    if not unread & {"test_cases", "outputs"}:
        gathering.problems += found.problems
    else:  # one of the lists is none, and the other is not too short
        gathering.problems += [one for one in found.problems if one.place != "outputs"]
    experiment, planned = gathering.read(name), gathering.read(plan)
    contexts, own = found.contexts, 0
    if planned is None:
        gathering.problems += own_problems(found, plans.of(b"").plan)
    elif planned.plan.shared is None or found.refused or any(c.checks is not None for c in contexts):
        sheets = gathering.read(lambda: sheets_of(planned.plan, found)) or []
        own = sum(len(sheet.bounds) for sheet in sheets) if planned.plan.each is None else 0
    gathering.refuse()
    assert planned is not None
    slow = waits(planned.plan, contexts)
    return ParsedRequest(
        PlannedEvaluation(planned.plan, planned.checks, experiment, len(contexts), slow, own), contexts
    )


def read_head(line: bytes) -> StreamHeader:
    return decoded(_head, line)


def experiment_of(text: bytes, limits: Limits) -> ExperimentMetadata | None:
    if not text:
        return None
    document = decoded(_decode, text)
    if maybe_deep(text, limits) and is_deeper(document, limits.max_depth):
        raise InvalidRequest(Problem("experiment_metadata", too_deep(limits)))
    experiment = experiment_from(document)
    name = experiment.name if experiment else ""
    if name and ((long := len(name.encode())) > LONGEST_NAME or "\0" in name):
        said = f"expected at most {LONGEST_NAME} bytes, and no NUL among them, got {long} bytes"
        raise InvalidRequest(Problem("experiment_metadata.name", said))
    return experiment


def shows_arguments(said: str | None, place: str) -> bool:
    """Whether results say what each check was given: unless the caller turns it off (decision 17)."""
    if said not in (None, "true", "false"):
        raise InvalidRequest(Problem(place, f"expected true or false, got {preview(said)}"))
    return said != "false"


def digest_of(body: bytes, *, arguments: bool = True) -> str:
    """Of what a body says, not of how it is written: members sorted, no space (openwop-contract §3.6)."""
    digest = hashlib.sha256()
    decoded(lambda text: sorted_json(text, digest.update), body)
    if not arguments:
        digest.update(WITHOUT_ARGUMENTS)
    return digest.hexdigest()


def decoded(decode: Callable[[bytes], T], body: bytes, limits: Limits | None = None) -> T:
    """`limits`: of how deep each member may be, where nothing further on looks at that."""
    try:
        read = decode(body)
        if limits is not None and maybe_deep(body, limits):
            _shallow(_decode(body), limits)
        return read
    except msgspec.ValidationError as wrong:
        kind = getattr(getattr(decode, "__self__", None), "type", Any)  # the decoder whose method it is
        message = number_too_large(body) if is_number_too_large(wrong) else message_of(wrong, kind)
        first = Problem(place_in(wrong).lstrip("."), message)
        raise InvalidRequest(_all_problems(body, kind) or first) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(not_json(body, wrong)) from None


def _shallow(document: Any, limits: Limits) -> None:
    members: JSON = document if is_object(document) else {"": document}
    deep = [name for name, value in members.items() if is_deeper(value, limits.max_depth)]
    if deep:
        raise InvalidRequest([Problem(name, too_deep(limits)) for name in deep])


def _all_problems(body: bytes, kind: Any) -> list[Problem]:
    if len(body) > AT_ONCE:
        return []
    try:
        return problems_in(_decode(body), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _contexts(wire: RawRequest, body: bytes, limits: Limits) -> RequestContexts:
    cases, outputs = wire.test_cases, wire.outputs
    lines = [
        b"".join((b'{"test_case":', case, b',"output":', output, b"}"))
        for case, output in zip(cases, outputs, strict=False)
    ]
    if b"\n" in body:  # a context is one line wherever it is kept
        lines = [msgspec.json.format(line, indent=-1) if b"\n" in line else line for line in lines]
    documents = _documents(body)
    if documents is None:
        found = read_contexts(map(read_context, lines[: limits.max_cases], repeat(limits)))
    else:
        found = read_contexts(map(context_of, lines[: limits.max_cases], documents, repeat(limits)))
    problems = unpaired(len(cases), len(outputs), limits)
    if not problems:
        return found
    problems += found.problems
    refused = list(found.refused)
    paired = min(len(cases), len(outputs), limits.max_cases)
    for at, case in enumerate(islice(cases, paired, limits.max_cases), paired):
        wrong, checks = _half(_CASE_ALONE % bytes(case), at, "test_case", limits)
        problems += wrong
        refused.append((at, checks))
    for at, output in enumerate(islice(outputs, paired, limits.max_cases), paired):
        problems += _half(_OUTPUT_ALONE % bytes(output), at, "output", limits)[0]
    return RequestContexts(found.contexts, found.places, len(cases), problems, refused)


def _half(line: bytes, at: int, name: str, limits: Limits) -> tuple[list[Problem], Any]:
    """The problems and own checks of a case without an output, or of an output without a case; `line` makes up the other half."""
    try:
        context = read_context(line, limits)
    except NotAContext as wrong:
        return [_placed(problem, at, name) for problem in wrong.problems], wrong.checks
    return [], context.checks


def read_contexts(read: "map[Context]") -> RequestContexts:
    """The contexts of a request, and what is wrong with the others; one id stands for one case."""
    contexts: list[Context] = []
    refused: dict[int, Any] = {}  # the own checks of cases that could not be read, by index
    problems: list[Problem] = []
    while True:
        try:
            contexts.extend(read)
            break
        except NotAContext as wrong:  # what was read before it is there, and a `map` goes on with the next
            at = len(contexts) + len(refused)
            refused[at] = wrong.checks
            problems += [_placed(problem, at) for problem in wrong.problems]
    cases = len(contexts) + len(refused)
    places = [at for at in range(cases) if at not in refused] if refused else range(cases)
    if len({context.document["test_case"]["id"] for context in contexts}) < len(contexts):
        distinct = DistinctCases()
        for at, context in zip(places, contexts, strict=True):
            document = context.document["test_case"]
            if distinct.differs(document):
                problems.append(another_case(f"test_cases[{at}]", document["id"]))
    return RequestContexts(contexts, places, cases, problems, list(refused.items()))


def _documents(body: bytes) -> list[dict[str, Any]] | None:
    """The contexts of a small body at once, which is quicker than one by one; None: one by one, perhaps to find what is wrong."""
    if not body or len(body) > AT_ONCE:
        return None
    try:
        whole = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    pairs = zip(whole["test_cases"], whole["outputs"], strict=False)
    return [{"test_case": case, "output": output} for case, output in pairs]


def _placed(problem: Problem, at: int, name: str = "test_case") -> Problem:
    """A place in a context, as one in the request; what has none is in the half of this name."""
    place, message = problem
    for here, there in (("test_case", "test_cases"), ("output", "outputs")):
        if place == here or place.startswith(f"{here}."):
            return Problem(f"{there}[{at}]{place.removeprefix(here)}", message)
    return Problem(f"{name}s[{at}]", message)
