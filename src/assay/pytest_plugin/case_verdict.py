"""Decides whether the samples of a case pass, and says why not: the reason and both texts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from assay.protocol.json_types import JSON, is_object
from assay.results.check_names import result_label
from assay.results.reasons import is_failing, passed_of, reason_of
from assay.stats.intervals import counted_rate, wilson
from assay.terminal import lines as terminal_lines

DecideBy = Literal["estimate", "lower_bound"]
PassMode = Literal["per_test_case", "sample"]  # as in flex-evals
CheckMode = Literal["all", "any"]
MAX_TEXT = 1_000  # characters of an input, an expected value, an output or a reason
SHOWN = 3  # samples of a case, and cases of an evaluation, whose texts are shown
LABEL = 9
MAX_DIGITS = 17


class Bar(Struct, frozen=True, kw_only=True):
    """
    The bar of a case: the share of its samples that must pass, decided by the estimate or by its lower bound (95%,
    Wilson).
    """

    min_pass_rate: float = 1.0
    decide_by: DecideBy = "estimate"
    check_mode: CheckMode = "all"

    def accepts(self, outcomes: Sequence[bool], cases: Sequence[str] = ()) -> bool:
        """
        `cases` are the ids of the cases of these outcomes, if there are several: an interval counts cases (FEP-46).
        """
        low = sum(outcomes) / len(outcomes) if self.decide_by == "estimate" else lower_bound(outcomes, cases)
        return low >= self.min_pass_rate


def lower_bound(outcomes: Sequence[bool], cases: Sequence[str] = ()) -> float:
    """The lower end of the 95% interval of the share that passed."""
    if len(set(cases)) <= 1:
        return wilson(sum(outcomes) / len(outcomes), len(outcomes))[0]
    groups: dict[str, list[bool]] = {}
    for case, outcome in zip(cases, outcomes, strict=True):
        groups.setdefault(case, []).append(outcome)
    rate = counted_rate(Counter((sum(group), len(group)) for group in groups.values()))
    assert rate is not None
    return rate.low


class Verdict(NamedTuple):
    """`passed` is None if the results that are not measured could turn the verdict."""

    passed: bool | None
    headline: str


def outcome_of(result: JSON, mode: CheckMode = "all") -> bool | None:
    """Whether a result passed; None if it was not measured, or if no check says pass or fail."""
    answers = [passed_of(check) for check in result["check_results"]]
    if result["status"] != "completed" or not any(answer is not None for answer in answers):
        return None
    return True in answers if mode == "any" else False not in answers


def sample_outcomes(by_case: Sequence[Sequence[bool | None]]) -> list[bool | None]:
    """The outcome of each sample over all cases: it failed if one case failed, and passed if all cases passed."""
    return [
        False if False in outcomes else None if None in outcomes else True
        for outcomes in zip(*by_case, strict=True)
    ]


def decide(
    outcomes: Sequence[bool | None], bar: Bar, noun: str = "sample", cases: Sequence[str] = ()
) -> Verdict:
    """The verdict holds whatever the outcomes that are not measured would have been; else there is none."""
    total, passed, unknown = len(outcomes), outcomes.count(True), outcomes.count(None)
    pessimistic = [outcome is True for outcome in outcomes]
    worst = unknown < total and bar.accepts(pessimistic, cases)
    best = bar.accepts([outcome is not False for outcome in outcomes], cases)
    bound = ""
    if bar.decide_by == "lower_bound":
        bound = f", lower bound {beside(lower_bound(pessimistic, cases), bar.min_pass_rate)}"
    aside = f", {unknown} not measured" if unknown else ""
    headline = (
        f"{passed} of {total} {noun}{'' if total == 1 else 's'} passed{bound}{aside}; expected "
        f"{bar.min_pass_rate:g}"
    )
    return Verdict(True if worst else None if best else False, headline)


def beside(value: float, bar: float) -> str:
    """A value with so many digits that it reads on the side of the bar on which it is: it is compared unrounded."""
    digits = 2
    while digits < MAX_DIGITS and (float(f"{value:.{digits}f}") >= bar) is not (value >= bar):
        digits += 1
    return f"{value:.{digits}f}"


def describe(results: Sequence[JSON], mode: CheckMode, *, title: str = "") -> str:
    """The text of results that did not pass: those that failed first, and of equal reasons one."""
    ranked = sorted(
        (result for result in results if outcome_of(result, mode) is not True),
        key=lambda result: outcome_of(result, mode) is None,
    )
    texts = list(dict.fromkeys("\n".join(_lines_of(result)) for result in ranked))
    more = [f"… {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return "\n\n".join([*([title] if title else []), *texts[:SHOWN], *more])


def _lines_of(result: JSON) -> Iterator[str]:
    context = result["execution_context"]
    case, output = context["test_case"], context["output"]
    failing = [check for check in result["check_results"] if is_failing(check)] or result["check_results"]
    for check in failing:
        word = "failed" if check["status"] == "completed" else "not measured"
        yield terminal_lines(_cut(f"{result_label(check)} {word}: {reason_of(check, case)}"))
    yield _labelled("case", case.get("id"))
    yield _labelled("input", case.get("input"))
    if "expected" in case:
        yield _labelled("expected", case["expected"])
    metadata = output.get("metadata")
    answered = not (is_object(metadata) and metadata.get("outcome") in ("failed", "refused", "unmeasured"))
    yield _labelled("output", output.get("value") if answered else "(none)")


def _labelled(label: str, value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"  {label:<{LABEL}}{terminal_lines(_cut(text), ' ' * (LABEL + 2))}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
