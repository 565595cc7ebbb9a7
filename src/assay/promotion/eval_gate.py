"""The eval gate: the conditions of a policy that the evidence does not meet (openwop-contract §9.3 step 4)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import UNSET, Struct

from assay.comparison.policy import SEVERITIES, PromotionRules, matches
from assay.protocol.agent_evals import EvalSummary
from assay.protocol.deployments import Condition
from assay.stats.number_text import SCORE_DIGITS, fixed, score_text
from assay.stats.verdict import Verdict

ENDED = ("completed", "failed", "cancelled")
CLOCK_SKEW = timedelta(minutes=5)  # by which the clocks of two hosts may differ


class BaselineVerdict(Struct, frozen=True):
    """The verdict of `assay compare` on the run and its baseline. `line`: the interval, or why there is none."""

    verdict: Verdict | None
    line: str


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
    lacks_baseline: bool = False  # the run left out the comparison that its suite has
    deviations: Sequence[tuple[str, str]] = ()  # from the installed agent and suite: a code and a text each
    ended: datetime | None = None
    summary: EvalSummary | None = None  # of a completed run
    effective_score: float | None = None  # with the corrections of people
    effective_passed: bool | None = None
    active_version: str | None = None  # the version that the request would replace
    active_run: str = ""  # the eval run by which that version was promoted
    baseline_version: str | None = None  # the version that the run's baseline ran
    baseline_deviation: str = ""  # why the baseline does not show the score of that version
    comparison: BaselineVerdict | None = None  # with that baseline; None: no rule needs it
    now: datetime


def unmet_conditions(rules: PromotionRules, evidence: Evidence) -> list[Condition]:
    """Every condition that is not met, in a stable order."""
    command = _run_command(rules, evidence)
    if evidence.run_id is None or evidence.status is None:
        got = "got none" if evidence.run_id is None else f"there is no eval run {evidence.run_id[:128]!r}"
        expected = f"expected a completed eval run of {_suite_text(rules)} by {_agent_text(evidence)}"
        code = "eval_run_required" if evidence.run_id is None else "eval_run_unknown"
        return [Condition(code=code, message=f"{expected}, {got}", command=command)]
    found = [*_unusable(rules, evidence), *_unmet(rules, evidence)]
    run = evidence.run_id
    return [
        Condition(code=code, message=f"run {run}: {message}", eval_run_id=run, command=command)
        for code, message in found
    ]


def _unusable(rules: PromotionRules, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Why the run cannot be evidence at all."""
    summary = evidence.summary
    if (evidence.run_agent_id, evidence.run_version) != (evidence.agent_id, evidence.version):
        got = f"got a run of {evidence.run_agent_id} at version {evidence.run_version}"
        other = "agent" if evidence.run_agent_id != evidence.agent_id else "version"
        yield f"eval_run_other_{other}", f"expected a run of {_agent_text(evidence)}, {got}"
    if evidence.copied_from:
        yield "eval_run_copied", f"expected a run that was measured, got a copy of {evidence.copied_from}"
    if evidence.erased:
        yield "eval_run_erased", f"expected a run with its content, got a run without: {evidence.erased}"
    for code, text in evidence.deviations:
        yield code, f"expected a run of the agent and the whole suite as they are installed, it {text}"
    if evidence.status != "completed" or summary is None:
        code = "eval_run_not_completed" if evidence.status in ENDED else "eval_run_not_ended"
        yield code, f"expected a completed run with a scorecard, got a run that is {evidence.status}"
        return
    if rules.suite is not None and not matches(rules.suite, summary.suite_id):
        yield "eval_suite", f"expected a run of {_suite_text(rules)}, got one of suite {summary.suite_id}"
    elif rules.suite_version is not None and not matches(rules.suite_version, summary.suite_version):
        yield (
            "eval_suite_version",
            f"expected a run of {_suite_text(rules)}, got version {summary.suite_version}",
        )
    if evidence.ended is None or evidence.ended - evidence.now > CLOCK_SKEW:
        yield (
            "eval_run_in_future",
            "expected a run that has ended, by the clock of this host it ends in the future",
        )


def _unmet(rules: PromotionRules, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What the scorecard of the run does not show."""
    summary, ended = evidence.summary, evidence.ended
    if summary is None or ended is None:
        return
    age = (evidence.now - ended).total_seconds()
    if rules.max_age_seconds is not None and age > rules.max_age_seconds:
        expected = f"expected a run of the last {_span_text(rules.max_age_seconds)}"
        yield "eval_run_stale", f"{expected}, it ended at {ended:%Y-%m-%d %H:%M:%S} UTC"
    score, passed = summary.aggregate_score, summary.passed
    if rules.effective_scores:
        score = score if evidence.effective_score is None else evidence.effective_score
        passed = passed if evidence.effective_passed is None else evidence.effective_passed
    word = "a corrected score" if rules.effective_scores and score != summary.aggregate_score else "a score"
    if not passed:
        yield (
            "eval_not_passed",
            f"expected a run that passed, it did not pass, with {word} of {score_text(score)}",
        )
    if rules.min_score is not None and score < rules.min_score:
        yield (
            "eval_score",
            f"expected a score of at least {rules.min_score:g}, got {word} of {score_text(score)}",
        )
    yield from _regression(rules, evidence, score - summary.aggregate_score)
    yield from _findings(rules, summary)


def _regression(rules: PromotionRules, evidence: Evidence, correction: float) -> Iterator[tuple[str, str]]:
    """The verdict on the run and one of the active version, and the difference, which corrections may shift."""
    active, summary, largest = evidence.active_version, evidence.summary, rules.max_regression
    if largest is None or active is None or active == evidence.version or summary is None:
        return
    regression = summary.regression
    if regression is UNSET or evidence.baseline_version != active:
        got = "it records none" if regression is UNSET else f"its baseline ran {evidence.baseline_version}"
        yield "eval_regression_unknown", f"expected a comparison with the active version {active}, {got}"
        return
    if evidence.baseline_deviation:
        got = evidence.baseline_deviation
        yield "eval_regression_unknown", f"expected a comparison with the active version {active}, {got}"
        return
    compared = evidence.comparison
    if compared is not None and compared.verdict is None:
        expected = f"expected a verdict against the active version {active}"
        yield "eval_regression_unknown", f"{expected}, {compared.line}"
        return
    delta = round(regression.score_delta + correction, 12)
    line = "" if compared is None else f": {compared.line}"
    if delta < -largest:
        expected = f"expected a score at most {largest:g} below the active version {active}"
        yield "eval_regression", f"{expected}, got {fixed(-delta, SCORE_DIGITS)} below{line}"
    elif compared is not None:
        yield from _unmet_verdict(rules, compared, f"against the active version {active}", largest)


def _unmet_verdict(
    rules: PromotionRules, compared: BaselineVerdict, against: str, largest: float
) -> Iterator[tuple[str, str]]:
    found = compared.verdict
    if found == "regressed" and largest < 1:  # 1 allows every loss
        expected = f"expected no loss {against} that is certain and could be above {largest:g}"
        yield "eval_regression", f"{expected}, got {compared.line}"
        return
    enough = {"not-regressed": None, "equivalent": ("equivalent", "improved"), "improved": ("improved",)}[
        rules.require
    ]
    if enough is not None and found not in enough:
        code = "eval_regression" if found in ("equivalent", "regressed") else "eval_regression_undecided"
        yield code, f"expected the verdict {' or '.join(enough)} {against}, got {compared.line}"


def _findings(rules: PromotionRules, summary: EvalSummary) -> Iterator[tuple[str, str]]:
    """Findings that are not allowed. A rule about findings needs a run that looked for them."""
    looked = [task.safety_findings for task in summary.tasks if task.safety_findings is not UNSET]
    if not looked and rules.allowed_findings is not None:
        yield "eval_findings", "expected a run that looked for safety findings, no task of it did"
    counts = Counter(finding.severity for findings in looked for finding in findings)
    allowed = rules.allowed_findings or {}
    for severity in reversed(SEVERITIES):
        number, limit = counts[severity], allowed.get(severity, 0)
        if number > limit:
            yield "eval_findings", f"expected at most {limit} findings of severity {severity}, got {number}"


def _agent_text(evidence: Evidence) -> str:
    return f"{evidence.agent_id} at version {evidence.version}"


def _suite_text(rules: PromotionRules) -> str:
    if rules.suite is None:
        return "a suite"
    return f"suite {rules.suite}" + (f" at version {rules.suite_version}" if rules.suite_version else "")


def _span_text(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _run_command(rules: PromotionRules, evidence: Evidence) -> str:
    """The command that measures the version again. SUITE stands for a suite that the policy does not name exactly."""
    suite = rules.suite or (evidence.summary.suite_id if evidence.summary is not None else "SUITE")
    suite = "SUITE" if "*" in suite else suite
    if rules.suite_version and "*" not in rules.suite_version and suite != "SUITE":
        suite += f"@{rules.suite_version}"
    replaces = evidence.active_version not in (None, evidence.version)
    compares = rules.max_regression is not None or evidence.lacks_baseline
    baseline = f" --baseline {evidence.active_run or 'RUN'}" if compares and replaces else ""
    return f"assay run {suite} --agent {evidence.agent_id}{baseline}"
