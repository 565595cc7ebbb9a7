"""
People review a judge: the drawn cases with the answers so far, and what they say about the judge.

An answer is a label of the annotations of the run, which `assay judge check` reads. Until a person has answered for a
case, neither what the judge said nor what others did is sent to them.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.cases.case_search import results_total, results_with_id
from assay.comparison.judged_results import JudgeChoice, StoredJudge, read_stored_judge
from assay.comparison.stored_runs import require_comparable, result_lines
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, Problem, UsageError
from assay.errors.storage import Erased
from assay.fep.records.service import EvaluationService
from assay.ports import Run, Store
from assay.protocol.annotations import Annotation
from assay.results.judge_check import Category, JudgedCase, JudgeReport, check_judge, labelled_part
from assay.results.judge_rows import judge_rows
from assay.results.judge_samples import record_sample
from assay.runs.annotations import annotations
from assay.runs.labels import people_labels
from assay.serve.fep.comparison import words_of_requests
from assay.serve.fep.comparison_cache import use_lines
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.server_state import fep_of
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import host_of
from assay.serve.overview.access import any_run
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

MAX_RESULTS = 10_000  # of a run that is reviewed
MAX_DRAWN = 1_000
MAX_SEED = 2**53


class SampleRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draw of `count` judged cases. A larger one with the same seed contains it."""

    count: Annotated[int, Meta(ge=1, le=MAX_DRAWN)] = 30
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = 0
    check: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET


class ReviewSample(Struct, frozen=True, kw_only=True):
    seed: int
    drawn: int
    judged: int


class ReviewCase(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A drawn case. `mine`: what the caller answered. Only then it has `judge` and `people`: what the judge and each
    person say.
    """

    position: int | None
    case_id: str
    answers: int = 0
    mine: Category | None = None
    judge: Category | UnsetType = UNSET
    people: dict[str, Category] | UnsetType = UNSET


class ReviewNumbers(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    What the labels say so far: agreement with the judge; and over the first drawn cases that are labelled, the bias,
    which is judge minus people, and the pass rate that it corrects.
    """

    agreement: float | None
    kappa: float | None
    low: float | None
    high: float | None
    why: str  # there is no kappa
    cases: int
    judged_rate: float | None
    bias: float | None
    bias_low: float | None
    bias_high: float | None
    rate: float | None
    rate_low: float | None
    rate_high: float | None
    rate_labels: int
    rate_why: str


class Review(Struct, frozen=True, kw_only=True):
    """
    `judges` are the checks of an evaluation that ask a judge, `judge` the one of this answer. `numbers` correct the
    rate with the first drawn cases that are labelled. `rows` are the lines of `assay judge check`. `why`: the run has
    no judge.
    """

    you: str
    noun: str = "case"
    judge: str = ""
    judges: list[str] = []
    judged: int = 0
    people: list[str] = []
    sample: ReviewSample | None = None
    cases: list[ReviewCase] = []
    numbers: ReviewNumbers | None = None
    rows: list[tuple[str, str]] = []
    why: str = ""


_sample = msgspec.json.Decoder(SampleRequest).decode


async def get_review(call: HttpRequest) -> Response:
    """GET …/runs/{run_id}/review."""
    params = call.query("check")
    run = await _reviewed(call)
    await call.audit_read(run)
    notes, check = await annotations(call.server.store, run), params.get("check")
    with words_of_requests():
        judge = await _judge(fep_of(call).evaluations, run, notes, check)
        return answer(await review_of(call.server.store, run, notes, judge, call.principal.id))


async def draw_review(call: HttpRequest) -> Response:
    """POST …/runs/{run_id}/review: draw a sample, or a larger one."""
    call.query()
    body_format(call)
    body = await read_json(call, _sample, await read_document(call) or b"{}")
    run = await _reviewed(call)
    await call.audit_read(run)
    store, now = call.server.store, call.server.clock.now()
    check = None if body.check is UNSET else body.check
    with words_of_requests():
        judge = await _judge(fep_of(call).evaluations, run, await annotations(store, run), check)
        if isinstance(judge, str):
            return answer(await review_of(store, run, [], judge, call.principal.id))
        count = min(body.count, len(judge.judged.cases))
        await record_sample(store, run, judge.judged, count, body.seed, now, call.principal.id)
        notes = await annotations(store, run)
        judge = await _judge(fep_of(call).evaluations, run, notes, check)
        return answer(await review_of(store, run, notes, judge, call.principal.id), 201)


async def _reviewed(call: HttpRequest) -> Run:
    run = await any_run(call)
    if not host_of(call).feedback:
        raise NotProvided("feedback")
    if run.erased:
        raise Erased(run.id, run.erased, run.erased_by)
    require_comparable(run)
    if results_total(run) > MAX_RESULTS:
        message = f"expected a run of at most {MAX_RESULTS:,} results, got {results_total(run):,}"
        raise InvalidRequest(Problem("run", message))
    return run


async def _judge(
    evaluations: EvaluationService, run: Run, notes: Sequence[Annotation], check: str | None
) -> StoredJudge | str:
    """The judge that is reviewed; a text says why there is none."""

    async def feed(use: Callable[[bytes], None]) -> None:
        await use_lines(result_lines(evaluations, run), use)

    decided = [note for note in notes if not _is_score(note)]
    choice = JudgeChoice(check=check, first=check is None)
    try:
        return await read_stored_judge(evaluations.store, run, decided, feed, choice)
    except UsageError as none:
        if check is not None:
            raise
        return str(none)


def _is_score(note: Annotation) -> bool:
    """Whether it corrects a score of an evaluation alone, which says neither pass nor fail."""
    return note.signal.kind == "correction" and '"passed"' not in str(note.signal.correction)


async def review_of(
    store: Store, run: Run, notes: Sequence[Annotation], judge: StoredJudge | str, you: str
) -> Review:
    """What one person sees."""
    if isinstance(judge, str):
        return Review(you=you, why=judge)
    judged = judge.judged
    by_event = run.kind == EVAL
    people = list(
        people_labels(notes, lambda note: note.target.event_id if by_event else note.target.node_id)
    )
    drawn = judged.sample_cases()[:MAX_DRAWN]
    places = await _positions(store, run, [case.id for case in drawn])
    whole, live = await in_thread(
        lambda: (check_judge(judged, judge.panel), check_judge(labelled_part(judged)))
    )
    sample = judged.sample
    return Review(
        noun=judged.noun,
        judge=judged.judge,
        judges=judge.judges,
        judged=len(judged.cases),
        you=you,
        people=people,
        sample=sample
        and ReviewSample(seed=sample.seed, drawn=min(sample.drawn, len(drawn)), judged=sample.judged),
        cases=[_case(case, places.get(case.id), people, you) for case in drawn],
        numbers=_numbers(judged.cases, whole, live),
        rows=list(judge_rows(whole, judged.noun, "")),
    )


async def _positions(store: Store, run: Run, ids: Sequence[str]) -> dict[str, int]:
    """The first position of each case."""
    if not ids:
        return {}
    trials = int(run.metadata.get("trials", 1))
    found, _ = await results_with_id(store, run.id, frozenset(ids), results_total(run))
    return {id: number // trials for number, id in sorted(found.items(), reverse=True)}


def _case(case: JudgedCase, position: int | None, people: Sequence[str], you: str) -> ReviewCase:
    labels = {person: label for person, label in zip(people, case.labels, strict=False) if label is not None}
    mine = labels.get(you)
    return ReviewCase(
        position=position,
        case_id=case.id,
        answers=len(labels),
        mine=mine,
        judge=UNSET if mine is None else case.verdict,
        people=UNSET if mine is None else labels,
    )


def _numbers(cases: Sequence[JudgedCase], whole: JudgeReport, live: JudgeReport) -> ReviewNumbers:
    agreement, rate = whole.agreement, live.pass_rate
    passed = [case.verdict for case in cases if isinstance(case.verdict, bool)]
    return ReviewNumbers(
        agreement=agreement.observed,
        kappa=agreement.value,
        low=agreement.low,
        high=agreement.high,
        why=agreement.reason,
        cases=agreement.cases,
        judged_rate=sum(passed) / len(passed) if passed else None,
        bias=None if rate is None else rate.bias,
        bias_low=None if rate is None else rate.bias_low,
        bias_high=None if rate is None else rate.bias_high,
        rate=None if rate is None else rate.mean,
        rate_low=None if rate is None else rate.low,
        rate_high=None if rate is None else rate.high,
        rate_labels=0 if rate is None else rate.labels,
        rate_why=live.uncorrected,
    )
