"""
A judge held against the labels of people: agreement, confusion, bias, and means that a random sample corrects.

A label is what a person says about a case, also one that confirms the judge. Only labels of a random sample can correct
a mean: a person looking for mistakes labels unusual cases. The order of a draw follows from the seed and the ids of the
cases, so a larger sample with the same seed contains the smaller one.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import combinations

import msgspec
from msgspec import Struct

from assay.protocol.json_types import is_list, is_object
from assay.stats.judge_agreement import (
    Agreement,
    CorrectedMean,
    Label,
    cohen_kappa,
    corrected_mean,
    krippendorff_alpha,
)

Category = bool | str  # passed or not, or one of several texts


class JudgeSample(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draw of `drawn` of `judged` cases. Each case had the same probability."""

    seed: int
    drawn: int
    judged: int
    probability: float


class JudgedCase(Struct, frozen=True, kw_only=True):
    """
    A case that a judge answered for, and what people say about it.

    `labels` has one entry for each annotator, None without a label. `human_score` is the mean of their scores.
    """

    id: str
    verdict: Category
    score: float | None = None
    labels: tuple[Category | None, ...] = ()
    human_score: float | None = None

    @property
    def is_labelled(self) -> bool:
        return any(label is not None for label in self.labels)

    @property
    def majority(self) -> Category | None:
        """What most annotators say. None: there is no label, or equally many say something else."""
        (first, most), *others = Counter(label for label in self.labels if label is not None).most_common(
            2
        ) or [(None, 0)]
        return None if others and others[0][1] == most else first

    @property
    def human_pass(self) -> float:
        """1 if most annotators pass it, 0 if they fail it, a half if they are tied."""
        return 0.5 if (majority := self.majority) is None else float(majority is True)


class JudgedCases(Struct, frozen=True, kw_only=True):
    """
    The cases of a run that one judge answered for. `unmeasured` counts the cases without an answer of the judge,
    `unmatched` the labels of cases that the run does not have.
    """

    cases: list[JudgedCase]
    judge: str = ""
    annotators: tuple[str, ...] = ("people",)
    sample: JudgeSample | None = None
    unmeasured: int = 0
    unmatched: int = 0
    noun: str = "case"

    def sample_cases(self) -> list[JudgedCase]:
        """The cases of the sample, in the order of the draw."""
        return [] if self.sample is None else draw(self.cases, self.sample.drawn, self.sample.seed)

    @property
    def has_verdicts(self) -> bool:
        """Whether judge and people pass or fail a case, so that there is a pass rate."""
        return all(
            isinstance(one, bool)
            for case in self.cases
            for one in (case.verdict, *case.labels)
            if one is not None
        )


class PanelReport(Struct, frozen=True):
    """How far the answers of a panel agree, and the cases that single answers would have passed and failed."""

    agreement: Agreement
    split: list[str]


class Confusion(Struct, frozen=True, kw_only=True):
    """How many cases the judge and the majority of the annotators put into these two categories."""

    judge: Category
    people: Category
    cases: int


class AnnotatorAgreement(Struct, frozen=True, kw_only=True):
    """One annotator: the judged cases with a label of theirs, and the agreement with the judge."""

    name: str
    labelled: int
    agreement: Agreement


class AnnotatorPair(Struct, frozen=True, kw_only=True):
    """The agreement of two annotators with each other, over the cases that both labelled."""

    first: str
    second: str
    agreement: Agreement


class JudgeReport(Struct, frozen=True, kw_only=True):
    """
    `agreement` is that of the judge and the majority of the annotators, over the cases where there is one. `ties` are
    the cases where there is none; in the corrected pass rate each is half a pass. `confusion` counts the same cases.

    `annotators` has each annotator beside the judge, `pairs` every two annotators, `people` all of them together
    (Krippendorff's alpha; None for one annotator). `bias` is the mean of judge minus people over the labelled scores.

    `pass_rate` and `score` are corrected by the labels of the sample; None if `uncorrected` says why not. `panel`
    compares the answers of a panel with each other; None without a panel.
    """

    judge: str
    judged: int
    unmeasured: int
    labelled: int
    unmatched: int
    agreement: Agreement
    confusion: list[Confusion]
    ties: list[str]
    annotators: list[AnnotatorAgreement]
    pairs: list[AnnotatorPair]
    people: Agreement | None
    bias: float | None
    sample: JudgeSample | None
    unlabelled: list[str]
    uncorrected: str
    pass_rate: CorrectedMean | None
    score: CorrectedMean | None
    panel: PanelReport | None


def draw(cases: Collection[JudgedCase], count: int, seed: int) -> list[JudgedCase]:
    """The first cases in the order of a hash of the seed and the id."""
    return sorted(cases, key=lambda case: sha256(f"{seed}\0{case.id}".encode()).digest())[:count]


def check_judge(judged: JudgedCases, panel: PanelReport | None = None) -> JudgeReport:
    """What the labels say about the judge."""
    labelled = [case for case in judged.cases if case.is_labelled]
    decided = [(case.verdict, case.majority) for case in labelled if case.majority is not None]
    errors = [
        case.score - case.human_score
        for case in labelled
        if case.human_score is not None and case.score is not None
    ]
    drawn = judged.sample_cases() or (judged.cases if len(labelled) == len(judged.cases) else [])
    unlabelled = [case.id for case in drawn if not case.is_labelled]
    why = _why_uncorrected(judged, drawn, unlabelled)
    several = len(judged.annotators) > 1
    return JudgeReport(
        judge=judged.judge,
        judged=len(judged.cases),
        unmeasured=judged.unmeasured,
        labelled=len(labelled),
        unmatched=judged.unmatched,
        agreement=cohen_kappa(decided),
        confusion=_confusion(decided),
        ties=[case.id for case in labelled if case.majority is None],
        annotators=_annotators(judged),
        pairs=_pairs(judged),
        people=krippendorff_alpha([_given(case.labels) for case in judged.cases]) if several else None,
        bias=sum(errors) / len(errors) if errors else None,
        sample=judged.sample,
        unlabelled=unlabelled,
        uncorrected=why,
        pass_rate=None if why else _corrected_rate(judged, drawn),
        score=None if why else _corrected_score(judged, drawn),
        panel=panel,
    )


def labelled_part(judged: JudgedCases) -> JudgedCases:
    """
    The cases with the part of the sample that is labelled: the first cases of the draw, up to one without a label.

    They are a draw of their own, so that the corrected mean is known while people are at work.
    """
    if judged.sample is None:
        return judged
    drawn = judged.sample_cases()
    first = next((at for at, case in enumerate(drawn) if not case.is_labelled), len(drawn))
    if not first:
        return judged
    sample = JudgeSample(
        seed=judged.sample.seed,
        drawn=first,
        judged=judged.sample.judged,
        probability=first / max(1, judged.sample.judged),
    )
    return msgspec.structs.replace(judged, sample=sample)


def _why_uncorrected(judged: JudgedCases, drawn: Sequence[JudgedCase], unlabelled: Sequence[str]) -> str:
    noun = judged.noun
    if not drawn:
        return f"no sample was drawn; labels of {noun}s that a person chose give agreement only"
    if unlabelled:
        return f"{len(unlabelled)} of {len(drawn)} drawn {noun}s have no label"
    return "" if judged.has_verdicts else "the labels are texts, and only a pass or a fail has a rate"


def _given(labels: Sequence[Category | None]) -> list[Category]:
    return [label for label in labels if label is not None]


def _confusion(pairs: Sequence[tuple[Category, Category]]) -> list[Confusion]:
    """By the judge's category, then by that of people: a pass before a fail, texts by the alphabet."""
    counts = Counter(pairs).items()
    return [
        Confusion(judge=judge, people=people, cases=count)
        for (judge, people), count in sorted(counts, key=lambda one: (_order(one[0][0]), _order(one[0][1])))
    ]


def _order(category: Category) -> tuple[bool, str]:
    return (category is False, "") if isinstance(category, bool) else (False, category)


def _annotators(judged: JudgedCases) -> list[AnnotatorAgreement]:
    found: list[AnnotatorAgreement] = []
    for at, name in enumerate(judged.annotators):
        pairs = [(case.verdict, label) for case in judged.cases if (label := _label(case, at)) is not None]
        found.append(AnnotatorAgreement(name=name, labelled=len(pairs), agreement=cohen_kappa(pairs)))
    return found


def _pairs(judged: JudgedCases) -> list[AnnotatorPair]:
    found: list[AnnotatorPair] = []
    for (one, first), (other, second) in combinations(enumerate(judged.annotators), 2):
        labels = [
            (left, right)
            for case in judged.cases
            if (left := _label(case, one)) is not None and (right := _label(case, other)) is not None
        ]
        found.append(AnnotatorPair(first=first, second=second, agreement=cohen_kappa(labels)))
    return found


def _label(case: JudgedCase, annotator: int) -> Category | None:
    return case.labels[annotator] if annotator < len(case.labels) else None


def _corrected_rate(judged: JudgedCases, drawn: Sequence[JudgedCase]) -> CorrectedMean:
    values = [float(case.verdict is True) for case in judged.cases]
    return corrected_mean(values, [Label(float(case.verdict is True), case.human_pass) for case in drawn])


def _corrected_score(judged: JudgedCases, drawn: Sequence[JudgedCase]) -> CorrectedMean | None:
    """None unless the judge gave all cases a score, and people all drawn ones."""
    values = [case.score for case in judged.cases if case.score is not None and 0 <= case.score <= 1]
    labels = [
        Label(case.score, case.human_score)
        for case in drawn
        if case.score is not None and case.human_score is not None
    ]
    return (
        corrected_mean(values, labels)
        if len(values) == len(judged.cases) and len(labels) == len(drawn)
        else None
    )


def panel_votes(check: Mapping[str, object]) -> list[list[bool]]:
    """The votes of a panel on each decision of a check; empty without a panel."""
    place: object = check
    for name in ("results", "metadata", "panel", "votes"):
        place = place.get(name) if is_object(place) else None
    return [votes for votes in place.values() if is_list(votes)] if is_object(place) else []
