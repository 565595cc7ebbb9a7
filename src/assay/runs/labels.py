"""
What each person says about the cases of a run: labels and corrections of annotations, for the check of a judge.

A label is an opinion, `pass` or `fail`, or `CHECK: pass` about one check. It changes no result. A correction changes
the effective result, and is a label too. The last one of a person about a case counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType

from assay.protocol.annotations import Annotation, ScoreCorrection
from assay.runs.annotations import correction_of

WORDS = {"pass": True, "passed": True, "fail": False, "failed": False}
Target = Callable[[Annotation], str | UnsetType]


class Opinion(NamedTuple):
    """What a person said last: about the case as a whole, or about one check, and why."""

    correction: ScoreCorrection
    note: str = ""


class PersonLabel(Struct, frozen=True):
    """What one person says about a case."""

    whole: Opinion | None = None
    checks: Mapping[str, Opinion] = {}

    def about(self, check: str) -> Opinion | None:
        """What counts for this check; None: nothing."""
        return self.checks.get(check, self.whole)


def read_label(text: str) -> tuple[str, bool] | None:
    """The check and the verdict of a label, `helpful: pass` or `pass`; None if it is another label."""
    check, _, word = text.rpartition(":")
    passed = WORDS.get(word.strip().lower())
    return None if passed is None else (check.strip(), passed)


def people_labels(notes: Iterable[Annotation], target: Target) -> dict[str, dict[str, PersonLabel]]:
    """By person and by target, in the order of their first label."""
    people: dict[str, dict[str, PersonLabel]] = {}
    for note in notes:
        place = target(note)
        if place is UNSET or (opinion := _opinion(note)) is None:
            continue
        own = people.setdefault(note.actor.principal_ref, {})
        before = own.pop(place, PersonLabel())
        check, withdrawn = opinion.correction.check, opinion.correction.withdrawn is not UNSET
        if check is not UNSET:
            checks = {name: one for name, one in before.checks.items() if name != check}
            own[place] = PersonLabel(before.whole, checks if withdrawn else {**checks, check: opinion})
        elif not withdrawn:
            own[place] = PersonLabel(opinion)  # about the whole case: what was said about its checks is over
    return {person: labels for person, labels in people.items() if labels}


def _opinion(note: Annotation) -> Opinion | None:
    text = "" if note.note is UNSET else note.note
    if note.signal.kind == "label" and note.signal.label is not UNSET:
        found = read_label(note.signal.label)
        if found is None:
            return None
        check, passed = found
        return Opinion(ScoreCorrection(passed=passed, check=check or UNSET), text)
    correction = correction_of(note)
    return None if correction is None else Opinion(correction, text)
