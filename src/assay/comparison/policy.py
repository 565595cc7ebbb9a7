"""
The policy file: which evidence and which approval a version of an agent needs.

    agents:
      local.shop.*:
        suite: local.shop.evals.smoke
        suite_version: 1.*
        max_age: 7d
        min_score: 0.9
        max_regression: 0.02
        allowed_findings: {low: 3}
        effective_scores: true
        approval: {approvers: [key-9a], quorum: 1, author_may_approve: false, timeout: 1d}

The first pattern in the file that matches the id of the agent counts. A member `gate` beside `agents` has the rules of
`assay gate`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, field

from assay.comparison.run_scores import Severity
from assay.errors import InvalidRequest, Problem
from assay.inputs.context import to_json_document
from assay.inputs.files import document_of
from assay.ports import Limits
from assay.ports.config import seconds_of
from assay.protocol.json_types import is_list, is_object, kind_of, preview
from assay.protocol.validation_messages import problems_in

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
TargetState = Literal["test", "staged", "active"]
ApprovalState = Literal["test", "staged", "active", "rolled-back"]
SEVERITIES = ("low", "medium", "high", "critical")
DAY = 86_400.0
MAX_PATTERNS = 1_000


class ApprovalRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Approval by people. `approvers` and `overriders` are ids of principals, or patterns such as `key-*`.

    Without `approvers`, any principal with the scope `approvals:respond` approves. Without `overriders`, no principal
    can override.
    """

    gate: Text = "promotion"  # its id in events and records
    states: tuple[ApprovalState, ...] = ("active",)  # the states that need it; "rolled-back": a rollback
    approvers: tuple[Text, ...] = ()
    quorum: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    author_may_approve: bool = False  # whether the principal that requested the transition may approve it
    seconds: Annotated[float, msgspec.Meta(gt=0)] = field(default=7 * DAY, name="timeout")
    overriders: tuple[Text, ...] = ()


class PromotionRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for one agent. A rule that is None, or empty, is not checked."""

    eval_states: tuple[TargetState, ...] = field(default=("staged", "active"), name="states")
    suite: Text | None = None  # the id of the suite that must have passed, or a pattern
    suite_version: Text | None = None
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = field(default=None, name="max_age")
    min_score: Share | None = None
    max_regression: Share | None = None  # against the active version: the largest loss of score
    require: Literal["not-regressed", "equivalent", "improved"] = "not-regressed"  # the verdict beside it
    allowed_findings: Mapping[str, Count] | None = None  # by severity: the largest number; others: none
    effective_scores: bool = False  # whether the scores that people corrected count
    approval: ApprovalRules | None = None


DEFAULT_RULES = PromotionRules()


class PromotionPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules by agent id or pattern, such as `local.shop.*`. The first that matches counts."""

    agents: Mapping[str, PromotionRules] = {}

    def rules_for(self, agent_id: str) -> PromotionRules:
        """The rules of an agent. Without a match: a passed eval run for `staged` and `active`, and no approval."""
        for pattern, rules in self.agents.items():
            if matches(pattern, agent_id):
                return rules
        return DEFAULT_RULES


def read_policy_file(name: str, limits: Limits) -> PromotionPolicy:
    """Read a `.yaml` or `.json` file. An InvalidRequest lists every problem, each with the file and the place in it."""
    document, _, problems = to_json_document(document_of(name, limits), "", limits)
    try:
        if problems:
            raise InvalidRequest(problems)
        return read_policy(document)
    except InvalidRequest as refusal:
        problems = [
            Problem(f"{name}: {one.place}" if one.place else name, one.message) for one in refusal.problems
        ]
        raise InvalidRequest(problems) from None


def read_policy(document: Any) -> PromotionPolicy:
    """Parse a policy. An InvalidRequest lists every problem with its place."""
    agents = document.get("agents") if is_object(document) else None
    if not is_object(agents) or not agents:
        got = "got nothing" if agents is None else f"got {preview(agents)}"
        raise InvalidRequest(Problem("agents", f"expected rules by agent id or pattern, {got}"))
    problems = [
        Problem(name[:100], "no such member; there are agents and gate")
        for name in document
        if name not in ("agents", "gate")
    ]
    if "gate" in document:
        problems += problems_in(document["gate"], GatePolicy, "gate")
    if len(agents) > MAX_PATTERNS:
        raise InvalidRequest(
            Problem("agents", f"expected at most {MAX_PATTERNS} patterns, got {len(agents)}")
        )
    rules: dict[str, PromotionRules] = {}
    for pattern, table in agents.items():
        place = f'agents."{pattern[:100]}"'
        own = [*_own_problems(table, place), *_pattern_problems(pattern, place, rules)]
        readable = _with_seconds(table)
        own += problems_in(readable, PromotionRules, place)
        problems += own
        if not own:
            rules[pattern] = msgspec.convert(readable, PromotionRules)
    if problems:
        raise InvalidRequest(problems)
    return PromotionPolicy(agents=rules)


def matches(pattern: str, text: str) -> bool:
    """Whether the text has the form of the pattern; `*` stands for any characters. It does not backtrack."""
    first, *parts = pattern.split("*")
    if not parts:
        return pattern == text
    if not text.startswith(first):
        return False
    *middle, last = parts
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)


def _pattern_problems(pattern: str, place: str, earlier: Mapping[str, Any]) -> Iterator[Problem]:
    """A pattern that is empty, or that an earlier one covers: it would never count."""
    if not 1 <= len(pattern) <= 256:
        yield Problem(place, f"expected an agent id or a pattern of 1 to 256 characters, got {len(pattern)}")
    for other in earlier:
        if matches(other, pattern):
            message = (
                f"these rules never count: {other!r} comes first and matches the same agents; move "
                "them up, or remove them"
            )
            yield Problem(place, message)
            return


def _own_problems(table: Any, place: str) -> Iterator[Problem]:
    """The problems that the types do not express."""
    if not is_object(table):
        return  # an empty entry is a mistake, and the types say so
    yield from _span_problem(table, "max_age", place)
    findings = table.get("allowed_findings")
    for severity in findings if is_object(findings) else ():
        if severity not in SEVERITIES:
            expected = f"expected one of {', '.join(SEVERITIES)}"
            yield Problem(f"{place}.allowed_findings", f"{expected}, got {severity[:40]!r}")
    if table.get("suite") is None and table.get("suite_version") is not None:
        yield Problem(f"{place}.suite_version", "expected `suite` beside it, got none")
    yield from _require_problem(table, place)
    approval = table.get("approval")
    if is_object(approval):
        yield from _span_problem(approval, "timeout", f"{place}.approval")
        yield from _quorum_problem(approval, f"{place}.approval")


def _require_problem(table: dict[str, Any], place: str) -> Iterator[Problem]:
    """A verdict needs a comparison, and `equivalent` a difference that does not matter."""
    require, largest = table.get("require", "not-regressed"), table.get("max_regression")
    if require == "not-regressed":
        return
    if largest is None:
        yield Problem(f"{place}.require", "expected `max_regression` beside it, got none")
    elif require == "equivalent" and largest in (0, 1):
        got = f"got {preview(largest)}"
        yield Problem(f"{place}.require", f"equivalent needs a `max_regression` above 0 and below 1, {got}")


def _quorum_problem(approval: dict[str, Any], place: str) -> Iterator[Problem]:
    approvers, quorum = approval.get("approvers"), approval.get("quorum", 1)
    if is_list(approvers) and not approvers:  # it reads as "none of them", and would mean "any of them"
        message = "expected at least one principal, got none; without this member, any principal approves"
        yield Problem(f"{place}.approvers", message)
    if not is_list(approvers) or not approvers or not isinstance(quorum, int):
        return
    ids = {str(one) for one in approvers}
    if not any("*" in one for one in ids) and quorum > len(ids):
        yield Problem(
            f"{place}.quorum", f"expected at most {len(ids)}, as many as there are approvers, got {quorum}"
        )


def _span_problem(table: dict[str, Any], member: str, place: str) -> Iterator[Problem]:
    value = table.get(member)
    if value is not None and not seconds_of(value):
        yield Problem(
            f"{place}.{member}", f"expected a span such as 30m, 12h, 7d or 2w, got {preview(value)}"
        )


def _with_seconds(table: Any) -> Any:
    """The entry with its spans in seconds. An invalid span is left out, as it is already reported."""
    if not is_object(table):
        return table
    changed = {name: value for name, value in table.items() if name != "max_age"}
    if age := seconds_of(table.get("max_age")):
        changed["max_age"] = age
    if is_object(approval := table.get("approval")):
        inner = {name: value for name, value in approval.items() if name != "timeout"}
        if timeout := seconds_of(approval.get("timeout")):
            inner["timeout"] = timeout
        changed["approval"] = inner
    return changed


# The policy of `assay gate`: what a run must show to pass.

Off = Literal["off"]
PresetName = Literal["strict", "balanced", "lenient"]
LEAST_TRIALS = 3  # of a case in both runs, for `max_newly_failing`


class Preset(Struct, frozen=True, kw_only=True):
    """Two rules about a drop that no test shows. None: off. `newly_failing`: the outcome if that one is broken."""

    max_drop: float | None
    max_newly_failing: int | None
    newly_failing: Literal["failed", "undecided"]


PRESETS: dict[PresetName, Preset] = {
    "strict": Preset(max_drop=0.0, max_newly_failing=0, newly_failing="failed"),
    "balanced": Preset(max_drop=0.05, max_newly_failing=0, newly_failing="undecided"),
    "lenient": Preset(max_drop=None, max_newly_failing=None, newly_failing="undecided"),
}


class GatePolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `min`, a scorecard decides by its verdict, and every case must pass where there is no baseline."""

    preset: PresetName = "balanced"
    max_drop: Annotated[float, msgspec.Meta(ge=0)] | Off | None = None  # None: that of the preset
    max_newly_failing: Count | Off | None = None
    metric: str | None = None
    min_mean: float | None = None
    decide_by: Literal["estimate", "lower"] = "estimate"
    require: Literal["not-regressed", "equivalent", "improved"] = "not-regressed"
    margin: Annotated[float, msgspec.Meta(gt=0)] | None = None
    by: tuple[str, ...] = ()
    standardize_by: str | None = None
    max_unmeasured: Count = 0
    allow_missing_cases: bool = False  # cases that only the baseline has
    max_findings: dict[Severity, Count] = {}

    @property
    def drop_rules(self) -> Preset:
        """The rules of the preset, with those that the policy sets itself."""
        preset = PRESETS[self.preset]
        drop = preset.max_drop if self.max_drop is None else self.max_drop
        newly = preset.max_newly_failing if self.max_newly_failing is None else self.max_newly_failing
        return Preset(
            max_drop=None if drop == "off" else drop,
            max_newly_failing=None if newly == "off" else newly,
            newly_failing=preset.newly_failing,
        )


def read_gate_policy(name: str, limits: Limits) -> GatePolicy:
    """Read a policy file, .yaml or .json. An InvalidRequest says what is wrong with it."""
    return gate_policy_of(document_of(name, limits, "yaml"), name, limits)


def gate_policy_of(document: Any, name: str, limits: Limits) -> GatePolicy:
    """The policy in a document that is called `name`. An InvalidRequest says what is wrong with it."""
    document, _, problems = to_json_document({} if document is None else document, "", limits)
    if problems:
        raise InvalidRequest([Problem(f"{name}: {one.place}", one.message) for one in problems])
    if not is_object(document):
        raise InvalidRequest(Problem(name, f"expected an object with rules, got {kind_of(document)}"))
    place = ""
    if "agents" in document or "gate" in document:  # a file that has the rules of promotions too
        document, place = _gate_of(document, name), "gate"
    if wrong := problems_in(document, GatePolicy, place):
        raise InvalidRequest(
            [Problem(f"{name}: {one.place}".removesuffix(": "), one.message) for one in wrong]
        )
    return msgspec.convert(document, GatePolicy)


def _gate_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The member `gate` of a policy file, which `comparison.policy` reads for promotions."""
    gate = document.get("gate")
    others = [one for one in document if one not in ("agents", "gate")]
    if others or not is_object(gate):
        got = f"{others[0][:40]!r} beside it" if others else "nothing" if gate is None else kind_of(gate)
        raise InvalidRequest(Problem(f"{name}: gate", f"expected an object with rules, got {got}"))
    return gate
