"""Suites: exactly what the published schemas say, and what they forget (RFC 0081 §A, openwop-contract §6.1)."""

import json
from copy import deepcopy
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.agenteval.suites.suite import read_suite, read_suite_file, schema_problems
from assay.errors import InvalidRequest
from assay.ports import Limits
from assay.protocol.agent_evals import AgentEvalSuite, EvalSummary
from assay.protocol.schemas import schema_of
from support.spec_files import SHARED, needs_shared

SUITE: dict[str, Any] = {
    "suiteId": "community.acme.evals.triage-smoke",
    "version": "1.0.0",
    "targetAgentId": "community.acme.triage.default",
    "modes": ["golden", "rubric", "regression"],
    "allowedModels": ["classification", "general"],
    "thresholds": {"passScore": 0.75, "maxCostUsd": 0.25, "maxP95LatencyMs": 6000},
    "tasks": [
        {
            "taskId": "refund-window",
            "input": {"ticket": "Can I still send it back?"},
            "expected": {
                "kind": "golden",
                "match": {"strategy": "json-match", "value": {"queue": "returns"}},
            },
            "fixtures": {
                "toolResponses": [{"tool": "openwop:core.rag", "response": {"hits": []}}],
                "memorySeed": [
                    {
                        "id": "m1",
                        "content": "gold tier",
                        "tags": ["customer"],
                        "createdAt": "2026-06-01T00:00:00Z",
                    }
                ],
            },
        },
        {
            "taskId": "tone",
            "input": None,
            "expected": {
                "kind": "rubric",
                "rubric": [{"criterion": "is kind", "weight": 0.6}, {"criterion": "is short", "weight": 0.4}],
            },
        },
    ],
}
SUMMARY = {
    "suiteId": "community.acme.evals.triage-smoke",
    "suiteVersion": "1.0.0",
    "evaluatedModelClass": "classification",
    "aggregateScore": 0.8,
    "passed": True,
    "taskCount": 2,
    "passedCount": 1,
    "totalCostUsd": 0.0041,
    "tasks": [
        {
            "taskId": "tone",
            "score": 0.6,
            "passed": False,
            "costUsd": 0.0029,
            "latencyMs": 910,
            "schemaValid": True,
            "safetyFindings": [{"kind": "pii-leak", "severity": "low"}],
        }
    ],
    "regression": {
        "baselineRunId": "run-61aa",
        "scoreDelta": -0.1,
        "diffRef": "/v1/runs/run-7f0c:diff?against=run-61aa",
    },
}
PUBLISHED = {
    "AgentEvalSuite": (SUITE, SHARED / "openwop" / "schemas" / "agent-eval-suite.schema.json"),
    "EvalSummary": (SUMMARY, SHARED / "spec" / "eval-summary.schema.json"),
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 0.5, 1, 1.0, 1.5, 2, 7.0, 10**20]),
    st.sampled_from(
        [
            "",
            "a",
            "A",
            "a-b",
            "a\n",
            "golden",
            "rubric",
            "exact",
            "low",
            "1.0.0",
            "1.0",
            "a.evals.b",
            "x" * 101,
        ]
    ),
    st.just([]),
    st.just({}),
    st.just(["golden", "golden"]),
    st.just([None]),
)


def places(value, at=()):
    """Where anything stands in a document, the document itself included."""
    yield at
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, one in members:
        yield from places(one, (*at, name))


def changed(document, at, how, value):
    """The document with one thing put in another's place, left out, repeated, or added."""
    document = deepcopy(document)
    if not at:
        return value if how == "put" else document
    inside = document
    for name in at[:-1]:
        inside = inside[name]
    if how == "put":
        inside[at[-1]] = value
    elif how == "drop":
        del inside[at[-1]]
    elif isinstance(inside, list):
        inside.append(deepcopy(inside[at[-1]]))
    else:
        inside["more"] = value
    return document


@st.composite
def mutated(draw, document):
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.sampled_from(list(places(document))))
        document = changed(document, at, draw(st.sampled_from(["put", "drop", "add"])), draw(VALUES))
        if not isinstance(document, dict | list):
            break
    return document


@needs_shared
@pytest.mark.parametrize("name", PUBLISHED)
def test_our_schema_accepts_and_refuses_exactly_what_the_published_one_does(name):
    document, path = PUBLISHED[name]
    theirs = jsonschema_rs.validator_for(json.loads(path.read_text()))
    ours = jsonschema_rs.validator_for(json.loads(schema_of(name)))
    assert theirs.is_valid(document)
    assert ours.is_valid(document)

    @settings(max_examples=3 * settings.default.max_examples, deadline=None)
    @given(mutated(document))
    def same(changed):
        assert ours.is_valid(changed) == theirs.is_valid(changed)

    same()


@given(mutated(SUITE))
def test_documents_of_the_schema_are_read_and_others_are_refused_with_places(document):
    problems = schema_problems(document)
    if problems:
        with pytest.raises(InvalidRequest) as refused:
            read_suite(document)
        assert set(problems) <= set(refused.value.problems)
        return
    try:
        suite = read_suite(document)
    except InvalidRequest:
        return  # what the schema forgets
    assert read_suite(msgspec.json.decode(msgspec.json.encode(suite))) == suite


def test_the_summary_reads_back_what_it_wrote():
    summary = msgspec.convert(SUMMARY, EvalSummary)
    assert msgspec.json.decode(msgspec.json.encode(summary)) == SUMMARY


def with_task(**members):
    return {**SUITE, "tasks": [{**SUITE["tasks"][0], **members}]}


GOLDEN = SUITE["tasks"][0]["expected"]
RUBRIC = SUITE["tasks"][1]["expected"]


@pytest.mark.parametrize(
    ("suite", "places"),
    [
        ({**SUITE, "tasks": []}, ["tasks"]),
        ({**SUITE, "modes": []}, ["modes"]),
        ({**SUITE, "modes": ["golden", "golden"]}, ["modes"]),
        ({**SUITE, "more": 1}, ["more"]),
        (with_task(expected={"kind": "golden"}), ["tasks[0].expected.match"]),
        (with_task(expected={"kind": "rubric"}), ["tasks[0].expected.rubric"]),
        (with_task(expected={**GOLDEN, "rubric": RUBRIC["rubric"]}), ["tasks[0].expected.rubric"]),
        (with_task(expected={**RUBRIC, "match": GOLDEN["match"]}), ["tasks[0].expected.match"]),
        (
            with_task(expected={"kind": "rubric", "rubric": [{"criterion": "a", "weight": 0}]}),
            ["tasks[0].expected.rubric"],
        ),
        (with_task(taskId="x" * 101), ["tasks[0].taskId"]),
        ({**SUITE, "tasks": [SUITE["tasks"][1]] * 2}, ["tasks[1].taskId"]),
        (with_task(fixtures={"memorySeed": [{"id": 1}]}), ["tasks[0].fixtures.memorySeed[0]"] * 2),
        # everything at once, what the schema forgets included
        (
            {**SUITE, "version": "1", "tasks": [SUITE["tasks"][1], {**SUITE["tasks"][1], "expected": {"kind": "golden"}}]},
            ["version", "tasks[1].taskId", "tasks[1].expected.match"],
        ),
    ],
    ids=range(13),
)  # fmt: skip
def test_all_problems_of_a_suite_are_reported_at_once_with_their_places(suite, places):
    with pytest.raises(InvalidRequest) as refused:
        read_suite(suite)
    refused_places = [problem.place for problem in refused.value.problems]
    assert len(refused_places) == len(places)
    assert all(one.startswith(place) for one, place in zip(refused_places, places, strict=True)), (
        refused_places
    )


def test_a_float_with_an_integer_value_is_an_integer():
    suite = read_suite({**SUITE, "thresholds": {"maxP95LatencyMs": 2000.0}})
    assert suite.thresholds.max_p95_latency_ms == 2000


@pytest.mark.parametrize("name", ["suite.json", "suite.yaml"])
def test_a_suite_is_read_from_a_file(tmp_path, name):
    (tmp_path / name).write_text(json.dumps(SUITE))
    assert read_suite_file(str(tmp_path / name), Limits()) == msgspec.convert(SUITE, AgentEvalSuite)
    (tmp_path / name).write_text(json.dumps(with_task(taskId="A")))
    with pytest.raises(InvalidRequest, match=rf"{name}: tasks\[0\].taskId: expected a text"):
        read_suite_file(str(tmp_path / name), Limits())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modes": ["golden", "vibes"]}, "modes[1]: expected one of adversarial, golden, live-shadow, regression, rubric, got 'vibes'"),
        ({"version": "1"}, "version: expected a text of the form ^[0-9]+\\.[0-9]+\\.[0-9]+$, got '1'"),
        ({"tasks": []}, "tasks: expected at least 1, got a list of 0"),
        ({"thresholds": {"passScore": 2}}, "thresholds.passScore: expected a number that is at most 1, got 2"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_value(change, message):
    task = {
        "taskId": "a",
        "input": 1,
        "expected": {"kind": "golden", "match": {"strategy": "exact", "value": 1}},
    }
    suite = {"suiteId": "local.x.evals.one", "version": "1.0.0", "modes": ["golden"], "tasks": [task]}
    with pytest.raises(InvalidRequest) as refused:
        read_suite({**suite, **change})
    assert message in [str(problem) for problem in refused.value.problems]
