"""Parses an evaluation request from JSON (FEP 3.1): cases and outputs are stored as they came, never re-encoded."""

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from assay.concurrency.loop_budget import spend
from assay.concurrency.threads import in_place
from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.fep.execution.inline import any_waits
from assay.fep.planning.plan import ProblemCollector
from assay.fep.planning.request import (
    DistinctCases,
    RequestContexts,
    experiment_from,
    own_problems,
    pairing_problems,
    problems_of_request,
    scorers_of,
)
from assay.fep.records.service import PlannedEvaluation
from assay.inputs.context import (
    Context,
    NotAContext,
    context_of,
    maybe_deep,
    not_json,
    read_context,
    too_deep,
)
from assay.ports import Limits
from assay.protocol.canonical import sorted_json
from assay.protocol.duplicates import TWICE, check_elements, duplicate_around, duplicate_member
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import JSON, is_deeper, is_list, is_object, preview
from assay.protocol.validation_messages import (
    is_number_too_large,
    message_of,
    number_too_large,
    path_in,
    problems_in,
)
from assay.serve.fep.server_state import CachedPlan, PlanCache
from assay.serve.web.request import HttpRequest

T = TypeVar("T")
ABSENT = Raw(b"")
SMALL = 1024 * 1024  # bytes; a larger body is not decoded in one call
TOGETHER = 200  # contexts that are read between two looks at the clock
REFUSED_IN_PLACE = 4 * 1024  # bytes; all problems of a longer body are found in a thread
ARGUMENTS = "resolved_arguments"  # the query parameter
WITHOUT_ARGUMENTS = b"\nresolved_arguments=false"  # in the digest of a request
LONGEST_NAME = 512  # bytes of the name of a run in the store
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_CASE_ALONE = b'{"test_case":%b,"output":{"value":0}}'
_OUTPUT_ALONE = b'{"test_case":{"id":"-","input":0},"output":%b}'


class StreamHeader(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of an NDJSON body."""

    checks: Raw = ABSENT
    experiment_metadata: Raw = ABSENT


class RawRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request whose parts are not parsed yet."""

    test_cases: list[Raw]
    outputs: list[Raw]
    checks: Raw = ABSENT
    experiment_metadata: Raw = ABSENT


class ParsedRequest(Struct, frozen=True):
    """A valid request, with its contexts in memory."""

    planned: PlannedEvaluation
    contexts: list[Context]


PARTS = RawRequest.__struct_fields__
_wire = msgspec.json.Decoder(RawRequest).decode
_head = msgspec.json.Decoder(StreamHeader).decode


def read_request(
    body: bytes, plans: PlanCache, limits: Limits, elements: int, *, arguments: bool = True
) -> ParsedRequest:
    """
    Parse and plan a request. All problems are reported together, each with its place, before anything runs (FEP-33).

    `elements` limits the JSON elements of each part. `arguments`: results include the resolved arguments of checks.
    """
    problems: list[Problem] = []
    try:
        wire = _decoded(_wire, body)
    except InvalidRequest as first:
        check_elements(body, elements)
        document = decode_body(_decode, body)
        problems += problems_of_request(document) or first.problems
        wire = _readable(document)
        body = b""  # `wire` no longer has its content
    if len(body) > elements:
        _check_elements(wire, elements)
    return parse_parts(
        lambda: _contexts(wire, body, limits),
        lambda: experiment_of(bytes(wire.experiment_metadata), limits),
        lambda: plans.get(bytes(wire.checks), arguments=arguments),
        plans,
        problems,
    )


def _readable(document: Any) -> RawRequest:
    """The readable parts of an invalid request, to report what else is wrong with it."""
    members: dict[str, Any] = document if is_object(document) else {}

    def items_of(name: str) -> list[Raw]:
        items = members.get(name)
        return [Raw(_encode(item)) for item in items] if is_list(items) else []

    def part(name: str) -> Raw:
        return Raw(_encode(members[name])) if name in members else ABSENT

    return RawRequest(
        test_cases=items_of("test_cases"),
        outputs=items_of("outputs"),
        checks=part("checks"),
        experiment_metadata=part("experiment_metadata"),
    )


def _check_elements(raw: RawRequest, limit: int) -> None:
    collector = ProblemCollector()
    for name in ("test_cases", "outputs"):
        for at, part in enumerate(getattr(raw, name)):
            if len(part) > limit:
                collector.read(partial(check_elements, bytes(part), limit, f"{name}[{at}]"))
    for name in ("checks", "experiment_metadata"):
        collector.read(partial(check_elements, bytes(getattr(raw, name)), limit, name))
    collector.refuse()


def parse_parts(
    read: Callable[[], RequestContexts],
    name: Callable[[], ExperimentMetadata | None],
    plan: Callable[[], CachedPlan],
    plans: PlanCache,
    problems: Sequence[Problem] = (),
) -> ParsedRequest:
    """Parse a request from functions that read each part. Their problems are reported together with `problems`."""
    collector = ProblemCollector()
    collector.add(problems)
    unread = {problem.place for problem in problems}
    parsed = read()
    if not unread & {"test_cases", "outputs"}:
        collector.add(parsed.problems)
    else:  # one of the lists is missing or invalid, so the other is not too short
        collector.add(problem for problem in parsed.problems if problem.place != "outputs")
    experiment, planned = collector.read(name), collector.read(plan)
    contexts, own = parsed.contexts, 0
    if planned is None:
        collector.add(collector.read(lambda: own_problems(parsed, plans.get(b"").plan)) or ())
    elif planned.plan.shared is None or parsed.refused or any(c.checks is not None for c in contexts):
        scorers = collector.read(lambda: scorers_of(planned.plan, parsed)) or []
        own = sum(len(scorer.checks) for scorer in scorers) if planned.plan.list_count is None else 0
    collector.refuse()
    assert planned is not None
    slow = any_waits(planned.plan, contexts)
    return ParsedRequest(
        PlannedEvaluation(planned.plan, planned.checks, experiment, len(contexts), slow, own), contexts
    )


def read_head(line: bytes) -> StreamHeader:
    return decode_body(_head, line)


def experiment_of(text: bytes, limits: Limits) -> ExperimentMetadata | None:
    if not text:
        return None
    document = decode_body(_decode, text, path="experiment_metadata")
    if maybe_deep(text, limits) and is_deeper(document, limits.max_depth):
        raise InvalidRequest(Problem("experiment_metadata", too_deep(limits)))
    experiment = experiment_from(document)
    name = experiment.name if experiment else ""
    if name and ((long := len(name.encode())) > LONGEST_NAME or "\0" in name):
        message = f"expected at most {LONGEST_NAME} bytes without NUL, got {long} bytes"
        raise InvalidRequest(Problem("experiment_metadata.name", message))
    return experiment


def resolved_arguments_flag(value: str | None, name: str) -> bool:
    """Whether results include the resolved arguments of checks: true unless the client turns it off (FEP-17)."""
    if value not in (None, "true", "false"):
        raise InvalidRequest(Problem(name, f"expected true or false, got {preview(value)}"))
    return value != "false"


def digest_of(body: bytes, *, arguments: bool = True) -> str:
    """The digest of the content of a body, whatever the order of its members and its spaces (openwop-contract §3.6)."""
    digest = hashlib.sha256()
    _decoded(lambda text: sorted_json(text, digest.update), body)
    if not arguments:
        digest.update(WITHOUT_ARGUMENTS)
    return digest.hexdigest()


async def read_json(call: HttpRequest, decode: Callable[[bytes], T], body: bytes) -> T:
    """Decode the JSON body of a request, as `decode_body`: off the event loop if it takes long."""
    return await in_place(lambda: decode_body(decode, body, call.server.limits), len(body))


def decode_body(
    decode: Callable[[bytes], T],
    body: bytes,
    limits: Limits | None = None,
    *,
    parts: Collection[str] = (),
    path: str = "",
) -> T:
    """
    Decode a JSON body; invalid JSON, a wrong type and a member that is there twice are refused.

    `limits`: also check how deep each member is nested. `parts`: members that are decoded later, one by one. `path`: of
    the body.
    """
    value = _decoded(decode, body)
    if parts:
        twice = _decoded(lambda text: duplicate_around(text, parts), body)
    else:
        document: Any = value if decode is _decode else _decoded(_decode, body)
        twice = _decoded(lambda text: duplicate_member(text, document, path), body)
        if limits is not None and maybe_deep(body, limits):
            _check_depth(document, limits)
    if twice is not None:
        raise InvalidRequest(Problem(twice, TWICE))
    return value


def _decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    """Decode a JSON text; invalid JSON or a wrong type is refused."""
    try:
        return decode(body)
    except msgspec.ValidationError as wrong:
        kind = getattr(getattr(decode, "__self__", None), "type", Any)  # `decode` is a method of this decoder
        message = number_too_large(body) if is_number_too_large(wrong) else message_of(wrong, kind)
        first = Problem(path_in(wrong).lstrip("."), message)
        spend(0 if len(body) <= REFUSED_IN_PLACE else math.inf)
        raise InvalidRequest(_all_problems(body, kind) or first) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(not_json(body, wrong)) from None


def _check_depth(document: Any, limits: Limits) -> None:
    members: JSON = document if is_object(document) else {"": document}
    deep = [name for name, value in members.items() if is_deeper(value, limits.max_depth)]
    if deep:
        raise InvalidRequest(Problem(name, too_deep(limits)) for name in deep)


def _all_problems(body: bytes, kind: Any) -> list[Problem]:
    if len(body) > SMALL:
        return []
    try:
        return problems_in(_decode(body), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _contexts(raw: RawRequest, body: bytes, limits: Limits) -> RequestContexts:
    cases, outputs = raw.test_cases, raw.outputs
    lines = [
        b"".join((b'{"test_case":', case, b',"output":', output, b"}"))
        for case, output in zip(cases, outputs, strict=False)
    ]
    if b"\n" in body:  # a stored context is one line
        lines = [msgspec.json.format(line, indent=-1) if b"\n" in line else line for line in lines]
    documents = _documents(body)
    if documents is None:
        if body and (twice := _decoded(lambda text: duplicate_around(text, PARTS), body)) is not None:
            raise InvalidRequest(Problem(twice, TWICE))
        parsed = read_contexts(map(read_context, lines[: limits.max_cases], repeat(limits)))
    else:
        parsed = read_contexts(map(context_of, lines[: limits.max_cases], documents, repeat(limits)))
    problems = pairing_problems(len(cases), len(outputs), limits)
    if not problems:
        return parsed
    problems += parsed.problems
    refused = list(parsed.refused)
    paired = min(len(cases), len(outputs), limits.max_cases)
    for at, case in enumerate(islice(cases, paired, limits.max_cases), paired):
        if len(problems) >= MOST_PROBLEMS:
            break
        spend()
        wrong, checks = _read_half(_CASE_ALONE % bytes(case), at, "test_case", limits)
        problems += wrong
        refused.append((at, checks))
    for at, output in enumerate(islice(outputs, paired, limits.max_cases), paired):
        if len(problems) >= MOST_PROBLEMS:
            break
        spend()
        problems += _read_half(_OUTPUT_ALONE % bytes(output), at, "output", limits)[0]
    return RequestContexts(parsed.contexts, parsed.case_indexes, len(cases), problems, refused)


def _read_half(line: bytes, index: int, name: str, limits: Limits) -> tuple[list[Problem], Any]:
    """The problems and own checks of a case or an output alone. `line` supplies a valid other half."""
    try:
        context = read_context(line, limits)
    except NotAContext as wrong:
        return [_in_request(problem, index, name) for problem in wrong.problems], wrong.checks
    return [], context.checks


def read_contexts(read: "map[Context]") -> RequestContexts:
    """The contexts of a request, and the problems of invalid ones. Two cases with one id are a problem."""
    contexts: list[Context] = []
    refused: dict[int, Any] = {}  # the own checks of invalid cases, by index
    problems: list[Problem] = []
    more = True
    while more and len(problems) < MOST_PROBLEMS:
        spend()
        before = len(contexts)
        try:
            contexts.extend(islice(read, TOGETHER))
            more = len(contexts) == before + TOGETHER
        except NotAContext as wrong:  # `extend` kept the contexts before it, and `map` goes on with the next
            at = len(contexts) + len(refused)
            refused[at] = wrong.checks
            problems += [_in_request(problem, at) for problem in wrong.problems]
    cases = len(contexts) + len(refused)
    places = [at for at in range(cases) if at not in refused] if refused else range(cases)
    if len({context.document["test_case"]["id"] for context in contexts}) < len(contexts):
        distinct = DistinctCases()
        for at, context in zip(places, contexts, strict=True):
            document = context.document["test_case"]
            spend()
            if distinct.differs(document):
                problems.append(distinct.problem(f"test_cases[{at}]", document))
            if len(problems) >= MOST_PROBLEMS:
                break
    return RequestContexts(contexts, places, cases, problems, list(refused.items()))


def _documents(body: bytes) -> list[dict[str, Any]] | None:
    """The contexts of a small body, decoded in one call. None: read them one by one, as one may have a problem."""
    if not body or len(body) > SMALL:
        return None
    try:
        document = _decode(body)
        if duplicate_member(body, document) is not None:
            return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    pairs = zip(document["test_cases"], document["outputs"], strict=False)
    return [{"test_case": case, "output": output} for case, output in pairs]


def _in_request(problem: Problem, index: int, name: str = "test_case") -> Problem:
    """A problem of a context, with its place in the request. A problem without a place belongs to the half `name`."""
    place, message = problem
    for here, there in (("test_case", "test_cases"), ("output", "outputs")):
        if place == here or place.startswith(f"{here}."):
            return Problem(f"{there}[{index}]{place.removeprefix(here)}", message)
    return Problem(f"{name}s[{index}]", message)
