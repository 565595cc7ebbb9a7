"""The promotion policy: which evidence and which approval a version of an agent needs."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Struct

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
DAY = 86_400.0


class ApprovalRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Approval by people. `approvers` and `overriders` are ids of principals, or patterns such as `key-*`.

    Without `approvers`, any principal with the scope `approvals:respond` approves. Without `overriders`, no principal can override.
    """

    gate: str = "promotion"  # its id in events and records
    states: tuple[str, ...] = ("active",)  # the states that need it; "rolled-back": a rollback
    approvers: tuple[str, ...] = ()
    quorum: Annotated[int, msgspec.Meta(ge=1)] = 1
    author_may_approve: bool = False  # whether the principal that requested the transition may approve it
    seconds: Annotated[float, msgspec.Meta(gt=0)] = 7 * DAY  # without an answer by then, it is rejected
    overriders: tuple[str, ...] = ()


class PromotionRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for one agent. A rule that is None, or empty, is not checked."""

    eval_states: tuple[str, ...] = ("staged", "active")  # the states that need a passed eval run
    suite: str | None = None  # the id of the suite that must have passed
    suite_version: str | None = None
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None  # since the end of the eval run
    min_score: Share | None = None
    max_regression: Share | None = None  # against the active version: the largest loss of score
    allowed_findings: Mapping[str, int] | None = None  # by severity: the largest number; others: none
    effective_scores: bool = False  # whether the scores that people corrected count
    approval: ApprovalRules | None = None


DEFAULT_RULES = PromotionRules()


class PromotionPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules by agent id or pattern, such as `local.shop.*`. The first that matches counts."""

    agents: Mapping[str, PromotionRules] = {}

    def rules_for(self, agent_id: str) -> PromotionRules:
        """The rules of an agent. Without a match: a passed eval run for `staged` and `active`, and no approval."""
        for pattern, rules in self.agents.items():
            if fnmatchcase(agent_id, pattern):
                return rules
        return DEFAULT_RULES
