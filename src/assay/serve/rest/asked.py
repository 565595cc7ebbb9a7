"""An evaluation request from its bytes (FEP 3.1): cases and outputs are copied through, never written anew."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from itertools import count, repeat
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from assay.errors import InvalidRequest, Problem
from assay.fep.compiled import Told
from assay.fep.context import Context, NotAContext, context_of, maybe_deep, not_json, read_context, too_deep
from assay.fep.office import Asked
from assay.fep.prompt import waits
from assay.fep.request import DistinctCases, experiment_from, problems_of_request, sheets_of
from assay.ports import Limits
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.misfits import message_of, place_in
from assay.protocol.values import JSON, is_deeper, is_object
from assay.serve.footprint import bounded
from assay.serve.rest.plans import Planned, Plans
from assay.serve.rest.sorted_json import sorted_json

T = TypeVar("T")
ABSENT = Raw(b"")
AT_ONCE = 1024 * 1024  # bytes of a body that are decoded in one go
LONGEST_NAME = 512  # bytes: what a record is filed under
_decode = msgspec.json.Decoder().decode


class Head(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a body of lines."""

    checks: Raw = ABSENT
    experiment_metadata: Raw = ABSENT


class Wire(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request whose parts are not read yet."""

    test_cases: list[Raw]
    outputs: list[Raw]
    checks: Raw = ABSENT
    experiment_metadata: Raw = ABSENT


class Whole(Struct, frozen=True):
    """A request that makes sense, with its contexts in memory; and where what its results are made of goes, if anybody wants it."""

    asked: Asked
    contexts: list[Context]
    told: list[Told | None] | None = None


_wire = msgspec.json.Decoder(Wire).decode
_head = msgspec.json.Decoder(Head).decode


def read_request(body: bytes, plans: Plans, limits: Limits, elements: int) -> Whole:
    """Every problem at once, each with its place, before anything runs (decision 33). No part has more elements."""
    try:
        wire = decoded(_wire, body)
    except InvalidRequest as first:
        bounded(body, elements)
        raise InvalidRequest(problems_of_request(decoded(_decode, body)) or first.problems) from None
    if len(body) > elements:
        _bounded_parts(wire, elements)
    return asked_for(
        lambda: _contexts(wire, body, limits),
        lambda: experiment_of(bytes(wire.experiment_metadata), limits),
        lambda: plans.of(bytes(wire.checks)),
    )


def _bounded_parts(wire: Wire, most: int) -> None:
    problems: list[Problem] = []
    for name in ("test_cases", "outputs"):
        for at, part in enumerate(getattr(wire, name)):
            if len(part) > most:
                _or_problems(partial(bounded, bytes(part), most, f"{name}[{at}]"), problems)
    for name in ("checks", "experiment_metadata"):
        _or_problems(partial(bounded, bytes(getattr(wire, name)), most, name), problems)
    if problems:
        raise InvalidRequest(problems)


def asked_for(
    read: Callable[[], list[Context]],
    name: Callable[[], ExperimentMetadata | None],
    plan: Callable[[], Planned],
) -> Whole:
    """From what each part of a request is read with; what is wrong with any of them is said together."""
    problems: list[Problem] = []
    contexts, experiment, planned = (
        _or_problems(read, problems),
        _or_problems(name, problems),
        _or_problems(plan, problems),
    )
    if problems or planned is None or contexts is None:
        raise InvalidRequest(problems)
    own = 0
    if planned.plan.shared is None or any(context.checks is not None for context in contexts):
        sheets = sheets_of(planned.plan, contexts)
        own = sum(len(sheet.bounds) for sheet in sheets) if planned.plan.each is None else 0
    slow = waits(planned.plan, contexts)
    return Whole(Asked(planned.plan, planned.checks, experiment, len(contexts), slow, own), contexts)


def read_head(line: bytes) -> Head:
    return decoded(_head, line)


def experiment_of(text: bytes, limits: Limits) -> ExperimentMetadata | None:
    if not text:
        return None
    document = decoded(_decode, text)
    if document is None:
        raise InvalidRequest(Problem("experiment_metadata", "wanted an object, got null"))
    if maybe_deep(text, limits) and is_deeper(document, limits.max_depth):
        raise InvalidRequest(Problem("experiment_metadata", too_deep(limits)))
    experiment = experiment_from(document)
    name = experiment.name if experiment else ""
    if name and (len(name.encode()) > LONGEST_NAME or "\0" in name):
        raise InvalidRequest(
            Problem("experiment_metadata.name", f"wanted at most {LONGEST_NAME} bytes, and no NUL among them")
        )
    return experiment


def digest_of(body: bytes) -> str:
    """Of what a body says, not of how it is written: members sorted, no space (openwop-contract §3.6)."""
    digest = hashlib.sha256()
    decoded(lambda text: sorted_json(text, digest.update), body)
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
        raise InvalidRequest(Problem(place_in(wrong).lstrip("."), message_of(wrong, kind))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(not_json(body, wrong)) from None


def _shallow(document: Any, limits: Limits) -> None:
    members: JSON = document if is_object(document) else {"": document}
    deep = [name for name, value in members.items() if is_deeper(value, limits.max_depth)]
    if deep:
        raise InvalidRequest([Problem(name, too_deep(limits)) for name in deep])


def _or_problems(make: Callable[[], T], problems: list[Problem]) -> T | None:
    try:
        return make()
    except InvalidRequest as refusal:
        problems += refusal.problems
        return None


def _contexts(wire: Wire, body: bytes, limits: Limits) -> list[Context]:
    paired(len(wire.test_cases), len(wire.outputs), limits)
    lines = [
        b"".join((b'{"test_case":', case, b',"output":', output, b"}"))
        for case, output in zip(wire.test_cases, wire.outputs, strict=True)
    ]
    if b"\n" in body:  # a context is one line wherever it is kept
        lines = [msgspec.json.format(line, indent=-1) if b"\n" in line else line for line in lines]
    documents = _documents(body)
    if documents is None:
        return gathered(map(read_context, lines, repeat(limits)))
    return gathered(map(context_of, lines, documents, repeat(limits)))


def paired(cases: int, outputs: int, limits: Limits) -> None:
    """As many of the one as of the other, and not too many."""
    if cases != outputs:
        raise InvalidRequest(
            Problem("outputs", f"{outputs} outputs for {cases} test cases: wanted one for each")
        )
    if cases > limits.max_cases:
        said = f"{cases} cases, and at most {limits.max_cases} are taken (raise it with ASSAY_MAX_CASES)"
        raise InvalidRequest(Problem("test_cases", said))


def gathered(read: "map[Context]") -> list[Context]:
    """Every context of a request; one id stands for one case."""
    contexts: list[Context] = []
    places: set[int] = set()  # of what could not be read
    problems: list[Problem] = []
    while True:
        try:
            contexts.extend(read)
            break
        except NotAContext as wrong:  # what was read before it is there, and a `map` goes on with the next
            at = len(contexts) + len(places)
            places.add(at)
            problems += [_placed(problem, at) for problem in wrong.problems]
    if len({context.document["test_case"]["id"] for context in contexts}) < len(contexts):
        problems += _other_cases(contexts, places)
    if problems:
        raise InvalidRequest(problems)
    return contexts


def _other_cases(contexts: Iterable[Context], gaps: Set[int]) -> Iterator[Problem]:
    """Where an id stands for another case than it did before; `gaps` are the places that none of the contexts has."""
    cases = DistinctCases()
    for at, context in zip((at for at in count() if at not in gaps), contexts, strict=False):
        document = context.document["test_case"]
        if cases.differs(document):
            said = f"{document['id']!r} stands for another test case further up"
            yield Problem(f"test_cases[{at}].id", said)


def _documents(body: bytes) -> list[dict[str, Any]] | None:
    """The contexts of a small body at once, which is quicker than one by one; None: one by one, perhaps to find what is wrong."""
    if len(body) > AT_ONCE:
        return None
    try:
        whole = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    pairs = zip(whole["test_cases"], whole["outputs"], strict=True)
    return [{"test_case": case, "output": output} for case, output in pairs]


def _placed(problem: Problem, at: int) -> Problem:
    """A place in a context, as one in the request."""
    place, message = problem
    for here, there in (("test_case", "test_cases"), ("output", "outputs")):
        if place == here or place.startswith(f"{here}."):
            return Problem(f"{there}[{at}]{place.removeprefix(here)}", message)
    return Problem(f"test_cases[{at}]", message)
