"""`--shape`: documents without a host, against the schemas of assay and the rules that schemas cannot say."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from assay.agenteval.suites.suite import read_suite
from assay.conform.json_values import Document, is_list, is_object, list_in, object_in, objects_in
from assay.conform.openwop.event_laws import EVENT_LAWS, TERMINAL
from assay.conform.result_laws import LAWS
from assay.errors import InvalidRequest
from assay.packs.pack_manifest import read_pack_manifest
from assay.protocol.agent_evals import EvalSummary
from assay.protocol.validation_messages import message_of, path_in
from assay.runs.event_types import EVENTS

OF_EVALS = {"order", "scored-after", "brackets"}  # laws of the logs of agent evals alone
OF_REQUESTS = {"context", "check-order", "arguments"}  # laws of results that need the request
MOST = 20  # problems of a document that are named


class ShapeReport(NamedTuple):
    """What a document is, and what is wrong with it."""

    kind: str
    problems: list[str]


def check_shape(document: Any) -> ShapeReport:
    """The kind of a document, which its members tell, and its problems. An unknown kind is a problem."""
    for name, (belongs, find) in KINDS.items():
        if belongs(document):
            return ShapeReport(name, list(find(document))[:MOST])
    return ShapeReport("unknown", [f"expected a document with the members of {', '.join(KINDS)}"])


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda document: is_object(document) and all(name in document for name in names)


def _events_in(document: Any) -> list[Document]:
    found = document if is_list(document) else list_in(document, "events")
    return [one if is_object(one) else {} for one in found]


def _is_log(document: Any) -> bool:
    return bool(_events_in(document)) and all(
        "eventId" in one or "sequence" in one for one in _events_in(document)
    )


def _refusals(read: Callable[[Any], Any]) -> Callable[[Any], Iterator[str]]:
    """The problems that a reader finds."""

    def find(document: Any) -> Iterator[str]:
        try:
            read(document)
        except InvalidRequest as refusal:
            yield from (
                f"{one.place}: {one.message}" if one.place else one.message for one in refusal.problems
            )

    return find


def _convert(value: Any, type: Any) -> Iterator[str]:
    try:
        msgspec.convert(value, type)
    except msgspec.ValidationError as wrong:
        place = path_in(wrong).lstrip(".")
        yield f"{place}: {message_of(wrong, type)}" if place else message_of(wrong, type)


def _summary(document: Document) -> Iterator[str]:
    """The counts, the ids and the regression of a scorecard belong together."""
    broken = False
    for problem in _convert(document, EvalSummary):
        broken = True
        yield problem
    if broken:
        return
    tasks = objects_in(document, "tasks")
    if document["taskCount"] != len(tasks):
        yield f"taskCount: expected the number of tasks, {len(tasks)}, got {document['taskCount']}"
    passed = sum(one["passed"] for one in tasks)
    if document["passedCount"] != passed:
        yield f"passedCount: expected the number of tasks that passed, {passed}, got {document['passedCount']}"
    if len({one["taskId"] for one in tasks}) != len(tasks):
        yield "tasks: two tasks have one taskId"
    for one in tasks:
        severe = any(finding["severity"] in ("high", "critical") for finding in one.get("safetyFindings", ()))
        if severe and (one["score"] > 0 or one["passed"]):
            yield f"{one['taskId']}: a finding that is high or critical makes the score 0, got {one['score']}"
    if (
        "totalCostUsd" not in document
        and any("costUsd" in one for one in tasks)
        and all("costUsd" in one for one in tasks)
    ):
        yield "totalCostUsd: expected the sum, because every task has a cost"
    regression = object_in(document, "regression")
    if regression.get("diffRef", "") and regression["baselineRunId"] not in regression["diffRef"]:
        yield "regression.diffRef: expected the address of the comparison with baselineRunId"


def _log(document: Any) -> Iterator[str]:
    """The events of one run, from its first."""
    events = _events_in(document)
    ends = [TERMINAL[one["type"]] for one in events if one.get("type") in TERMINAL]
    status = ends[-1] if ends else "running"
    types = {one.get("type") for one in events}
    for law in EVENT_LAWS:
        if law.name in OF_EVALS and "eval.started" not in types:
            continue
        if status == "running" and law.name in ("terminal", "brackets"):
            continue
        yield from law.find(events, status)
    for at, event in enumerate(events):
        if (payload := EVENTS.get(str(event.get("type")))) is not None:
            yield from (
                f"event {at} ({event['type']}): {one}" for one in _convert(event.get("payload"), payload)
            )
    if "eval.completed" in types:
        yield from _scores(events)


def _scores(events: list[Document]) -> Iterator[str]:
    """What eval.completed says follows from eval.scored."""
    scored = [object_in(one, "payload") for one in events if one.get("type") == "eval.scored"]
    ended = next(object_in(one, "payload") for one in events if one.get("type") == "eval.completed")
    passed = sum(one.get("passed") is True for one in scored)
    for name, wanted in (("taskCount", len(scored)), ("passedCount", passed)):
        if ended.get(name) != wanted:
            yield f"eval.completed: {name}: expected {wanted} as of eval.scored, got {ended.get(name)}"
    scores = [one["score"] for one in scored if isinstance(one.get("score"), int | float)]
    mean, found = sum(scores) / max(1, len(scores)), ended.get("aggregateScore")
    if not isinstance(found, int | float) or abs(found - mean) > 1e-9:
        yield f"eval.completed: aggregateScore: expected the mean {mean:g}, got {found}"


def _result(document: Document) -> Iterator[str]:
    """A result of FEP: the laws that need no request."""
    shape, *laws = (law for law in LAWS if law.name not in OF_REQUESTS)
    problems = list(shape.find({}, document))
    yield from problems
    if not problems:
        for law in laws:
            yield from law.find({}, document)


KINDS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Iterator[str]]]] = {
    "suite": (_has("suiteId", "modes"), _refusals(read_suite)),
    "scorecard": (_has("suiteId", "aggregateScore"), _summary),
    "pack.json": (_has("name", "engines"), _refusals(read_pack_manifest)),
    "FEP result": (_has("results", "summary"), _result),
    "events": (_is_log, _log),
}
