"""An evaluation request from its bytes (FEP 3.1): cases and outputs are copied through, never written anew."""

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from assay.errors import InvalidRequest, Problem
from assay.fep.context import Context, NotAContext, context_of, message_of, not_json, place_in, read_context
from assay.fep.office import Asked
from assay.fep.prompt import waits
from assay.fep.request import experiment_from, sheets_of
from assay.ports import Limits
from assay.protocol.canonical import canonical
from assay.protocol.evaluation import ExperimentMetadata
from assay.serve.rest.plans import Plans

T = TypeVar("T")
ABSENT = Raw(b"")
AT_ONCE = 1024 * 1024  # bytes of a body that are decoded in one go
LONGEST_NAME = 512  # bytes: what a record is filed under
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
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
    """A request that makes sense, with its contexts in memory."""

    asked: Asked
    contexts: list[Context]


_wire = msgspec.json.Decoder(Wire).decode
_head = msgspec.json.Decoder(Head).decode


def read_request(body: bytes, plans: Plans, limits: Limits) -> Whole:
    """Every problem at once, each with its place, before anything runs (decision 33)."""
    wire = decoded(_wire, body)
    problems: list[Problem] = []
    contexts = _or_problems(lambda: _contexts(wire, body, limits), problems)
    experiment = _or_problems(lambda: experiment_of(bytes(wire.experiment_metadata)), problems)
    planned = _or_problems(lambda: plans.of(bytes(wire.checks)), problems)
    if problems or planned is None or contexts is None:
        raise InvalidRequest(problems)
    if planned.plan.shared is None or any(context.checks is not None for context in contexts):
        sheets_of(planned.plan, contexts)
    slow = waits(planned.plan, contexts)
    return Whole(Asked(planned.plan, planned.checks, experiment, len(contexts), slow), contexts)


def read_head(line: bytes) -> Head:
    return decoded(_head, line)


def experiment_of(text: bytes) -> ExperimentMetadata | None:
    if not text:
        return None
    document = decoded(_decode, text)
    if document is None:
        raise InvalidRequest(Problem("experiment_metadata", "wanted an object, got null"))
    experiment = experiment_from(document)
    name = experiment.name if experiment else ""
    if name and (len(name.encode()) > LONGEST_NAME or "\0" in name):
        raise InvalidRequest(
            Problem("experiment_metadata.name", f"wanted at most {LONGEST_NAME} bytes, and no NUL among them")
        )
    return experiment


def digest_of(body: bytes) -> str:
    """Of what a body says, not of how it is written: members sorted, no space (openwop-contract §3.6)."""
    return hashlib.sha256(_encode_sorted(decoded(_decode, body))).hexdigest()


def decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except msgspec.ValidationError as wrong:
        place = place_in(wrong).lstrip(".")
        raise InvalidRequest(Problem(place, message_of(wrong))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(not_json(body, wrong)) from None


def _or_problems(make: Callable[[], T], problems: list[Problem]) -> T | None:
    try:
        return make()
    except InvalidRequest as refusal:
        problems += refusal.problems
        return None


def _contexts(wire: Wire, body: bytes, limits: Limits) -> list[Context]:
    many = len(wire.test_cases)
    if many != len(wire.outputs):
        said = f"{len(wire.outputs)} outputs for {many} test cases: wanted one for each"
        raise InvalidRequest(Problem("outputs", said))
    if many > limits.max_cases:
        said = f"{many} cases, and at most {limits.max_cases} are taken (raise it with ASSAY_MAX_CASES)"
        raise InvalidRequest(Problem("test_cases", said))
    contexts: list[Context] = []
    problems: list[Problem] = []
    known: dict[str, Any] = {}
    documents = _documents(body)
    for at, (case, output) in enumerate(zip(wire.test_cases, wire.outputs, strict=True)):
        line = b"".join((b'{"test_case":', case, b',"output":', output, b"}"))
        if b"\n" in line:
            line = msgspec.json.format(line, indent=-1)  # a context is one line wherever it is kept
        try:
            if documents is None:
                context = read_context(line, limits)
            else:
                cases, outputs = documents
                context = context_of(line, {"test_case": cases[at], "output": outputs[at]}, limits)
        except NotAContext as wrong:
            problems += [_placed(problem, at) for problem in wrong.problems]
            continue
        contexts.append(context)
        document = context.document["test_case"]
        first = known.setdefault(document["id"], document)
        if first is not document and canonical(first) != canonical(document):
            said = f"{document['id']!r} stands for another test case further up"
            problems.append(Problem(f"test_cases[{at}].id", said))
    if problems:
        raise InvalidRequest(problems)
    return contexts


def _documents(body: bytes) -> tuple[list[Any], list[Any]] | None:
    """All of a small body at once, which is quicker than one by one; None: one by one, perhaps to find what is wrong."""
    if len(body) > AT_ONCE:
        return None
    try:
        whole = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return whole["test_cases"], whole["outputs"]


def _placed(problem: Problem, at: int) -> Problem:
    """A place in a context, as one in the request."""
    place, message = problem
    for here, there in (("test_case", "test_cases"), ("output", "outputs")):
        if place == here or place.startswith(f"{here}."):
            return Problem(f"{there}[{at}]{place.removeprefix(here)}", message)
    return Problem(f"test_cases[{at}]", message)
