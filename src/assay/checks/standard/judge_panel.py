"""
A panel of judges: several models, each asked several times, and one answer from all of theirs.

A boolean is decided by the majority, a number by the mean, a choice of an enum by the most votes. Texts come from a
member that voted with the majority. An answer that failed is not a vote. Choices with equally many votes are a tie: it
is reported, and if nothing else decides, the panel has no answer.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from math import inf
from statistics import fmean, median_low, stdev
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from assay.checks.checker import InvalidArgument
from assay.errors import ForeignFault
from assay.protocol.json_types import is_list, is_object

MAX_ANSWERS = 25
PASSED = "passed"
Number = float | int


class JudgePanel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    `models` are asked `times` times each; without `models`, the model of the check.

    Without `mean`, the majority of `passed` decides, so the number of answers is odd. With it, the mean of that member
    of the answers decides: it passes from `bar` on. `seed` orders the choices of enums, differently for each answer.
    """

    models: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    times: Annotated[int, Meta(ge=1, le=MAX_ANSWERS)] = 1
    mean: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    bar: Number | UnsetType = UNSET
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.mean is UNSET) != (self.bar is UNSET):
            raise ValueError("expected both mean and bar, or neither of them")
        if self.size > MAX_ANSWERS:
            raise ValueError(f"expected at most {MAX_ANSWERS} answers, got {self.size}")
        if self.mean is UNSET and self.size % 2 == 0:
            raise ValueError(f"expected an odd number of answers for a majority, got {self.size}")

    @property
    def size(self) -> int:
        return max(1, len(self.models)) * self.times

    def members(self) -> Iterator[tuple[str | None, int]]:
        """The model of each answer, and how often that model was asked before."""
        asked = Counter[str | None]()
        for model in self.models or (None,):
            for _ in range(self.times):
                yield model, asked[model]
                asked[model] += 1

    def contradiction(self, response: Any) -> str | None:
        """The problem of an answer whose `passed` contradicts its own number; None if there is none."""
        if self.mean is UNSET or self.bar is UNSET or not is_object(response):
            return None
        value = response.get(self.mean)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"has no number as {self.mean!r}"
        passed = response.get(PASSED)
        if isinstance(passed, bool) and passed != (value >= self.bar):
            side = "at least" if value >= self.bar else "below"
            return (
                f"contradicts itself: passed is {str(passed).lower()}, and {self.mean} {value:g} is "
                f"{side} the bar {self.bar:g}"
            )
        return None


def require_majority(literals: Mapping[str, Any]) -> None:
    """Refuse a panel that decides by a mean, for a judge whose answer has no number."""
    panel = literals.get("panel", UNSET)
    if isinstance(panel, JudgePanel) and panel.mean is not UNSET:
        raise InvalidArgument("panel", "expected a majority: this judge has no number for `mean`")


def shuffled(schema: dict[str, Any], panel: JudgePanel, prompt: str, answer: int) -> dict[str, Any]:
    """
    The schema with the choices of its enums in an order of their own for each answer, so that no place is preferred.
    """
    properties = schema.get("properties")
    if not is_object(properties) or not any(_choices(one) for one in properties.values()):
        return schema
    digest = sha256(f"{panel.seed}\0{answer}\0{prompt}".encode(errors="surrogatepass")).digest()
    order = random.Random(digest)  # noqa: S311  # an order, not a secret
    changed = {
        name: {**one, "enum": order.sample(choices, len(choices))} if (choices := _choices(one)) else one
        for name, one in properties.items()
    }
    return {**schema, "properties": changed}


def _choices(schema: Any) -> list[Any]:
    choices = schema.get("enum") if is_object(schema) else None
    return choices if is_list(choices) else []


def combine(
    panel: JudgePanel, answers: Sequence[dict[str, Any]], failures: Sequence[str], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    One response from all answers, and the numbers of the panel for the metadata.

    Answers that failed are tolerated only if no answer in their place could change the verdict. Otherwise the panel has
    no answer.
    """
    if failures and not _is_decided(panel, answers, schema):
        raise ForeignFault(
            f"{len(failures)} of {panel.size} answers of the panel failed, and they could change the verdict; "
            f"the first: {failures[0]}"
        )
    choices = {path: Counter(values) for path, values in _choice_votes(answers, schema)}
    ties = [path for path, counts in choices.items() if _is_tied(counts)]
    decides = panel.mean is not UNSET or any(isinstance(values[0], bool) for _, values in _leaves(answers))
    if ties and not decides:
        votes = ", ".join(f"{choice} {count}" for choice, count in choices[ties[0]].items())
        raise ForeignFault(f"the panel has no majority for {ties[0]}: {votes}")
    response: dict[str, Any] = _combined(answers, schema)
    votes = {path: values for path, values in _leaves(answers) if isinstance(values[0], bool)}
    numbers = {path: values for path, values in _leaves(answers) if not isinstance(values[0], bool)}
    if panel.mean is not UNSET and panel.bar is not UNSET:
        bar, values = panel.bar, numbers[panel.mean]
        response[PASSED] = fmean(values) >= bar
        votes[PASSED] = [value >= bar for value in values]
    about: dict[str, Any] = {
        "answers": panel.size,
        "failed": len(failures),
        "votes": votes,
        "numbers": {path: _spread(values) for path, values in numbers.items()},
        "agreement": _agreement(votes or dict(_choice_votes(answers, schema))),
        "straddles": any(len(set(values)) > 1 for values in (votes or choices).values()),
    }
    if choices:
        about |= {"choices": choices, "ties": ties}
    return response, about


def _is_decided(panel: JudgePanel, answers: Sequence[dict[str, Any]], schema: Mapping[str, Any]) -> bool:
    """
    Whether the verdict is the same, whatever the failed answers had been.

    The verdict is the mean against its bar, else `passed`, else every boolean, else every choice of an enum. A mean is
    decided only if the schema limits its number.
    """
    if not answers:
        return False
    failed = panel.size - len(answers)
    if panel.mean is not UNSET and panel.bar is not UNSET:
        low, high = _limits(schema, panel.mean)
        known: list[float] = [one[panel.mean] for one in answers]
        return fmean([*known, *[low] * failed]) >= panel.bar or fmean([*known, *[high] * failed]) < panel.bar
    votes = {path: values for path, values in _leaves(answers) if isinstance(values[0], bool)}
    if votes:
        verdict = [votes[PASSED]] if PASSED in votes else votes.values()
        return all(2 * max(sum(one), len(one) - sum(one)) > panel.size for one in verdict)
    leads = [_lead(Counter(values)) for _, values in _choice_votes(answers, schema)]
    return bool(leads) and all(lead > failed for lead in leads)


def _limits(schema: Mapping[str, Any], name: str) -> tuple[float, float]:
    """The least and the largest number that a member may be."""
    properties = schema.get("properties")
    part: Any = properties.get(name) if is_object(properties) else None
    if not is_object(part):
        return -inf, inf
    choices: list[float] = [one for one in _choices(part) if _is_number(one)]
    low: list[float] = [part[key] for key in ("minimum", "exclusiveMinimum") if _is_number(part.get(key))]
    high: list[float] = [part[key] for key in ("maximum", "exclusiveMaximum") if _is_number(part.get(key))]
    if choices:
        low, high = [*low, min(choices)], [*high, max(choices)]
    return max(low, default=-inf), min(high, default=inf)


def _lead(votes: Counter[str]) -> int:
    """By how many votes the first choice leads."""
    (_, most), *others = votes.most_common(2)
    return most - (others[0][1] if others else 0)


def _choice_votes(answers: Sequence[Any], schema: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """The votes for the choices of each enum of texts, by its place."""
    properties = schema.get("properties") if is_object(schema) else None
    for name, part in properties.items() if is_object(properties) else ():
        values = [one[name] for one in answers if name in one]
        place = f"{path}.{name}" if path else name
        if values and all(map(is_object, values)):
            yield from _choice_votes(values, part, place)
        elif values and _choices(part) and all(isinstance(one, str) for one in values):
            yield place, values


def _is_tied(votes: Counter[str]) -> bool:
    return _lead(votes) == 0


def _leaves(answers: Sequence[Any], path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """The booleans and numbers of the answers by their place, if all answers have them."""
    for name in answers[0] if answers else ():
        values = [one[name] for one in answers if name in one]
        place = f"{path}.{name}" if path else name
        if len(values) < len(answers):
            continue
        if all(map(is_object, values)):
            yield from _leaves(values, place)
        elif all(isinstance(one, bool) for one in values) or all(map(_is_number, values)):
            yield place, values


def _combined(answers: Sequence[Any], schema: Any) -> Any:
    if all(map(is_object, answers)):
        properties = schema.get("properties") if is_object(schema) else None
        parts: Mapping[str, Any] = properties if is_object(properties) else {}
        names = dict.fromkeys(name for one in answers for name in one)
        merged = {
            name: _combined([one[name] for one in answers if name in one], parts.get(name)) for name in names
        }
        typical = next((one for one in answers if _votes_like(one, merged)), answers[0])
        text = {
            name
            for name, value in merged.items()
            if is_list(value) or (isinstance(value, str) and not _choices(parts.get(name)))
        }
        return {name: typical.get(name, value) if name in text else value for name, value in merged.items()}
    if all(isinstance(one, bool) for one in answers):
        return 2 * sum(answers) > len(answers)
    if all(map(_is_number, answers)):
        is_integer = is_object(schema) and schema.get("type") == "integer"
        return median_low(answers) if is_integer else fmean(answers)
    if all(isinstance(one, str) for one in answers):
        return Counter(answers).most_common(1)[0][0]
    return answers[0]


def _votes_like(answer: dict[str, Any], merged: Mapping[str, Any]) -> bool:
    return all(answer.get(name) == value for name, value in merged.items() if isinstance(value, bool))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _spread(values: Sequence[float]) -> dict[str, float]:
    deviation = stdev(values) if len(values) > 1 else 0.0
    return {"mean": fmean(values), "deviation": deviation, "least": min(values), "largest": max(values)}


def _agreement(votes: Mapping[str, Sequence[bool | str]]) -> float | None:
    """The share of pairs of answers that agree, over all decisions. None without a pair."""
    pairs = [one == other for values in votes.values() for one, other in combinations(values, 2)]
    return fmean(pairs) if pairs else None
