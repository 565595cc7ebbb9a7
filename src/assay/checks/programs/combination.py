"""
combination (an extension to FEP): one score and one verdict from several checks, by weights or by an expression.

The parts are standard checks, and are bound as other checks are. Only a part that counts can leave the whole without a
measure: one of weight 0, or one that the expression does not name, cannot change the result.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.checks import STANDARD
from assay.checks.arguments import BoundCheck, bind
from assay.checks.async_tasks import run_tasks_async
from assay.checks.checker import Answer, Checker, InvalidArgument, Number, closed_object
from assay.checks.programs.arithmetic import Arithmetic
from assay.checks.runner import MAX_MESSAGE, PreparedCheck, call, fault_of, prepare, validate_answer
from assay.checks.standard.threshold import check_bounds, in_range
from assay.checks.worker_tasks import WorkerTask
from assay.concurrency.threads import in_thread
from assay.errors import Fault, ForeignFault, InvalidRequest, PathFault, Problem, TimeFault, ValueFault
from assay.ports import Services
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON, is_list, is_mapping, is_object
from assay.protocol.redaction import redact_text

DEEPEST = 5  # combinations inside one another
PLACE = "checks[{}]"
HIDDEN = {"hidden": True}
_encode = msgspec.json.Encoder().encode
_checks = msgspec.json.Decoder(list[Check]).decode


class ScoreThreshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the score has to lie, as in `threshold` (FEP-23)."""

    min_value: Number | UnsetType = UNSET
    max_value: Number | UnsetType = UNSET
    min_inclusive: bool = True
    max_inclusive: bool = True
    negate: bool = False

    def __post_init__(self) -> None:
        check_bounds(self.min_value, self.max_value)

    @property
    def text(self) -> str:
        """`at least 0.5 and below 1`."""
        least, most = self.min_value, self.max_value
        low = "" if least is UNSET else f"{'at least' if self.min_inclusive else 'above'} {least:g}"
        high = "" if most is UNSET else f"{'at most' if self.max_inclusive else 'below'} {most:g}"
        return ("not " if self.negate else "") + " and ".join(filter(None, (low, high)))

    def is_met(self, score: float) -> bool:
        inside = in_range(score, self.min_value, self.max_value, self.min_inclusive, self.max_inclusive)
        return inside != self.negate


class Value(NamedTuple):
    """A number of a part: the one under `member`; "": its score, or 1 for a pass and 0 for a fail."""

    part: int
    member: str


class Rule(NamedTuple):
    """The parts of a combination, and how their numbers become its score."""

    parts: tuple[BoundCheck, ...]
    names: tuple[str, ...]
    values: Mapping[str, Value]  # the numbers that count
    weights: Mapping[str, float]
    expression: Arithmetic | None

    @property
    def counting(self) -> set[int]:
        """The parts that can change the result."""
        return {one.part for one in self.values.values()}


class Combination(Checker):
    type = "combination"
    keeps_time = True
    default_paths = {"test_case": "$.test_case", "output": "$.output"}  # noqa: RUF012  # declared a ClassVar in Checker
    results_schema = closed_object(
        {
            "score": {"type": "number"},
            "passed": {"type": "boolean", "description": "with a threshold, or if parts have verdicts"},
            "reason": {"type": "string"},
            "parts": {
                "type": "array",
                "items": {"type": "object"},
                "description": "name, type, value, results or error",
            },
            "metadata": {"type": "object", "description": "cost_usd and tokens_used of all parts"},
        },
        optional=("passed", "metadata"),
    )

    checks: Annotated[list[Check], Meta(min_length=1, max_length=100, extra={"literal": True})]
    test_case: Annotated[Any, Meta(extra=HIDDEN)]
    output: Annotated[Any, Meta(extra=HIDDEN)]
    weights: Annotated[dict[str, Number], Meta(extra={"literal": True})] | UnsetType = UNSET
    expression: Annotated[str, Meta(min_length=1, extra={"literal": True})] | UnsetType = UNSET
    threshold: ScoreThreshold | UnsetType = UNSET

    async def run(self, services: Services) -> Answer:
        rule = rule_of(self.checks, self.weights, self.expression)
        document: JSON = {"test_case": self.test_case, "output": self.output}
        answers = await _ask(rule, document, services)
        usage = _usage(answers)
        try:
            values = _values(rule, answers)
            score = _score(rule, values)
        except Fault as fault:
            fault.metadata = usage
            raise
        passed = self._verdict(rule, answers, score)
        parts = [
            _part(name, bound, one) for name, bound, one in zip(rule.names, rule.parts, answers, strict=True)
        ]
        answer: JSON = {"score": score, "reason": self._reason(values, score, passed), "parts": parts}
        answer |= {} if passed is None else {"passed": passed}
        return answer | ({"metadata": usage} if usage else {})

    def _verdict(self, rule: Rule, answers: "Sequence[Answer | Fault]", score: float) -> bool | None:
        """By the threshold; without one, whether all parts that count pass; of an expression there is none."""
        if self.threshold is not UNSET:
            return self.threshold.is_met(score)
        if rule.expression is not None:
            return None
        counting = [one for at, one in enumerate(answers) if at in rule.counting]
        verdicts = [_member(one, "passed") for one in counting if not isinstance(one, Fault)]
        known = [one == 1 for one in verdicts if one is not None]
        return all(known) if known else None

    def _reason(self, values: Mapping[str, float], score: float, passed: bool | None) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        if self.threshold is UNSET:
            wanted = "expected that all parts pass, got a " if passed is False else ""
            return f"{wanted}score of {score:.4g} ({numbers})"
        if passed:
            return f"a score of {score:.4g} is {self.threshold.text} ({numbers})"
        return f"expected a score that is {self.threshold.text}, got {score:.4g} ({numbers})"

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if "checks" in literals:
            rule_of(literals["checks"], literals.get("weights", UNSET), literals.get("expression", UNSET))

    @classmethod
    def validate_host(cls, literals: Mapping[str, Any], services: Services) -> None:
        for at, check in enumerate(literals.get("checks", ())):
            bind(check, STANDARD, PLACE.format(at), services)

    @classmethod
    def held_bytes(cls, literals: Mapping[str, Any]) -> int:
        return sum(one.checker.held_bytes(one.literals) for one in _bound(_encode(literals["checks"])))


def rule_of(
    checks: Sequence[Check], weights: Mapping[str, float] | UnsetType, expression: str | UnsetType
) -> Rule:
    """The rule of a combination. InvalidRequest and InvalidArgument say what is wrong with it."""
    return _rule(
        _encode(checks),
        None if weights is UNSET else tuple(weights.items()),
        None if expression is UNSET else expression,
    )


@lru_cache(maxsize=64)
def _rule(checks: bytes, weights: tuple[tuple[str, float], ...] | None, expression: str | None) -> Rule:
    parts = _bound(checks)
    names = tuple(part.label for part in parts)
    doubled = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if doubled is not None:
        raise InvalidArgument(
            "checks", f"expected parts with names of their own, got {doubled!r} twice; set `name`"
        )
    if weights is not None and expression is not None:
        raise InvalidArgument("expression", "expected weights or an expression, got both")
    if expression is not None:
        try:
            arithmetic = Arithmetic(expression)
        except ValueError as wrong:
            raise InvalidArgument("expression", str(wrong)) from None
        return Rule(
            parts, names, {one: _find(one, names, "expression") for one in arithmetic.names}, {}, arithmetic
        )
    given = dict(weights or ())
    found = {one: _find(one, names, "weights") for one in given}
    for name, weight in given.items():
        if not 0 <= weight < float("inf"):
            raise InvalidArgument("weights", f"expected weights of at least 0, got {weight!r} for {name!r}")
    weighted = {one.part for one in found.values()}
    ones = {name: Value(at, "") for at, name in enumerate(names) if at not in weighted}
    found |= ones
    given |= dict.fromkeys(ones, 1)
    if not sum(given.values()):
        raise InvalidArgument("weights", "expected a weight above 0, got none")
    counted = {name: one for name, one in found.items() if given[name]}
    return Rule(parts, names, counted, given, None)


def _find(name: str, names: Sequence[str], argument: str) -> Value:
    """The number that a name means: that of a part, or of a member of its answer after the last dot."""
    if name in names:
        return Value(names.index(name), "")
    part, _, member = name.rpartition(".")
    if part in names and member:
        return Value(names.index(part), member)
    raise InvalidArgument(argument, f"there is no part {name[:100]!r}; there are {', '.join(names)}")


@lru_cache(maxsize=64)
def _bound(checks: bytes) -> tuple[BoundCheck, ...]:
    bound: list[BoundCheck] = []
    problems: list[Problem] = []
    for at, check in enumerate(_checks(checks)):
        try:
            if _depth(check) >= DEEPEST:
                raise InvalidRequest(
                    Problem(PLACE.format(at), f"expected at most {DEEPEST} combinations inside one another")
                )
            bound.append(bind(check, STANDARD, PLACE.format(at)))
        except InvalidRequest as refused:
            problems += refused.problems
    if problems:
        raise InvalidRequest(problems)
    return tuple(bound)


def _depth(check: Any, above: int = 0) -> int:
    """How many combinations stand inside one another, from this check on; counting stops at the limit."""
    about = {"type": check.type, "arguments": check.arguments} if isinstance(check, Check) else check
    if not is_object(about) or about.get("type") != Combination.type or above >= DEEPEST:
        return above
    arguments = about.get("arguments")
    inner = arguments.get("checks") if is_object(arguments) else None
    return max((_depth(one, above + 1) for one in inner), default=above + 1) if is_list(inner) else above + 1


async def _ask(rule: Rule, document: JSON, services: Services) -> "list[Answer | Fault]":
    """
    The answer of each part. Those that wait come last, one after the other, and none is asked after a part that counts
    has failed: then there is no result to pay for.
    """

    def first() -> list[tuple[PreparedCheck, Any]]:
        prepared = [prepare(bound, document, services) for bound in rule.parts]
        return [(one, None if one.bound.checker.waits else call(one, services)) for one in prepared]

    prepared_parts = await in_thread(first)
    answers: list[Any] = [answer for _, answer in prepared_parts]
    tasks = {at: one for at, one in enumerate(answers) if isinstance(one, WorkerTask)}
    done = await run_tasks_async(list(tasks.values())) if tasks else ()
    for at, answer in zip(tasks, done, strict=True):
        answers[at] = answer
    counting = rule.counting
    for at, (prepared, _) in enumerate(prepared_parts):
        if prepared.bound.checker.waits:
            failed = any(isinstance(answers[one], Fault) for one in counting)
            answers[at] = ValueFault("not asked") if failed else await _wait(prepared, services)
        answers[at] = validate_answer(answers[at], prepared.bound.checker)
    return answers


async def _wait(prepared: PreparedCheck, services: Services) -> Any:
    """The answer of a part that waits. Those of assay keep their time."""
    answer: Any = call(prepared, services)
    if isinstance(answer, Fault):
        return answer
    try:
        return await answer
    except Exception as surprise:  # noqa: BLE001  # whatever ends a part is its answer
        return fault_of(surprise, prepared.bound.checker)


def _values(rule: Rule, answers: "Sequence[Answer | Fault]") -> dict[str, float]:
    values: dict[str, float] = {}
    for name, (at, member) in rule.values.items():
        answer, part = answers[at], rule.names[at]
        if isinstance(answer, Fault):
            raise _unmeasured(part, answer)
        found = _member(answer, member) if member else _number(answer)
        if found is None:
            what = f"no number {member!r}" if member else "neither a score nor a verdict"
            raise ValueFault(f"the part {part} has {what}")
        values[name] = found
    return values


def _unmeasured(name: str, fault: Fault) -> Fault:
    """The fault of the whole, of the kind of its part."""
    message = f"the part {name} was not measured: {fault}"
    if isinstance(fault, PathFault | ValueFault | TimeFault):
        return type(fault)(message)
    return ForeignFault(message, recoverable=fault.recoverable)


def _score(rule: Rule, values: Mapping[str, float]) -> float:
    if rule.expression is not None:
        try:
            return rule.expression.value(values)
        except ValueError as wrong:
            raise ValueFault(f"the expression has no value: {wrong}") from None
    total = sum(rule.weights[name] for name in values)
    return sum(value * rule.weights[name] for name, value in values.items()) / total


def _number(answer: Answer) -> float | None:
    """The score of an answer, else 1 for a pass and 0 for a fail."""
    score = _member(answer, "score")
    return _member(answer, "passed") if score is None else score


def _member(answer: Answer, name: str) -> float | None:
    for part in (answer, answer.get("response")):
        if is_mapping(part) and isinstance(found := part.get(name), int | float):
            return float(found)
    return None


def _part(name: str, bound: BoundCheck, answer: "Answer | Fault") -> JSON:
    about: JSON = {"name": name, "check_type": bound.checker.type}
    if isinstance(answer, Fault):
        return about | {
            "status": "error",
            "error": {"type": answer.type, "message": redact_text(str(answer))[:MAX_MESSAGE]},
        }
    return about | {"status": "completed", "results": dict(answer)}


def _usage(answers: "Sequence[Answer | Fault]") -> JSON:
    """What all parts cost together; None as soon as one cost is unknown."""
    costs: list[Any] = []
    tokens: list[Any] = []
    for one in answers:
        about: Any = one.metadata if isinstance(one, Fault) else one.get("metadata")
        if is_mapping(about) and "cost_usd" in about:
            costs.append(about["cost_usd"])
            tokens.append(about.get("tokens_used", about.get("tokens_processed")))
    if not costs:
        return {}
    return {
        "cost_usd": None if None in costs else round(sum(costs), 12),
        "tokens_used": None if None in tokens else sum(tokens),
    }
