"""
The policy of `assay gate`: what a run must show to pass.

    preset: strict               # strict, balanced or lenient: what becomes of a drop that is not shown to be one
    max_drop: 0.02               # the largest drop of the estimate against the baseline
    max_newly_failing: 0         # cases whose trials all passed before, and none now
    min: 0.9                     # the lowest mean of the metric
    decide_by: lower             # the lower limit of its interval must reach `min`; else the estimate
    require: equivalent          # against the baseline: not-regressed, equivalent or improved
    margin: 0.02                 # a difference below this does not matter
    by: [tag]                    # no slice may regress
    max_unmeasured: 3
    max_findings: {low: 3}
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from assay.comparison.run_scores import Severity
from assay.errors import InvalidRequest, Problem
from assay.inputs.context import to_json_document
from assay.inputs.files import document_of
from assay.ports import Limits
from assay.protocol.json_types import is_object, kind_of

Count = Annotated[int, msgspec.Meta(ge=0)]
Off = Literal["off"]
PresetName = Literal["strict", "balanced", "lenient"]
LEAST_TRIALS = 3  # of a case in both runs, for `max_newly_failing`


class Preset(Struct, frozen=True, kw_only=True):
    """
    Two rules about a drop that no test shows to be one. None: the rule is off. `newly_failing`: the outcome if that one
    is broken.
    """

    max_drop: float | None
    max_newly_failing: int | None
    newly_failing: Literal["failed", "undecided"]


PRESETS: dict[PresetName, Preset] = {
    "strict": Preset(max_drop=0.0, max_newly_failing=0, newly_failing="failed"),
    "balanced": Preset(max_drop=0.05, max_newly_failing=0, newly_failing="undecided"),
    "lenient": Preset(max_drop=None, max_newly_failing=None, newly_failing="undecided"),
}


class GatePolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Without `min`, a scorecard decides by its own verdict, and every case of an evaluation without a baseline must pass.
    """

    preset: PresetName = "balanced"
    max_drop: Annotated[float, msgspec.Meta(ge=0)] | Off | None = None  # None: that of the preset
    max_newly_failing: Count | Off | None = None
    metric: str | None = None
    min: float | None = None
    decide_by: Literal["estimate", "lower"] = "estimate"
    require: Literal["not-regressed", "equivalent", "improved"] = "not-regressed"
    margin: Annotated[float, msgspec.Meta(gt=0)] | None = None
    by: tuple[str, ...] = ()
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


def read_policy(name: str, limits: Limits) -> GatePolicy:
    """Read a policy file, .yaml or .json. An InvalidRequest says what is wrong with it."""
    document: Any = document_of(name, limits, "yaml")
    document, _, problems = to_json_document({} if document is None else document, "", limits)
    if problems:
        raise InvalidRequest([Problem(f"{name}: {one.place}", one.message) for one in problems])
    if not is_object(document):
        raise InvalidRequest(Problem(name, f"expected an object with rules, got {kind_of(document)}"))
    if "agents" in document or "gate" in document:  # a file that has the rules of promotions too
        document, name = _gate_of(document, name), f"{name}: gate"
    try:
        policy = msgspec.convert(document, GatePolicy)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(Problem(name, f"{wrong}; the rules are {', '.join(_members())}")) from None
    if policy.require == "equivalent" and policy.margin is None:
        raise InvalidRequest(Problem(name, "require: equivalent needs a margin, such as margin: 0.02"))
    return policy


def _gate_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The member `gate` of a policy file, which `comparison.policy` reads for promotions."""
    gate = document.get("gate")
    others = [one for one in document if one not in ("agents", "gate")]
    if others or not is_object(gate):
        got = f"{others[0][:40]!r} beside it" if others else "nothing" if gate is None else kind_of(gate)
        raise InvalidRequest(Problem(f"{name}: gate", f"expected an object with rules, got {got}"))
    return gate


def _members() -> tuple[str, ...]:
    return GatePolicy.__struct_fields__
