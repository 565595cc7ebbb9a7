"""Failures in groups: the same check with the same reason, apart from the values in it."""

from assay.lazy_pattern import lazy_pattern
from assay.protocol.json_types import JSON
from assay.results.check_names import result_label
from assay.results.reasons import agent_error, criteria_of, is_failing, reason_of

REASON = "reason"  # the dimension of these groups, beside tags and members
LONGEST = 160  # characters of a group
_VALUES = lazy_pattern(r"""'[^']*'|"[^"]*"|“[^”]*”|\{[^{}]*\}|\[[^\[\]]*\]""")
_NUMBERS = lazy_pattern(r"\d[\d,.:]*")


def reason_groups(result: JSON) -> list[str]:
    """
    The groups of a result: one for each check that failed or was not measured, and for each criterion of a rubric that
    is not met. The judge's words about a criterion differ from case to case, so they are no part of its group.
    """
    if (error := agent_error(result)) is not None:
        return [_cut(f"the agent failed: {normalised(error)}")]
    case: JSON = result["execution_context"]["test_case"]
    groups = [
        f"{result_label(check)}: {reason}"
        for check in result["check_results"]
        for reason in _reasons(check, case)
    ]
    return list(dict.fromkeys(map(_cut, groups)))


def _reasons(check: JSON, case: JSON) -> list[str]:
    criteria = criteria_of(check.get("results", {}).get("response"), case)
    if unmet := [f"not met: {' '.join(one.name.split())}" for one in criteria if one.met is False]:
        return unmet
    return [normalised(reason_of(check, case))] if is_failing(check) else []


def normalised(reason: str) -> str:
    """The reason without its values, so that the same failure of two cases reads the same."""
    line = " ".join(reason.split())
    return _NUMBERS.sub("#", _VALUES.sub("…", line))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
