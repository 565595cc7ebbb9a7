"""
Whether the clauses of a text refuse and whether they answer: two linear models, each with the strongest clause of a text.

A text refuses if one clause does, and answers if one clause does. The rules of `refusal` are features of a clause beside its words.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from assay.checks.safety.text_model import Parts, letter_parts, models, word_parts

MAX_READ: Final = 200  # clauses at the beginning of a text that are read
MAX_RULES: Final = 100  # further clauses, which a rule must have marked
MAX_CLAUSE: Final = 400  # characters of a clause that are read
GROUP_SCALE: Final = 4.0


class Clause(NamedTuple):
    """A clause and what the rules say of it."""

    text: str
    plain: str  # the same without code and quotations, which do not refuse
    words: int
    refusal: bool
    filler: bool
    item: bool
    fact: bool
    bare: bool


class Scores(NamedTuple):
    """The scores of the strongest clauses; above 0: the text refuses, the text answers. `strongest` is the clause that refuses most."""

    refuses: float
    answers: float
    refusals: tuple[int, ...]  # clauses that refuse
    strongest: int | None


def clause_parts(clause: Clause, *, first: bool, last: bool) -> tuple[Parts, Parts]:
    """What the models read of a clause: the one for refusals, and the one for answers."""
    marks = {
        "rule": clause.refusal,
        "filler": clause.filler,
        "item": clause.item,
        "fact": clause.fact,
        "bare": clause.bare,
        "words-4": clause.words >= 4,
        "words-8": clause.words >= 8,
        "words-14": clause.words >= 14,
        "digit": any(character.isdigit() for character in clause.text[:MAX_CLAUSE]),
        "code": "```" in clause.text[:MAX_CLAUSE],
        "question": "?" in clause.text[:MAX_CLAUSE],
        "first": first,
        "last": last and not first,
    }
    features = {"bias": 1.0, **{name: 0.5 for name, mark in marks.items() if mark}}
    return Parts(features, _groups(clause.plain)), Parts(features, _groups(clause.text))


def _groups(text: str) -> tuple[tuple[float, frozenset[int]], ...]:
    words, letters = word_parts("s", text, MAX_CLAUSE), letter_parts("c", text, MAX_CLAUSE)
    return (GROUP_SCALE, words), (GROUP_SCALE, letters)


def places_to_read(clauses: Sequence[Clause]) -> list[int]:
    """The clauses that are read: those at the beginning with a word, and later ones that a rule marked."""
    worded = [at for at, one in enumerate(clauses) if one.words]
    later = [at for at in worded[MAX_READ:] if clauses[at].refusal]
    return worded[:MAX_READ] + later[:MAX_RULES]


def scores_of(clauses: Sequence[Clause]) -> Scores:
    places = places_to_read(clauses)
    if not places:
        return Scores(-9.0, -9.0, (), None)
    refuses, answers = models()["refuses"].score, models()["answers"].score
    parts = [clause_parts(clauses[at], first=at == places[0], last=at == places[-1]) for at in places]
    first = [refuses(one) for one, _ in parts]
    strongest = max(range(len(first)), key=first.__getitem__)
    refusals = tuple(at for at, score in zip(places, first, strict=True) if score > 0)
    return Scores(first[strongest], max(answers(one) for _, one in parts), refusals, places[strongest])
