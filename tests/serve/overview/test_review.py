"""People review a judge over REST: the draw, their answers, what they say together; `assay judge check` reads the same."""

from contextlib import ExitStack

import pytest

from support.evals import rubric
from support.servers.openwop_client import finish_run, suite
from support.servers.rest_client import Server, request_of, slow

RUNS = "/v1/host/assay/runs"
EXACT = {"type": "exact_match", "name": "same", "arguments": {"actual": "$.output.value", "expected": "a"}}
RUBRIC = suite(
    *(rubric(f"t{at}", ("greets", 1.0), input=f"hello {at}") for at in range(4)), modes=("rubric",)
)


KIND = {"type": "regex", "name": "kind", "arguments": {"text": "$.output.value", "pattern": "kind"}}


def judge(ask):
    return {"criterion_1": {"reason": "it says hello", "met": True}}


@pytest.fixture(scope="module")
def host(database):
    with Server(database, judge=judge) as host:
        yield host


@pytest.fixture(scope="module")
def people(host):
    """Three clients of one tenant, each with a key of its own."""
    with ExitStack() as stack:
        yield [stack.enter_context(host.client(host.key())) for _ in range(3)]


def stored(client, many=12):
    """An evaluation with a check that passes every second answer; any check can be reviewed."""
    outputs = [{"value": "a kind word" if at % 2 else "no"} for at in range(many)]
    cases = [{"id": f"c{at}", "input": f"question {at}"} for at in range(many)]
    body = {"test_cases": cases, "outputs": outputs, "checks": [KIND, EXACT]}
    return client.post("/v1/evaluate", json=body).json()["evaluation_id"]


def review(client, run, check="kind"):
    found = client.get(f"{RUNS}/{run}/review", params={"check": check} if check else {})
    assert found.status_code == 200, found.text
    return found.json()


def label(client, run, case, passed, note=None):
    signal = {"kind": "label", "label": f"kind: {'pass' if passed else 'fail'}"}
    body = {"target": {"nodeId": case}, "signal": signal} | ({"note": note} if note else {})
    made = client.post(f"/v1/evaluations/{run}/annotations", json=body)
    assert made.status_code == 201, made.text


def test_people_review_a_judge_each_with_their_own_answers(people, host, command, tmp_path):
    ada, bob, _ = people
    run = stored(ada)
    empty = review(ada, run)
    assert (empty["judge"], empty["judges"], empty["judged"]) == ("kind", [], 12)
    assert (empty["sample"], empty["cases"], empty["people"]) == (None, [], [])
    drawn = ada.post(f"{RUNS}/{run}/review", json={"count": 5, "seed": 3, "check": "kind"})
    assert drawn.status_code == 201, drawn.text
    first = drawn.json()
    assert first["sample"] == {"seed": 3, "drawn": 5, "judged": 12}
    assert first["numbers"]["rateWhy"] == "5 of 5 drawn cases have no label"
    ids = [case["caseId"] for case in first["cases"]]
    assert [case["position"] for case in first["cases"]] == [int(id[1:]) for id in ids]
    assert all(
        set(case) == {"position", "caseId"} for case in first["cases"]
    )  # nothing tells what the judge said
    for id in ids[:3]:  # as the judge says
        label(ada, run, id, int(id[1:]) % 2 == 1, note="why")
    label(bob, run, ids[0], int(ids[0][1:]) % 2 == 0)  # not as the judge says
    mine = review(ada, run)
    case = mine["cases"][0]
    judged = int(ids[0][1:]) % 2 == 1
    assert (case["mine"], case["judge"], case["answers"]) == (judged, judged, 2)
    assert case["people"] == {mine["you"]: judged, review(bob, run)["you"]: not judged}
    assert set(mine["cases"][3]) == {"position", "caseId"}
    assert set(review(bob, run)["cases"][1]) == {"position", "caseId", "answers"}  # bob has not answered here
    numbers = mine["numbers"]
    assert (numbers["cases"], numbers["agreement"]) == (2, 1.0)  # the first case is tied
    assert (numbers["judgedRate"], numbers["rateLabels"], numbers["rateWhy"]) == (0.5, 3, "")
    assert numbers["rateLow"] <= numbers["rate"] <= numbers["rateHigh"]
    assert ["sample", "5 cases drawn with the seed 3"] in mine["rows"]
    assert ["corrected", "no corrected mean: 2 of 5 drawn cases have no label"] in mine["rows"]
    for id in ids[3:]:
        label(bob, run, id, True)
    whole = review(ada, run)
    assert whole["numbers"]["rateLabels"] == 5
    (tmp_path / "assay.toml").write_text(f'database_url = "{host.address}"\n')
    done = command("judge", "check", run, "--tenant", "acme", "--check", "kind", folder=tmp_path)
    assert done.code == 0, done.err
    for name, text in whole["rows"]:
        assert text.split(";")[0] in " ".join(done.out.split()), (name, text)
    assert ada.get(f"{RUNS}/{run}/overview").json().get("effective") is None  # a label is an opinion


def test_a_larger_draw_contains_the_smaller_one_and_another_seed_is_refused(people):
    ada, *_ = people
    run = stored(ada)
    draws = [
        ada.post(f"{RUNS}/{run}/review", json={"count": count, "seed": 1, "check": "kind"}).json()
        for count in (2, 6, 900)
    ]
    ids = [[case["caseId"] for case in one["cases"]] for one in draws]
    assert ids[1][:2] == ids[0]
    assert ids[2][:6] == ids[1]
    assert len(ids[2]) == 12  # all there are
    other = ada.post(f"{RUNS}/{run}/review", json={"count": 12, "seed": 2, "check": "kind"})
    assert (other.status_code, "has a sample with the seed 1" in other.text, "--seed" in other.text) == (
        400, True, False,
    )  # fmt: skip


def test_any_check_is_reviewed_by_its_name_and_a_correction_counts_as_a_label(people):
    ada, *_ = people
    run = stored(ada, 4)
    assert ada.post(f"{RUNS}/{run}/review", json={"count": 4, "check": "same"}).json()["judge"] == "same"
    for correction in ('{"passed": true}', '{"score": 0.4}'):
        body = {"target": {"nodeId": "c0"}, "signal": {"kind": "correction", "correction": correction}}
        assert ada.post(f"/v1/evaluations/{run}/annotations", json=body).status_code == 201
    assert [case.get("mine") for case in review(ada, run, check="same")["cases"]].count(True) == 1
    unknown = ada.get(f"{RUNS}/{run}/review", params={"check": "vibes"})
    assert (unknown.status_code, "no check of these results is called 'vibes'" in unknown.text) == (400, True)


def test_the_rubrics_of_an_agent_eval_are_reviewed(people):
    ada, bob, _ = people
    run = finish_run(ada, RUBRIC)
    drawn = ada.post(f"{RUNS}/{run}/review", json={"count": 4}).json()
    assert (drawn["noun"], len(drawn["cases"])) == ("task", 4)
    for client, at in ((ada, 0), (ada, 1), (bob, 0)):
        position = drawn["cases"][at]["position"]
        event = client.get(f"{RUNS}/{run}/cases/{position}").json()["eventId"]
        body = {"target": {"eventId": event}, "signal": {"kind": "label", "label": "fail"}}
        assert client.post(f"/v1/runs/{run}/annotations", json=body).status_code == 201
    found = review(ada, run, check=None)
    assert [case.get("mine") for case in found["cases"]] == [False, False, None, None]
    assert len(found["cases"][0]["people"]) == 2
    assert (found["numbers"]["agreement"], found["numbers"]["rateLabels"]) == (0.0, 2)


def test_a_run_without_a_judge_says_so(people):
    run = people[0].post("/v1/evaluate", json=request_of(2)).json()["evaluation_id"]
    found = people[0].get(f"{RUNS}/{run}/review")
    message = "there is no check in these results that asks a judge"
    assert (found.status_code, message in found.json()["why"], found.json()["cases"]) == (200, True, [])
    assert people[0].post(f"{RUNS}/{run}/review", json={}).status_code == 200  # nothing was drawn
    assert people[0].get(f"/v1/evaluations/{run}/annotations").json() == {"annotations": []}


def test_a_run_in_flight_an_erased_one_and_one_of_another_tenant_are_not_reviewed(people, host):
    ada, *_ = people
    reviewed = stored(ada, 2)
    body = {"test_cases": [{"id": "a", "input": "?"}], "outputs": [{"value": "a"}], "checks": [slow(60)]}
    run = ada.post("/v1/evaluations", json=body).json()["operation_id"]
    live = ada.get(f"{RUNS}/{run}/review")
    assert (live.status_code, "expected a run that has ended" in live.text) == (400, True)
    ada.post(f"/v1/evaluations/{run}:cancel")
    run = reviewed
    with host.client(tenant="other") as stranger:
        assert stranger.get(f"{RUNS}/{run}/review").status_code == 404
        assert stranger.post(f"{RUNS}/{run}/review", json={}).status_code == 404
    assert ada.delete(f"/v1/evaluations/{run}").status_code == 200
    assert ada.get(f"{RUNS}/{run}/review").status_code == 404
