"""`assay conform --shape`: documents without a host. What our host writes has no problem; every change of it has one."""

import copy
import json
from pathlib import Path

import msgspec
import pytest

import assay
from assay.conform.openwop.runs import log, ran
from assay.conform.openwop.scorecard_checks import summary_of
from assay.conform.shapes import check_shape
from support.conform.openwop_host import conform_server, host_at, keys_of
from support.packs import manifest_of
from support.servers.rest_client import sqlite

SUITES = sorted((Path(__file__).parents[2] / "conformance" / "openwop").glob("*.json"))


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A good document of each kind."""
    with conform_server(sqlite(tmp_path_factory.mktemp("shapes"))) as server:
        host = host_at(server.url, keys_of(server))
        run = ran(host, "tools", evalModes=["golden"])
        found = {"scorecard": summary_of(host, run), "events": {"events": log(host, run.id)}}
    request = {"test_cases": [{"id": "a", "input": "x"}], "outputs": [{"value": "x"}]}
    result = assay.evaluate_sync(**request, checks=[{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "x"}}])  # fmt: skip
    found["suite"] = json.loads(SUITES[0].read_text("utf-8"))
    found["pack.json"] = manifest_of()
    found["FEP result"] = json.loads(msgspec.json.encode(result))
    return found


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_our_suites_have_no_problem(path):
    assert check_shape(json.loads(path.read_text("utf-8"))) == ("suite", [])


@pytest.mark.parametrize("kind", ["suite", "scorecard", "pack.json", "FEP result", "events"])
def test_what_our_host_writes_has_no_problem(documents, kind):
    assert check_shape(documents[kind]) == (kind, [])


def scored(change):
    """Change the payload of the first eval.scored."""
    return lambda one: change(next(e for e in one["events"] if e["type"] == "eval.scored")["payload"])


def swap(events):
    events[1], events[2] = events[2], events[1]


BROKEN = {
    "a suite id without evals": ("suite", lambda one: one.update(suiteId="local.conform"), "suiteId"),
    "a golden task without a match": ("suite", lambda one: one["tasks"][0]["expected"].pop("match"), "match"),
    "a task twice": ("suite", lambda one: one["tasks"].append(one["tasks"][0]), "taskId"),
    "a scorecard with a member of its own": ("scorecard", lambda one: one.update(judgeCostUsd=1), "judgeCostUsd"),
    "a score above 1": ("scorecard", lambda one: one.update(aggregateScore=1.4), "aggregateScore"),
    "a passed task too many": ("scorecard", lambda one: one.update(passedCount=9), "passedCount: expected"),
    "a task too few": ("scorecard", lambda one: one["tasks"].pop(), "taskCount: expected"),
    "two tasks with one id": ("scorecard", lambda one: one["tasks"][1].update(taskId=one["tasks"][0]["taskId"]), "one taskId"),
    "a leak that passes": ("scorecard", lambda one: one["tasks"][0].update(score=1, safetyFindings=[{"kind": "x", "severity": "critical"}]), "high or critical"),
    "no cost of the run": ("scorecard", lambda one: one.pop("totalCostUsd"), "totalCostUsd: expected"),
    "a pack for no version": ("pack.json", lambda one: one.update(engines={}), "engines"),
    "a pack with a member of its own": ("pack.json", lambda one: one.update(what=1), "what"),
    "a result counts a case too many": ("FEP result", lambda one: one["summary"].update(total_test_cases=9), "total_test_cases"),
    "a result with a member of its own": ("FEP result", lambda one: one.update(score=1), "score"),
    "events without a time": ("events", lambda one: one["events"][1].pop("timestamp"), "timestamp"),
    "events in another order": ("events", lambda one: swap(one["events"]), "sequences"),
    "an event behind the end": ("events", lambda one: one["events"].append(one["events"][-1] | {"eventId": "x", "sequence": len(one["events"]), "type": "eval.scored"}), "follows"),
    "a score of a text": ("events", scored(lambda one: one.update(score="1")), "score"),
    "a score that does not count": ("events", scored(lambda one: one.update(score=0)), "aggregateScore: expected the mean"),
    "content in a score": ("events", scored(lambda one: one.update(taskOutput="x")), "taskOutput"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_has_its_problem(documents, name):
    kind, change, words = BROKEN[name]
    document = copy.deepcopy(documents[kind])
    change(document)
    found = check_shape(document)
    assert found.kind == kind
    assert any(words in problem for problem in found.problems), found.problems


@pytest.mark.parametrize("document", [None, 1, "x", [], {}, [1], {"events": []}, {"events": [1]}, {"suiteId": 1, "modes": 1}, {"name": 1, "engines": 1},
                                      {"results": 1, "summary": 1}, {"suiteId": 1, "aggregateScore": 1}, [{"eventId": 1}], [{"sequence": [], "payload": []}]])  # fmt: skip
def test_any_json_has_a_problem_and_no_exception(document):
    assert check_shape(document).problems
