"""
What holds for every result of FEP, whatever the checks are: laws of the request and its result.

A law yields a sentence for each place that breaks it. A result that another law finds malformed must not break a law:
each reads only members of the type it expects.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from assay.conform.json_values import Document, is_object, kind_of, list_in, object_in, objects_in, same

Finder = Callable[[Document, Document], Iterator[str]]

STATUSES = ("completed", "error", "skip")
ERRORS = ("jsonpath_error", "validation_error", "timeout_error", "unknown_error")
CASE_COUNTS = ("total_checks", "completed_checks", "error_checks", "skipped_checks")
RUN_COUNTS = ("total_test_cases", "completed_test_cases", "error_test_cases", "skipped_test_cases")
RUN_MEMBERS = {
    "evaluation_id": str,
    "started_at": str,
    "completed_at": str,
    "status": str,
    "summary": dict,
    "results": list,
}
CASE_MEMBERS = {"status": str, "execution_context": dict, "check_results": list, "summary": dict}
CHECK_MEMBERS = {"check_type": str, "status": str, "results": dict, "evaluated_at": str}
RUN_OPTIONAL = {"experiment": dict, "metadata": dict}
CASE_OPTIONAL = {"metadata": dict}
CHECK_OPTIONAL = {"resolved_arguments": dict, "metadata": dict, "error": dict}
SPAN = timedelta(seconds=1)  # clocks of the processes of a host may differ by this much


class Law(NamedTuple):
    """A law with its place in the text."""

    name: str
    reference: str
    rule: str
    find: Finder


def _members(place: str, found: Any, required: dict[str, type], optional: dict[str, type]) -> Iterator[str]:
    if not is_object(found):
        yield f"{place}: expected an object, got {kind_of(found)}"
        return
    yield from (f"{place}: expected the member {name}, got none" for name in required if name not in found)
    for name, kind in (required | optional).items():
        if name in found and not isinstance(found[name], kind):
            yield f"{place}.{name}: expected {kind_of(kind())}, got {kind_of(found[name])}"


def _shape(request: Document, result: Document) -> Iterator[str]:
    yield from _members("the result", result, RUN_MEMBERS, RUN_OPTIONAL)
    for at, case in enumerate(list_in(result, "results")):
        yield from _members(f"results[{at}]", case, CASE_MEMBERS, CASE_OPTIONAL)
        for number, check in enumerate(list_in(case, "check_results")):
            place = f"results[{at}].check_results[{number}]"
            yield from _members(place, check, CHECK_MEMBERS, CHECK_OPTIONAL)


def _closed(request: Document, result: Document) -> Iterator[str]:
    known = {*RUN_MEMBERS, *RUN_OPTIONAL}
    yield from (f"the result has the member {name}" for name in result if name not in known)
    known = {*CASE_MEMBERS, *CASE_OPTIONAL}
    for at, case in enumerate(objects_in(result, "results")):
        yield from (f"results[{at}] has the member {name}" for name in case if name not in known)
        context = object_in(case, "execution_context")
        wrong = [name for name in context if name not in ("test_case", "output")]
        yield from (f"results[{at}].execution_context has the member {name}" for name in wrong)


def _statuses(request: Document, result: Document) -> Iterator[str]:
    if result.get("status") not in STATUSES:
        yield f"status: expected completed, error or skip, got {result.get('status')!r}"
    for at, case in enumerate(objects_in(result, "results")):
        given = [check.get("status") for check in objects_in(case, "check_results")]
        wrong = [status for status in given if status not in STATUSES]
        yield from (f"results[{at}]: a check has the status {status!r}" for status in wrong)
        worst = "error" if "error" in given else "skip" if "skip" in given else "completed"
        if case.get("status") != worst:
            yield f"results[{at}].status: expected {worst}, because its checks are {given}, got {case.get('status')!r}"


def _counts_of_cases(request: Document, result: Document) -> Iterator[str]:
    for at, case in enumerate(objects_in(result, "results")):
        given = [check.get("status") for check in objects_in(case, "check_results")]
        yield from _counted(f"results[{at}].summary", object_in(case, "summary"), CASE_COUNTS, given)


def _counts_of_the_run(request: Document, result: Document) -> Iterator[str]:
    cases = objects_in(result, "results")
    summary = object_in(result, "summary")
    yield from _counted("summary", summary, RUN_COUNTS, [case.get("status") for case in cases])
    given = [check.get("status") for case in cases for check in objects_in(case, "check_results")]
    if any(name in summary for name in CASE_COUNTS):
        there = tuple(name for name in CASE_COUNTS if name in summary)
        yield from _counted("summary", summary, there, given)


def _counted(place: str, summary: Document, names: tuple[str, ...], statuses: list[Any]) -> Iterator[str]:
    for name in names:
        status = {"total": None, "completed": "completed", "error": "error", "skipped": "skip"}[
            name.partition("_")[0]
        ]
        count = len(statuses) if status is None else statuses.count(status)
        if type(summary.get(name)) is not int or summary[name] != count:
            yield f"{place}.{name}: expected {count}, got {summary.get(name)!r}"


def _context(request: Document, result: Document) -> Iterator[str]:
    cases, outputs = request["test_cases"], request["outputs"]
    found = objects_in(result, "results")
    if len(found) != len(cases):
        yield f"results: expected {len(cases)} results, one for each case, got {len(found)}"
    for at, (case, output, one) in enumerate(zip(cases, outputs, found, strict=False)):
        context = object_in(one, "execution_context")
        for name, sent in (("test_case", case), ("output", output)):
            came = object_in(context, name)
            for member, value in sent.items():
                if member != "checks" and (member not in came or not same(came[member], value)):
                    yield f"results[{at}].execution_context.{name}.{member}: expected what was sent"


def _order(request: Document, result: Document) -> Iterator[str]:
    checks = request["checks"]
    for at, case in enumerate(objects_in(result, "results")):
        own = checks[at] if checks and isinstance(checks[0], list) and at < len(checks) else checks
        expected = [check["type"] for check in own]
        given = [check.get("check_type") for check in objects_in(case, "check_results")]
        if given != expected:
            yield f"results[{at}].check_results: expected results of {expected}, got {given}"


def _times(request: Document, result: Document) -> Iterator[str]:
    started = moment(result.get("started_at"))
    completed = moment(result.get("completed_at"))
    for name, value in (("started_at", started), ("completed_at", completed)):
        if value is None:
            yield f"{name}: expected a time of ISO 8601 in UTC, got {result.get(name)!r}"
    if started is None or completed is None:
        return
    if started > completed:
        yield f"started_at {result['started_at']} is after completed_at {result['completed_at']}"
    for at, case in enumerate(objects_in(result, "results")):
        for number, check in enumerate(objects_in(case, "check_results")):
            place, when = f"results[{at}].check_results[{number}]", moment(check.get("evaluated_at"))
            if when is None:
                yield f"{place}.evaluated_at: expected a time of ISO 8601 in UTC, got {check.get('evaluated_at')!r}"
            elif not started - SPAN <= when <= completed + SPAN:
                yield f"{place}.evaluated_at: expected a time of the run, got {check['evaluated_at']}"


def _errors(request: Document, result: Document) -> Iterator[str]:
    for at, case in enumerate(objects_in(result, "results")):
        for number, check in enumerate(objects_in(case, "check_results")):
            place, error = f"results[{at}].check_results[{number}]", check.get("error")
            if check.get("status") != "error":
                if error is not None:
                    yield f"{place}: it has an error, and its status is {check.get('status')}"
                continue
            if not is_object(error):
                yield f"{place}: its status is error, and it has no error"
            elif error.get("type") not in ERRORS:
                yield f"{place}.error.type: expected one of {', '.join(ERRORS)}, got {error.get('type')!r}"
            elif not (isinstance(error.get("message"), str) and error["message"]):
                yield f"{place}.error.message: expected a text, got {error.get('message')!r}"


def _arguments(request: Document, result: Document) -> Iterator[str]:
    checks = request["checks"]
    for at, case in enumerate(objects_in(result, "results")):
        own = checks[at] if checks and isinstance(checks[0], list) and at < len(checks) else checks
        for number, (check, found) in enumerate(zip(own, objects_in(case, "check_results"), strict=False)):
            place = f"results[{at}].check_results[{number}].resolved_arguments"
            for name, argument in object_in(found, "resolved_arguments").items():
                if not is_object(argument) or "value" not in argument:
                    yield f"{place}.{name}: expected an object with the member value"
                    continue
                sent, path = check["arguments"].get(name), argument.get("jsonpath")
                if path is not None and path != sent:
                    yield f"{place}.{name}.jsonpath: expected none or {sent!r}, got {path!r}"


LAWS = [
    Law("shape", "FEP 0.0.1 §4", "A result, the results of its cases and of their checks have every required member, each of its type.", _shape),
    Law("closed", "FEP 0.0.1 §4.1, §4.2", "The result of a run and of a case has no members that the text does not define.", _closed),
    Law("status", "FEP 0.0.1 §4.1", "A case is an error if one of its checks is, else skip if one is, else completed.", _statuses),
    Law("case-counts", "FEP 0.0.1 §4.1", "The summary of a case counts its checks by status.", _counts_of_cases),
    Law("run-counts", "FEP 0.0.1 §4.2", "The summary of a run counts its cases by status, and its checks if it has such counts.", _counts_of_the_run),
    Law("context", "FEP 0.0.1 §4.1, §3.1", "Each case has one result, in the order of the cases, with the case and the output that were sent.", _context),
    Law("check-order", "FEP 0.0.1 §2.3.3", "A case has one result for each of its checks, in their order.", _order),
    Law("times", "FEP 0.0.1 §2.3.4, §4.2", "Times are ISO 8601 in UTC; the run starts before it ends, and checks are evaluated between.", _times),
    Law("errors", "FEP 0.0.1 §2.3.4", "A check has an error with a known type and a message if its status is error, and none if it is not.", _errors),
    Law("arguments", "FEP 0.0.1 §2.3.4", "Each resolved argument has its value; one that was a path may have the path, and no other has one.", _arguments),
]  # fmt: skip


def moment(text: Any) -> datetime | None:
    """The time, if the text is one of ISO 8601 in UTC."""
    if not isinstance(text, str) or "T" not in text:
        return None
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    return value.astimezone(UTC) if value.tzinfo is not None and not value.utcoffset() else None
