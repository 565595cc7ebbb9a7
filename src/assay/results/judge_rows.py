"""What the labels of people say about a judge, line by line: in the terminal and in a notebook."""

from collections.abc import Iterable, Sequence

from assay.results.judge_check import Category, Confusion, JudgeReport, PanelReport
from assay.stats.judge_agreement import Agreement, CorrectedMean
from assay.stats.number_text import SCORE_DIGITS, Scale, change_text, fixed, percent, range_text, value_text
from assay.terminal import count_of

MAX_IDS = 10  # ids that are listed of cases without a label, or tied
KAPPA, ALPHA = "Cohen's κ", "Krippendorff's α"
Row = tuple[str, str]


def judge_rows(check: JudgeReport, noun: str, partial: str) -> Iterable[Row]:
    """Labels and texts. `partial` says why the results are not all of their run."""
    yield from _agreement_rows(check, noun)
    yield from (("confusion" if not at else "", line) for at, line in enumerate(_confusion(check.confusion)))
    if check.unmeasured:
        yield "judge", f"{count_of(check.unmeasured, noun)} without an answer of the judge: not measured"
    if check.unmatched:
        yield "labels", f"{count_of(check.unmatched, 'label')} of {noun}s that are not in the results"
    if partial:
        yield "partial", f"the file has not all results: {partial}"
    if check.panel is not None:
        yield from _panel_rows(check.panel, check.judged, noun)
    if check.bias is not None:
        higher, lower = check.bias > 0, check.bias < 0
        side = "higher than people" if higher else "lower than people" if lower else "as high"
        yield (
            "bias",
            f"{change_text(check.bias, SCORE_DIGITS)}: over the labelled {noun}s, the judge's score is {side}",
        )
    yield from _correction_rows(check, noun)


def _correction_rows(check: JudgeReport, noun: str) -> Iterable[Row]:
    if check.sample is not None:
        yield "sample", f"{check.sample.drawn} {noun}s drawn with the seed {check.sample.seed}"
    if check.pass_rate is not None:
        yield "pass rate", _corrected(check.pass_rate, "rate")
    if check.score is not None:
        yield "score", _corrected(check.score, "score")
    if check.uncorrected:
        yield "corrected", f"no corrected mean: {check.uncorrected}"
    if check.unlabelled:
        yield "", _listed(check.unlabelled)


def _agreement_rows(check: JudgeReport, noun: str) -> Iterable[Row]:
    """One annotator beside the judge; or each of several, their majority, and the annotators among themselves."""
    if len(check.annotators) == 1:
        yield "agreement", _agreement(check.agreement, KAPPA)
        return
    for one in check.annotators:
        yield one.name, _agreement(one.agreement, KAPPA)
    yield "majority", _agreement(check.agreement, KAPPA)
    if check.ties:
        count = f"{count_of(len(check.ties), noun)} without a majority: in no agreement, half a pass in the pass rate"
        yield "ties", count
        yield "", _listed(check.ties)
    for pair in check.pairs:
        yield "people", f"{pair.first} and {pair.second}: {_agreement(pair.agreement, KAPPA)}"
    if check.people is not None and len(check.pairs) > 1:
        yield "people", f"all: {_agreement(check.people, ALPHA)}"


def _confusion(cells: Sequence[Confusion]) -> list[str]:
    """`judge passed: people passed 20, failed 4`, a line for each answer of the judge."""
    lines: dict[str, list[str]] = {}
    for cell in cells:
        lines.setdefault(_category(cell.judge), []).append(f"{_category(cell.people)} {cell.cases:,}")
    return [f"judge {judge}: people {', '.join(people)}" for judge, people in lines.items()]


def _category(category: Category) -> str:
    return ("passed" if category else "failed") if isinstance(category, bool) else category


def _listed(ids: list[str]) -> str:
    more = len(ids) - MAX_IDS
    return ", ".join(ids[:MAX_IDS]) + (f" and {more:,} more" if more > 0 else "")


def _panel_rows(panel: PanelReport, judged: int, noun: str) -> Iterable[Row]:
    yield "panel", _agreement(panel.agreement, ALPHA)
    yield "", _split(panel.split, judged, noun)


def _split(ids: list[str], judged: int, noun: str) -> str:
    if not ids:
        return f"no {noun} has answers on both sides of the bar"
    return f"{len(ids):,} of {count_of(judged, noun)} have answers on both sides of the bar: {_listed(ids)}"


def _agreement(agreement: Agreement, name: str) -> str:
    if agreement.observed is None:
        return "no labels yet" if not agreement.cases else agreement.reason
    of = f"{percent(agreement.observed)} over {agreement.cases:,}"
    if agreement.value is None:
        return f"{of}; {name} is {agreement.reason}"
    limits = (
        ""
        if agreement.low is None or agreement.high is None
        else f" (95% {fixed(agreement.low, 2)}…{fixed(agreement.high, 2)})"
    )
    return f"{of}; {name} {fixed(agreement.value, 2)}{limits}"


def _corrected(mean: CorrectedMean, scale: Scale) -> str:
    return (
        f"{value_text(mean.uncorrected, scale)} by the judge, {value_text(mean.mean, scale)}"
        f" (95% PPI++ {range_text(mean.low, mean.high, scale, '…')}) corrected by {count_of(mean.labels, 'label')}"
    )
