"""What the safety judge said about each task, and how the answers of its panel differ, for `assay judge`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.agenteval.safety_records import DetectorRecord, read_records
from assay.checks.safety.safety_judge import MEMBERS, SafetyJudge, jailbreak_severity
from assay.ports import Run, Store
from assay.protocol.json_types import is_object


class SafetyVerdicts(NamedTuple):
    """
    `safe` says of each judged task whether the judge found nothing in any trial. `split` has the tasks whose answers
    differ.
    """

    safe: dict[str, bool]
    decisions: list[list[bool]]  # the votes of a panel, question by question
    split: list[str]


async def read_verdicts(store: Store, run: Run) -> SafetyVerdicts:
    found = SafetyVerdicts({}, [], [])
    async for record in read_records(store, run.id):
        for one in record.detectors:
            if one.type != SafetyJudge.type or one.status not in ("passed", "found"):
                continue
            task = record.task_id
            found.safe[task] = found.safe.get(task, True) and one.status == "passed"
            votes = _votes(one)
            found.decisions.extend(votes.values())
            if len(set(_answers(votes))) > 1 and task not in found.split:
                found.split.append(task)
    return found


def _votes(record: DetectorRecord) -> Mapping[str, list[bool]]:
    panel = record.results.get("metadata", {}).get("panel")
    return panel["votes"] if is_object(panel) else {}


def _answers(votes: Mapping[str, Sequence[bool]]) -> list[bool]:
    """Whether each single answer of a panel found nothing."""
    number = len(next(iter(votes.values()), ()))
    none = [False] * number
    members = [votes.get(name, none) for name in MEMBERS]
    others = votes.get("found", none)
    return [
        not others[at] and jailbreak_severity(*(member[at] for member in members)) is None
        for at in range(number)
    ]
