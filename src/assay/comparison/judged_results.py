"""
The cases of an evaluation that a judge answered for, with the labels of people, from its result lines.

A case with several trials counts once, with one rule for judge and people: it passed if it passed every trial. A trial
that the judge gave no answer for makes the case unmeasured; one without a label leaves it unlabelled.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as AGENT_EVAL
from assay.agenteval.results.judge_labels import read_judged, read_panel
from assay.checks import JUDGE_TYPES
from assay.comparison.labels import (
    LabelSource,
    about_check,
    is_absent,
    number_in,
    read_category,
    read_verdict,
    stored_labels,
)
from assay.comparison.result_line import CheckLine, ResultLine, read_line
from assay.errors import InvalidRequest, UsageError
from assay.errors.door import hint_of, place_of
from assay.ports import Run, Store
from assay.protocol.annotations import Annotation
from assay.protocol.json_types import JSON, is_object, preview
from assay.results.check_names import free_label
from assay.results.judge_check import (
    Category,
    JudgedCase,
    JudgedCases,
    JudgeReport,
    JudgeSample,
    PanelReport,
    check_judge,
    draw,
    panel_votes,
)
from assay.results.judge_samples import recorded_sample
from assay.results.reasons import number_of
from assay.results.slices import listed_members, note_members
from assay.runs.labels import people_labels
from assay.stats.judge_agreement import krippendorff_alpha

MAX_NAMES = 500  # characters of a list of names in a refusal
_decode = msgspec.json.Decoder().decode


class _Answer:
    """The answers of one judge to the trials of a case."""

    __slots__ = ("measured", "scores", "values", "votes")

    def __init__(self) -> None:
        self.measured = True
        self.values: list[Any] = []
        self.scores: list[float | None] = []
        self.votes: list[list[bool]] = []


class JudgedResults:
    """
    Collects the answers of judges and the labels of cases line by line.

    `check` names the check that is held against the labels, or `CHECK:MEMBER` a member of its answer. Without it, the
    results must have one judge, or `first` takes the first of several. `bar`: numbers from it on are a pass, in labels
    and in answers without a pass or fail.
    """

    def __init__(
        self,
        sources: Sequence[LabelSource],
        *,
        check: str | None = None,
        bar: float | None = None,
        first: bool = False,
    ) -> None:
        self._sources, self._bar, self._first = sources, bar, first
        self._check, _, self._member = (check or "").partition(":")
        self._answers: dict[str, dict[str, _Answer]] = {}  # by check and case
        self._labels: dict[str, list[list[Any]]] = {}  # by case: for each annotator, those of its trials
        self._checks: dict[str, None] = {}
        self._judges: dict[str, None] = {}
        self._members: dict[str, None] = {}
        self._reads_output = any(source.reads_output for source in sources)

    def add(self, raw: bytes, location: str) -> ResultLine:
        """Add one line of results."""
        line = read_line(raw, location)
        id = line.case["id"]
        context: JSON = _decode(raw)["execution_context"] if self._reads_output else {"test_case": line.case}
        labels = self._labels.setdefault(id, [[] for _ in self._sources])
        for source, values in zip(self._sources, labels, strict=True):
            values.append(source.value(context))
        note_members(line.case, self._members)
        for label, check in _labelled_checks(line.check_results):
            self._checks.setdefault(label)
            if check.check_type in JUDGE_TYPES:
                self._judges.setdefault(label)
            if (
                label == self._check
                or check.check_type == self._check
                or (not self._check and check.check_type in JUDGE_TYPES)
            ):
                self._add_answer(self._answers.setdefault(label, {}).setdefault(id, _Answer()), line, check)
        return line

    def _add_answer(self, answer: _Answer, line: ResultLine, check: CheckLine) -> None:
        if check.status != "completed":
            answer.measured = False
            return
        score = line.score(check)
        answer.values.append(self._value(check, score))
        answer.scores.append(score)
        answer.votes += panel_votes({"results": check.results})

    def _value(self, check: CheckLine, score: float | None) -> Any:
        """The verdict of a completed check, or the member that was named."""
        if self._member:
            response = check.results.get("response")
            for part in (check.results, response if is_object(response) else {}):
                if self._member in part:
                    return part[self._member]
            return None
        return score if (passed := check.passed) is None else passed

    @property
    def judges(self) -> list[str]:
        """The checks that ask a judge."""
        return list(self._judges)

    def judged(self, seed: int | None = None) -> JudgedCases:
        """
        The cases of the judge, with the labels of people.

        With a seed, the labelled cases must be a draw with it; then they are a random sample.
        """
        label = self._judge()
        answers = self._answers[label]
        measured = {
            id: answer for id, answer in answers.items() if answer.measured and None not in answer.values
        }
        if not measured:
            raise InvalidRequest(self._no_answer(label, answers))
        as_text = any(self._is_text(value) for answer in measured.values() for value in answer.values)
        cases = [self._case(label, id, answer, as_text) for id, answer in measured.items()]
        judged = JudgedCases(
            cases=[case for case in cases if case is not None],
            judge=label + (f":{self._member}" if self._member else ""),
            annotators=tuple(source.name for source in self._sources),
            unmeasured=len(self._labels) - len(measured) + sum(case is None for case in cases),
            unmatched=self._unmatched(),
        )
        self._require_labels()
        return judged if seed is None else msgspec.structs.replace(judged, sample=_sample(judged.cases, seed))

    def panel(self) -> PanelReport | None:
        """How far the answers of a panel agree with each other; None without a panel."""
        answers = self._answers[self._judge()]
        decisions = [votes for answer in answers.values() for votes in answer.votes]
        split = [id for id, answer in answers.items() if any(len(set(votes)) > 1 for votes in answer.votes)]
        return PanelReport(krippendorff_alpha(decisions), split) if decisions else None

    def check(self, seed: int | None = None) -> JudgeReport:
        """What the labels say about the judge."""
        return check_judge(self.judged(seed), self.panel())

    def _judge(self) -> str:
        names = list(self._answers)
        if len(names) == 1 or (names and self._first):
            return names[0]
        if not self._labels:
            raise InvalidRequest("nothing can be checked: there are no results")
        if names:
            raise UsageError(
                f"expected one judge, these results have {len(names)}; name one of them:"
                f" {_listed([hint_of('check', one) for one in names], ' or ')}"
            )
        known = f"the checks are {_listed(self._checks)}" if self._checks else "they have no checks"
        if self._check:
            raise UsageError(
                f"{place_of('check')}: no check of these results is called {self._check!r}; {known}"
            )
        raise UsageError(
            f"there is no check in these results that asks a judge; {known},"
            f" and {hint_of('check', 'NAME')} names one of them"
        )

    def _no_answer(self, label: str, answers: dict[str, _Answer]) -> str:
        if all(not answer.measured for answer in answers.values()):
            return f"{label} has no answer to compare: it was not measured in any of {len(answers):,} cases"
        if self._member:
            return f"{place_of('check')}: no answer of {label} has the member {self._member!r}"
        return f"{label} neither passes nor fails; {hint_of('check', f'{label}:MEMBER')} names a member of its answers"

    def _is_text(self, value: Any) -> bool:
        """Whether an answer is compared as a text: it is neither a pass or fail, nor a number with a bar."""
        if isinstance(value, bool):
            return False
        number = number_of(value)
        if number is not None and not self._member and self._bar is None:
            raise UsageError(
                "expected a judge that passes or fails, got one that gives a number;"
                f" {hint_of('bar', 'N', 'N')} says from which number on it is a pass"
            )
        return number is None or self._bar is None

    def _case(self, check: str, id: str, answer: _Answer, as_text: bool) -> JudgedCase | None:
        """None: the trials have different answers, so the case has none."""
        values = [self._category(value, as_text, "") for value in answer.values]
        verdict = _folded(values)
        if verdict is None:
            return None
        labels: list[Category | None] = []
        scores: list[float] = []
        for source, values_given in zip(self._sources, self._labels[id], strict=True):
            place = f"{source.place}, the case {preview(id)}"
            given = [about_check(value, check) for value in values_given]
            present = [self._category(value, as_text, place) for value in given if not is_absent(value)]
            labels.append(_folded(present) if len(present) == len(given) else None)
            numbers = [number for value in given if (number := number_in(value)) is not None]
            if self._bar is not None and len(numbers) == len(given) and all(0 <= one <= 1 for one in numbers):
                scores.append(sum(numbers) / len(numbers))
        known = [score for score in answer.scores if score is not None]
        return JudgedCase(
            id=id,
            verdict=verdict,
            score=sum(known) / len(known) if known and len(known) == len(answer.scores) else None,
            labels=tuple(labels),
            human_score=sum(scores) / len(scores) if scores else None,
        )

    def _category(self, value: Any, as_text: bool, location: str) -> Category:
        return read_category(value) if as_text else read_verdict(value, self._bar, location)

    def _unmatched(self) -> int:
        """The labels of cases that the results do not have."""
        ids = [source.by_id for source in self._sources if source.by_id is not None]
        return sum(
            id not in self._labels and not is_absent(value) for by_id in ids for id, value in by_id.items()
        )

    def _require_labels(self) -> None:
        """Refuse an annotator without a label for any case: it is a wrong name, or a file of other cases."""
        for at, source in enumerate(self._sources):
            if source.stored or any(
                not is_absent(value) for labels in self._labels.values() for value in labels[at]
            ):
                continue
            if source.by_id is not None:
                raise UsageError(
                    f"{source.place}: it has no label for a case of these results; ids are compared"
                )
            raise UsageError(f"{source.place}: no case has a label there; {listed_members(self._members)}")


def _labelled_checks(checks: Sequence[CheckLine]) -> Iterable[tuple[str, CheckLine]]:
    """Each check with a label of its own: the second of two checks without a name is numbered."""
    labels = [check.label for check in checks]
    total, names, counts = Counter(labels), set(labels), Counter[str]()
    for label, check in zip(labels, checks, strict=True):
        yield (free_label(label, counts, names) if total[label] > 1 else label), check


def _folded(values: Sequence[Category]) -> Category | None:
    """One category for all trials: a pass if every trial passed; a text if all have the same."""
    if not values:
        return None
    if all(isinstance(value, bool) for value in values):
        return all(values)
    return values[0] if len(set(values)) == 1 else None


def _sample(cases: Sequence[JudgedCase], seed: int) -> JudgeSample | None:
    """The draw that the labelled cases are; None without labels. Raises UsageError if they are another choice."""
    labelled = {case.id for case in cases if case.is_labelled}
    if not labelled:
        return None
    drawn = draw(cases, len(labelled), seed)
    other = next((case.id for case in drawn if case.id not in labelled), None)
    if other is not None:
        raise UsageError(
            f"{place_of('seed', seed)}: the labelled cases are not a draw with this seed: {other!r} comes before"
            " some of them and has no label; `assay judge sample` draws cases to label"
        )
    count = len(labelled)
    return JudgeSample(seed=seed, drawn=count, judged=len(cases), probability=count / len(cases))


def _listed(names: Iterable[str], separator: str = ", ") -> str:
    return separator.join(names)[:MAX_NAMES]


# The judge of a stored run beside the labels that people stored with it: for `assay judge`, the library and REST.

Feed = Callable[[Callable[[bytes], None]], Awaitable[None]]  # gives each line of results to a function


class JudgeChoice(Struct, frozen=True, kw_only=True):
    """
    Which check is the judge, and other labels than those of the run. `first`: of several judges the first, not a
    refusal. `seed`: the labelled cases must be a draw with it, if the run has no recorded sample.
    """

    labels: Sequence[LabelSource] = ()
    check: str | None = None
    bar: float | None = None
    seed: int | None = None
    first: bool = False


class StoredJudge(Struct, frozen=True, kw_only=True):
    """The judged cases of a run with their labels, what a panel says, and the names of all its judges."""

    judged: JudgedCases
    panel: PanelReport | None
    judges: list[str]


async def read_stored_judge(
    store: Store, run: Run, notes: Sequence[Annotation], feed: Feed, choice: JudgeChoice
) -> StoredJudge:
    """The judge of a run that has ended. `feed` reads the results of an evaluation."""
    if run.kind == AGENT_EVAL:
        return StoredJudge(
            judged=await read_judged(store, run, notes), panel=await read_panel(store, run), judges=[]
        )
    sample = recorded_sample(notes)
    labels = choice.labels or stored_labels(people_labels(notes, lambda note: note.target.node_id))
    results = JudgedResults(labels, check=choice.check, bar=choice.bar, first=choice.first)

    def add(line: bytes) -> None:
        results.add(line, run.id)

    await feed(add)
    judged = results.judged(choice.seed if sample is None else None)
    if sample is not None:
        judged = msgspec.structs.replace(judged, sample=sample)
    return StoredJudge(judged=judged, panel=results.panel(), judges=results.judges)
