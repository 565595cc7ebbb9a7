"""
One case for a person: input, output, expected, the difference, every check's reason, and the trajectory of an agent.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.comparison.views.shown_cases import ShownCase
from assay.fep.agent_runs.agent_output import UNMEASURED
from assay.protocol.json_types import JSON, is_list, is_object
from assay.results.check_names import result_label, scored_label
from assay.results.differences import differences
from assay.results.reasons import criteria_of, is_failing, passed_of, reason_of
from assay.stats.number_text import case_value, format_usd, trial_text

MAX_CONTENT = 1_000  # characters of a content, and of a step
LABEL = 14  # columns of a label
Line = tuple[str, str]  # a label, and a line of text


def headline(case: ShownCase) -> str:
    """`✗ lost-parcel, trial 2  score 0.300  340 ms  $0.0021`."""
    mark = "✓" if not case.failing else "✗" if case.measured else "?"
    parts = [f"{mark} {case.id}" + ("" if case.trial is None else f", {trial_text(case.trial)}")]
    parts += [] if case.score is None else [f"score {case_value(case.score)}"]
    output: JSON = case.result["execution_context"]["output"] if case.result else {}
    metadata = output.get("metadata")
    about: JSON = metadata if is_object(metadata) else {}
    latency, cost = about.get("latency_ms"), about.get("cost_usd")
    parts += [f"{latency:,} ms"] if isinstance(latency, int | float) else []
    parts += [format_usd(cost)] if isinstance(cost, int | float) else []
    outcome = about.get("outcome")
    if isinstance(outcome, str) and outcome != "completed":
        parts.append("not measured" if outcome == UNMEASURED else outcome)
    return "  ".join(parts)


def case_lines(case: ShownCase, only: str | None = None) -> Iterator[Line]:
    """The lines of a case below its headline. `only`: the one check to show."""
    if case.result is None:
        yield "", case.reason
        return
    context = case.result["execution_context"]
    given, output = context["test_case"], context["output"]
    yield from _content("input", given, "input")
    for entry in case.memory:
        yield from _label_lines("memory", cut(f"{entry['id']}: {entry['content']}").splitlines())
    yield from _content("output", output, "value")
    if "expected" in given and not is_rubric(given["expected"]):
        lines = _difference(case, given["expected"], output.get("value"))
        yield from _label_lines("expected", lines) if lines else _content("expected", given, "expected")
    metadata = output.get("metadata")
    if is_object(metadata) and isinstance(error := metadata.get("error"), str):
        yield from _label_lines("error", cut(error).splitlines())
    for check in case.result["check_results"]:
        if only is None or only in (result_label(check), check["check_type"]):
            mark = _mark(check)
            score = (
                "" if passed_of(check) is not None or check["status"] != "completed" else " (no pass or fail)"
            )
            criteria = list(_criteria(given, check))
            if criteria:
                yield "check", f"{mark} {result_label(check)}{score}"
                yield from _label_lines("criteria", criteria)
            else:
                yield "check", f"{mark} {scored_label(check)}{score}: {_line(reason_of(check))}"
    for check in case.beside:
        if only is None or only in (result_label(check), check["check_type"]):
            yield "beside", f"{_mark(check)} {scored_label(check)}: {_line(reason_of(check))}"
    yield from _trajectory(case)


def _criteria(case: JSON, check: JSON) -> Iterator[str]:
    """The criteria of a rubric, each with the judge's reason."""
    for one in criteria_of(check["results"].get("response"), case):
        if one.met is not None:
            weight = "" if one.weight is None else f" (weight {one.weight:g})"
            yield f"{'✓' if one.met else '✗'} {_line(one.name)}{weight}: {_line(one.reason)}"


def _mark(check: JSON) -> str:
    return "?" if check["status"] != "completed" else "✗" if is_failing(check) else "✓"


def _line(text: str) -> str:
    return cut(" ".join(text.split()))


def _content(label: str, document: JSON, name: str) -> Iterator[Line]:
    if name not in document:
        yield label, NOT_STORED
        return
    yield from _label_lines(label, cut(text_of(document[name])).splitlines() or [""])


def _contains(case: ShownCase) -> bool:
    """Whether the output contains what was expected: a difference would show what is right."""
    checks = [one for one in (case.result or {}).get("check_results", ()) if one["check_type"] == "contains"]
    return bool(checks) and not any(is_failing(one) for one in checks)


def _difference(case: ShownCase, expected: Any, actual: Any) -> list[str]:
    """
    The difference, if the output and what was expected are two texts or two JSON values that differ; else nothing.
    """
    if not case.failing or is_rubric(expected) or _contains(case):
        return []
    both_text = isinstance(expected, str) and isinstance(actual, str)
    both_json = isinstance(expected, dict | list) and isinstance(actual, dict | list)
    if not (both_text or both_json):
        return []
    return differences(expected, actual)


def is_rubric(expected: Any) -> bool:
    return is_list(expected) and bool(expected) and is_object(expected[0]) and "criterion" in expected[0]


def _trajectory(case: ShownCase) -> Iterator[Line]:
    label = "trajectory"
    for time, text in step_lines(case.trajectory, live=case.live):
        yield label, f"{time:>8}  {cut(text)}"
        label = ""
    for usage in case.judge:
        yield "judge", usage_text(usage)


def _label_lines(label: str, lines: list[str]) -> Iterator[Line]:
    for line in lines:
        yield label, line
        label = ""


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def cut(text: str) -> str:
    """The beginning of a long text, and how long it is."""
    if len(text) <= MAX_CONTENT:
        return text
    return f"{text[:MAX_CONTENT]}… ({len(text):,} characters; --json prints all)"


# The trajectory of an agent for a person: each step as a line, with its time.

NOT_STORED = "(not stored, or erased)"


def step_lines(steps: list[JSON], *, live: bool) -> Iterator[tuple[str, str]]:
    """
    A time and a text for each step.

    A tool's result has the time of its call; any other step has the time since the step before.

    `live`: tools were called; otherwise fixtures answered.
    """
    before = turn = 0
    noun = (
        "call" if any(step["type"] == "said" for step in steps) else "turn"
    )  # a conversation has other turns
    for step in steps:
        turn += step["type"] == "used"
        at = step.get("at_ms")
        own = None
        if step["type"] == "tool-returned":
            own = step.get("duration_ms")
        elif isinstance(at, int):
            own = max(0, at - before)
        before = at if isinstance(at, int) else before
        prefix = f"{noun} {turn}: " if step["type"] == "used" else ""
        yield "" if own is None else f"{own:,} ms", prefix + step_text(step, live=live)


def step_text(step: JSON, *, live: bool) -> str:
    match step["type"]:
        case "tool-called":
            return f"calls {step['tool']} {_step_content(step, 'inputs')}"
        case "tool-returned":
            source = "live" if live else "fixture"
            if is_object(error := step.get("error")):
                message = f"{error.get('code')}: {error.get('message')}"
                return f"{step['tool']} failed ({source}, {step.get('status')}): {message}"
            return f"{step['tool']} answers ({source}): {_step_content(step, 'outcome')}"
        case "used":
            return f"model {usage_text(step['usage'])}"
        case "said":
            who = "user" if step.get("role") == "user" else "agent"
            return f"turn {step.get('turn')}, {who}: {_step_content(step, 'content')}"
        case "reasoned":
            return f"reasons: {step.get('text', NOT_STORED)}"
        case "wrote":
            return f"writes memory {step.get('memory_id')}"
        case "handed-off":
            reason = step.get("reason")
            return f"hands off to {step.get('to_agent_id')}{f': {reason}' if reason else ''}"
        case other:
            return f"{other} {msgspec.json.encode(step).decode()}"


def usage_text(usage: JSON) -> str:
    """`openai:gpt-5: 50 tokens in, 2 out, $0.0000087`."""
    cost = usage.get("cost_usd")
    price = "cost unknown" if cost is None else format_usd(cost)
    cached = ", cached" if usage.get("cached") else ""
    model = (
        usage["model"]
        if str(usage["model"]).startswith(f"{usage['provider']}:")
        else f"{usage['provider']}:{usage['model']}"
    )
    return f"{model}: {usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out, {price}{cached}"


def _step_content(step: JSON, name: str) -> str:
    if name not in step:
        return NOT_STORED
    value = step[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
