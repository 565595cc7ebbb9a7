"""regression (contract §3.2 step 12): the same tasks as a run before, and how much better or worse."""

from assay.agenteval.modes.mode import Mode, Tasks
from assay.agenteval.request import EvalFacts, EvalRequest
from assay.errors import EvalRefused, Problem
from assay.protocol.suite import AgentEvalSuite

FIELD = "configurable.baselineRunId"


def check_regression(asked: EvalRequest, known: EvalFacts, suite: AgentEvalSuite, tasks: Tasks) -> None:
    """The baseline is a completed eval of the same suite, of the same version unless told otherwise, over the same tasks."""
    baseline = known.baseline
    if asked.baseline_run_id is None:
        raise _refused("regression compares with an earlier run: say which")
    if baseline is None:
        raise _refused("there is no such eval run, or it did not complete")
    if baseline.suite_id != suite.suite_id:
        raise _refused(f"that run is of {baseline.suite_id}, and this is {suite.suite_id}")
    if baseline.suite_version != suite.version and not asked.allow_suite_version_drift:
        raise _refused(
            f"that run is of version {baseline.suite_version}, and this is {suite.version}"
            " (configurable.allowSuiteVersionDrift compares them all the same)"
        )
    other = sorted(baseline.task_ids ^ {task.task_id for task in tasks})
    if other:
        raise EvalRefused(
            Problem(FIELD, "that run scored other tasks than this one covers"), field=FIELD, tasks=other
        )


def _refused(why: str) -> EvalRefused:
    return EvalRefused(Problem(FIELD, why), field=FIELD)


REGRESSION = Mode(name="regression", meet=check_regression)
