"""Whether an eval can be had: the refusals of openwop-contract §3.2, steps 5 to 13, in their order."""

from typing import Any

import pytest

from assay.agenteval.planning.modes import MODES, available_modes
from assay.agenteval.planning.plan import plan
from assay.agenteval.planning.request import Baseline, EvalFacts, EvalLimits, EvalRequest
from assay.agenteval.suites.suite import read_suite
from assay.errors import EvalRefused, InvalidRequest, Problem
from assay.protocol.agents import AgentCard
from support.evals import golden, rubric, suite_of

TOOLS = {"toolResponses": [{"tool": "shop:orders", "response": 1}]}
SEEDS = {"memorySeed": [{"id": "m", "content": "x"}]}
BOTH = suite_of(
    golden("a", 1, 1),
    rubric("b", ("kind", 1), input=2),
    modes=["golden", "rubric", "regression", "live-shadow"],
)
CARD = AgentCard(agent_id="local.tests.agent")
BASE = Baseline(
    run_id="run-1",
    suite_id="local.tests.evals.one",
    suite_version="1.0.0",
    score=0.5,
    task_ids=frozenset("ab"),
)
ASKED = {"suite_ref": "s", "agent_id": "local.tests.agent"}


def decided(suite=BOTH, asked=None, known=None, host=None):
    read = read_suite(suite) if isinstance(suite, dict) else suite
    return plan(
        EvalRequest(**{**ASKED, "modes": ("golden", "rubric"), **(asked or {})}),
        EvalFacts(**{"card": CARD, "suite": read, **(known or {})}),
        host or EvalLimits(),
    )


def card(**members):
    return {"card": AgentCard(**{"agent_id": "local.tests.agent", **members})}


WRONG = InvalidRequest([Problem("tasks[0].taskId", "no"), Problem("version", "no")])
NO_MODE = {"field": "configurable.evalModes"}
OFFERED = ["golden", "rubric", "adversarial", "regression", "live-shadow"]
UNARMED = [mode for mode in OFFERED if mode != "adversarial"]

REFUSED = {
    "5 no suite": ({"asked": {"suite_ref": None}}, {"field": "evalSuiteRef"}),
    "5 no agent": ({"asked": {"agent_id": None}}, {"field": "agentId"}),
    "5 trials": ({"asked": {"trials": 101}}, {"field": "configurable.trials"}),
    "5 seconds": ({"asked": {"seconds": 0}}, {"field": "configurable.timeout"}),
    "6 unknown agent": ({"known": {"card": None}}, {"field": "agentId"}),
    "7 unknown suite": ({"suite": None}, {"field": "evalSuiteRef", "errors": ["evalSuiteRef"]}),
    "7 no suite at all": ({"suite": WRONG}, {"field": "evalSuiteRef", "errors": ["tasks[0].taskId", "version"]}),
    "8 another's suite": ({"suite": {**BOTH, "targetAgentId": "local.other"}}, {"field": "agentId"}),
    "9 another model": ({"suite": {**BOTH, "allowedModels": ["coding"]}}, {"field": "agentId"}),
    "10 no mode": ({"asked": {"modes": ()}}, {**NO_MODE, "advertised": OFFERED}),
    "10 a mode the suite lacks": (
        {"suite": suite_of(golden("a", 1)), "asked": {"modes": ("rubric",)}},
        {**NO_MODE, "unsupported": ["rubric"], "advertised": OFFERED},
    ),
    "10 adversarial without a detector": (
        {"suite": {**BOTH, "modes": ["adversarial"]}, "asked": {"modes": None}, "known": {"detectors": False}},
        {**NO_MODE, "unsupported": ["adversarial"], "advertised": UNARMED},
    ),
    "10 rubric without a judge": (
        {"known": {"no_judge": "nobody"}},
        {**NO_MODE, "unsupported": ["rubric"], "advertised": ["golden", "adversarial", "regression", "live-shadow"]},
    ),
    "10 nothing covered": (
        {"suite": suite_of(golden("a", 1), modes=["rubric"]), "asked": {"modes": None}},
        NO_MODE,
    ),
    "11 too many": ({"host": EvalLimits(max_tasks=1)}, {"field": "evalSuiteRef"}),
    "12 no baseline": ({"asked": {"modes": ("regression",)}}, {"field": "configurable.baselineRunId"}),
    "12 unknown baseline": (
        {"asked": {"modes": ("regression",), "baseline_run_id": "run-x"}}, {"field": "configurable.baselineRunId"},
    ),
    "12 of another suite": (
        {
            "suite": {**BOTH, "suiteId": "local.tests.evals.two"},
            "asked": {"modes": ("regression",), "baseline_run_id": "run-1"},
            "known": {"baseline": BASE},
        },
        {"field": "configurable.baselineRunId"},
    ),
    "12 of another version": (
        {
            "suite": {**BOTH, "version": "1.0.1"},
            "asked": {"modes": ("regression",), "baseline_run_id": "run-1"},
            "known": {"baseline": BASE},
        },
        {"field": "configurable.baselineRunId"},
    ),
    "12 of other tasks": (
        {"asked": {"modes": ("golden", "regression"), "baseline_run_id": "run-1"}, "known": {"baseline": BASE}},
        {"field": "configurable.baselineRunId", "taskIds": ["b"]},
    ),
    "13 nobody to judge": (
        {"asked": {"modes": ("live-shadow",)}, "known": {"no_judge": "nobody"}}, {"taskIds": ["b"]},
    ),
    "13 no way to tools": (
        {"suite": suite_of(golden("a", 1, fixtures=TOOLS)), "asked": {"modes": None}, "known": card(takes_tools=False)},
        {"taskIds": ["a"]},
    ),
    "13 no way to memory": (
        {"suite": suite_of(golden("a", 1, fixtures=SEEDS)), "asked": {"modes": None}, "known": card(takes_memory=False)},
        {"taskIds": ["a"]},
    ),
    "13 tools that are only fixtures": (
        {"suite": suite_of(golden("a", 1, fixtures=TOOLS), modes=["live-shadow"]), "asked": {"modes": None}},
        {"taskIds": ["a"]},
    ),
    "13 a task that is none": ({"known": card(task_schema={"type": "integer", "maximum": 1})}, {"taskIds": ["b"]}),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_an_invalid_eval_is_refused_with_the_wrong_part(why):
    how, details = REFUSED[why]
    with pytest.raises(EvalRefused) as refused:
        decided(**how)
    assert refused.value.details == details
    assert refused.value.code == "validation_error"


def test_the_first_refusal_is_reported():
    """Each of these is wrong in all that follows, too."""
    wrong: dict[str, Any] = {
        "suite": {
            **suite_of(golden("a", 1, fixtures=TOOLS)),
            "targetAgentId": "local.other",
            "allowedModels": ["coding"],
        },
        "asked": {"modes": ("rubric", "regression")},
        "known": {"no_judge": "nobody", **card(takes_tools=False)},
        "host": EvalLimits(max_tasks=0),
    }
    steps = []
    for repair in (
        {"asked": {"suite_ref": None}, "known": {"card": None}},
        {"known": {"card": None}},
        {},
        {"asked": {"allow_target_mismatch": True}},
        {"asked": {"allow_target_mismatch": True}, "known": card(model_class="coding", takes_tools=False)},
    ):
        how: dict[str, Any] = {name: wrong[name] | repair.get(name, {}) for name in ("asked", "known")}
        with pytest.raises(EvalRefused) as refused:
            decided(wrong["suite"], host=wrong["host"], **how)
        steps.append((refused.value.field, str(refused.value)[:60]))
    assert [field for field, _ in steps] == [
        "evalSuiteRef",
        "agentId",
        "agentId",
        "agentId",
        "configurable.evalModes",
    ]
    assert "there is no agent" in steps[1][1]
    assert "the suite is for agent local.other" in steps[2][1]
    assert "the suite is for agents of the model class coding" in steps[3][1]


@pytest.mark.parametrize(
    ("modes", "covered"),
    [
        (("golden",), ["a"]),
        (("rubric",), ["b"]),
        (("golden", "rubric"), ["a", "b"]),
        (("regression",), ["a", "b"]),  # selects nothing, so covers all
        (("golden", "regression"), ["a"]),
        (("live-shadow",), ["a", "b"]),
        (("live-shadow", "rubric"), ["b"]),
        (None, ["a", "b"]),
    ],
    ids=str,
)
def test_which_tasks_the_modes_cover(modes, covered):
    base = Baseline(
        run_id="run-1",
        suite_id="local.tests.evals.one",
        suite_version="1.0.0",
        score=0.5,
        task_ids=frozenset(covered),
    )
    found = decided(asked={"modes": modes, "baseline_run_id": "run-1"}, known={"baseline": base})
    assert [task.task_id for task in found.tasks] == covered
    assert found.live is (modes is None or "live-shadow" in modes)


@pytest.mark.parametrize(
    ("how", "suite"),
    [
        ({"asked": {"allow_target_mismatch": True}}, {**BOTH, "targetAgentId": "local.other"}),
        (
            {
                "asked": {"modes": ("regression",), "baseline_run_id": "run-1", "allow_suite_version_drift": True},
                "known": {"baseline": BASE},
            },
            {**BOTH, "version": "2.0.0"},
        ),
        ({"known": {"live_tools": frozenset({"shop:orders"})}, "asked": {"modes": None}}, suite_of(golden("a", 1, fixtures=TOOLS), modes=["live-shadow"])),
    ],
    ids=["another's suite", "another version", "a tool that is live"],
)  # fmt: skip
def test_unusual_evals_that_are_accepted(how, suite):
    assert decided(suite, **how).tasks


def test_the_table_of_modes():
    assert list(MODES) == OFFERED
    assert available_modes(judge=True, detectors=True) == list(MODES)
    assert available_modes(judge=False, detectors=True) == [
        "golden",
        "adversarial",
        "regression",
        "live-shadow",
    ]
    assert "adversarial" not in available_modes(judge=True, detectors=False)
