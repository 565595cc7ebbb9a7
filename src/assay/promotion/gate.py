"""The eval gate: the conditions of a policy that the evidence does not meet (contract §9.3 step 4)."""

from datetime import datetime

from msgspec import Struct

from assay.comparison.policy import PromotionRules
from assay.protocol.deployments import Condition
from assay.protocol.scorecard import EvalSummary


class Evidence(Struct, frozen=True, kw_only=True):
    """
    The facts about the eval run that a request names, as they are in the store at `now`. They have no content.

    A run of another tenant, and one of another kind, is like an unknown one: `status` is None.
    """

    agent_id: str  # of the request
    version: str
    run_id: str | None = None  # None: the request names no run
    status: str | None = None  # None: there is no such eval run
    run_agent_id: str = ""
    run_version: str = ""
    copied_from: str = ""  # the source of a replay or a branch
    erased: str = ""
    ended: datetime | None = None
    summary: EvalSummary | None = None  # of a completed run
    effective_score: float | None = None  # with the corrections of people
    effective_passed: bool | None = None
    active_version: str | None = None  # the version that the request would replace
    baseline_version: str | None = None  # the version that the run's baseline ran
    now: datetime


def unmet_conditions(rules: PromotionRules, evidence: Evidence) -> list[Condition]:
    """Every condition that is not met, in a stable order."""
    raise NotImplementedError
