"""Names of checks (FEP-45): their validation, and the row of each check in tables, CSV files and bars."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.checks.arguments import BoundCheck
from assay.errors import MOST_PROBLEMS, Problem
from assay.protocol.evaluation import MAX_CHECK_NAME, Check
from assay.protocol.json_types import JSON, is_mapping
from assay.results.reasons import DESCRIBED, passed_of, score_of
from assay.stats.number_text import score_text

AGENT_ANSWERED = (
    "the agent answered"  # the only check of a trial without an answer; it is no check of the suite
)


def name_problems(checks: Iterable[Any], path: str) -> list[Problem]:
    """The problems of the names of one list of checks: their length, and names that occur twice."""
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for at, check in enumerate(checks):
        name = check.name if isinstance(check, Check) else check.get("name") if is_mapping(check) else None
        if not isinstance(name, str):
            continue  # absent, or reported as not a text
        here = f"{path}[{at}].name"
        if not 1 <= len(name) <= MAX_CHECK_NAME:
            problems.append(Problem(here, f"expected 1 to {MAX_CHECK_NAME} characters, got {len(name)}"))
        elif name in first:
            earlier = f"{path}[{first[name]}]"
            problems.append(Problem(here, f"expected a name of its own, got that of {earlier}"))
        if len(problems) >= MOST_PROBLEMS:
            break
        first.setdefault(name, at)
    return problems


def numbered_labels(bound_checks: Sequence[BoundCheck]) -> list[str]:
    """A distinct label for every check: its name, or its type, numbered if another check would have the same label."""
    types = [bound.checker.type for bound in bound_checks if not bound.name]
    names = {bound.name for bound in bound_checks if bound.name}
    total, counts = Counter(types), Counter[str]()
    labels: list[str] = []
    for bound in bound_checks:
        label = bound.label
        if not bound.name and (total[label] > 1 or label in names):
            label = free_label(label, counts, names)
        labels.append(label)
    return labels


def free_label(kind: str, counts: Counter[str], names: set[str]) -> str:
    """`contains #2`: the next number of this type whose label is not the name of a check."""
    while True:
        counts[kind] += 1
        if (label := f"{kind} #{counts[kind]}") not in names:
            return label


def result_labels(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The labels of the checks of a stored result. Of two with the same, each is numbered."""
    labels = [result_label(check) for check in checks]
    total, names, counts = Counter(labels), set(labels), Counter[str]()
    return [free_label(label, counts, names) if total[label] > 1 else label for label in labels]


def scored_label(result: JSON) -> str:
    """`helpful 0.470`: the label of a stored check result, with the score of a judge that is not a pass or a fail."""
    label = result_label(result)
    if result["status"] != "completed" or result["check_type"] in DESCRIBED:
        return label
    score = score_of(result)
    return label if score is None or score == passed_of(result) else f"{label} {score_text(score)}"


def result_label(result: Mapping[str, Any]) -> str:
    """The label of a stored check result: `metadata.check_name`, or its type."""
    metadata = result.get("metadata")
    name = metadata.get("check_name") if is_mapping(metadata) else None
    return name if isinstance(name, str) and name else str(result["check_type"])
