"""Slices of a run over REST: by tag, by member, by reason; and filters by slice and by number."""

import pytest

from assay.results.reason_groups import reason_groups
from assay.serve.overview.run_slices import MemberValues
from assay.stats.intervals import Rate, rate_difference, wilson
from support.servers.rest_client import Server, sqlite

EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
RUNS = "/v1/host/assay/runs"


def case(at):
    """Twenty cases: those of the tier `free` fail, but for two."""
    tier = "free" if at % 2 else "pro"
    return {"id": f"c{at}", "input": "?", "expected": "yes", "metadata": {"tags": ["even"], "tier": tier}}


def request(many=20):
    right = [at % 2 == 0 or at in (1, 3) for at in range(many)]
    outputs = [
        {
            "value": "yes" if good else f"no {at}",
            "metadata": {"latency_ms": 100 * at, "model": f"m-{at % 2}", "cost_usd": 0.1},
        }
        for at, good in enumerate(right)
    ]
    return {"test_cases": [case(at) for at in range(many)], "outputs": outputs, "checks": [EXACT]}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("slices"))) as host:
        yield host


@pytest.fixture(scope="module")
def run(client):
    return client.post("/v1/evaluate", json=request()).json()["evaluation_id"]


def slices(client, run, by):
    answer = client.get(f"{RUNS}/{run}/slices", params={"by": by})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_slice_has_its_rate_and_its_difference_to_the_rest(client, run):
    found = slices(client, run, "tier")
    assert (found["by"], found["members"], found["more"], found["counted"]) == (
        "tier",
        ["tag", "tier"],
        0,
        True,
    )
    free, pro = found["slices"]
    assert (free["name"], free["cases"], free["rate"]) == ("free", 10, "20.0% (5.7–51.0%)")
    assert (free["verdict"], pro["verdict"]) == ("worse", "better")
    assert free["difference"].startswith("−80.0 points (")
    assert pro["difference"].startswith("+80.0 points (")
    (every,) = slices(client, run, "tag")["slices"]
    assert (every["name"], every["cases"], "difference" in every) == ("even", 20, False)
    assert {one["name"] for one in slices(client, run, "$.output.metadata.model")["slices"]} == {"m-0", "m-1"}


def test_the_values_of_each_member_and_the_models_are_listed(client, run):
    found = slices(client, run, "reason")["values"]
    assert found == {"tag": ["even"], "tier": ["pro", "free"], "$.output.metadata.model": ["m-0", "m-1"]}
    assert "values" not in slices(client, run, "tier")


def test_the_values_that_are_listed_are_bounded():
    values = MemberValues({})
    for at in range(50):
        case = {"id": f"c{at}", "input": "?", "metadata": {"n": at, "tags": ["a", "b"]}}
        values.add({"test_case": case, "output": {"value": 1}})
    assert values.found == {"tag": ["a", "b"], "n": [str(at) for at in range(20)]}


def test_the_pass_rate_of_each_check_is_a_slice(client, run):
    found = slices(client, run, "check")
    assert found["slices"] == [{"name": "exact_match", "cases": 20, "rate": "60.0% (38.7–78.1%)"}]


def test_differences_of_many_slices_are_adjusted_for_their_number(client):
    """Of twenty groups of ten, one is worse by chance: it is not called so among twenty, and alone it is."""
    cases = [{"id": f"c{at}", "input": "?", "metadata": {"group": f"g{at % 20}"}} for at in range(200)]
    outputs = [{"value": "a" if at % 20 or at > 100 else "b"} for at in range(200)]
    check = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "a"}}
    many = {"test_cases": cases, "outputs": outputs, "checks": [check]}
    of_many = slices(client, client.post("/v1/evaluate", json=many).json()["evaluation_id"], "group")[
        "slices"
    ]
    first = next(one for one in of_many if one["name"] == "g0")
    two = [case | {"metadata": {"group": "g0" if at % 20 == 0 else "rest"}} for at, case in enumerate(cases)]
    of_two = slices(
        client, client.post("/v1/evaluate", json=many | {"test_cases": two}).json()["evaluation_id"], "group"
    )["slices"]
    again = next(one for one in of_two if one["name"] == "g0")
    width = [
        float(high) - float(low)
        for low, high in (
            one["difference"].replace("−", "-").split("(")[1].rstrip(")").split("…") for one in (first, again)
        )
    ]
    assert width[0] > width[1]
    assert first["difference"].split(" (")[0] == again["difference"].split(" (")[0]


def test_what_the_outputs_cost_is_not_what_the_run_spent(client, run):
    overview = client.get(f"{RUNS}/{run}/overview").json()
    assert (overview["cost"], overview["run"]["costParts"]) == (None, {"system": "$2.00"})


def test_a_case_has_its_metadata(client, run):
    assert client.get(f"{RUNS}/{run}/cases/1").json()["metadata"] == {"tier": "free"}


def test_failures_are_grouped_by_check_and_reason(client, run):
    (group,) = slices(client, run, "reason")["slices"]
    assert group == {"name": "exact_match: expected …, got …", "cases": 8}
    where = [{"by": "reason", "name": group["name"]}, {"by": "tier", "name": "free"}]
    found = client.post(f"{RUNS}/{run}/cases:search", json={"where": where}).json()
    assert [match["position"] for match in found["matches"]] == [5, 7, 9, 11, 13, 15, 17, 19]
    assert found["looked"]["complete"]


@pytest.mark.parametrize(
    ("filter", "positions"),
    [
        ({"latencyMs": {"above": 1700}}, [18, 19]),
        ({"latencyMs": {"above": 1700, "below": 1850}}, [18]),
        ({"score": {"below": 0.5}, "latencyMs": {"below": 800}}, [5, 7]),
        ({"costUsd": {"above": 1}}, []),
        ({"positions": [*range(9_000, 18_998), 3, 19]}, [3, 19]),  # as many as a search of the page finds
    ],
)
def test_cases_are_filtered_by_their_numbers(client, run, filter, positions):
    for sort in ({"by": "position"}, {"by": "latency"}):
        body = {"filter": filter, "sort": sort}
        found = client.post(f"{RUNS}/{run}/cases:query", json=body).json()
        assert ([row["position"] for row in found["cases"]], found["matching"]) == (positions, len(positions))


@pytest.mark.parametrize(
    ("check", "positions"),
    [
        ({"index": 0}, [5, 7, 9, 11, 13, 15, 17, 19]),
        ({"index": 0, "outcome": "passed"}, [0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18]),
        ([{"index": 0, "outcome": "passed"}, {"index": 1, "outcome": "failed"}], [1, 10, 12, 14, 16, 18]),
        ([{"index": 0}, {"index": 1}], [11, 13, 15, 17, 19]),
    ],
)
def test_cases_are_filtered_by_the_outcomes_of_several_checks(client, check, positions):
    early = {"text": "$.test_case.id", "phrases": ["c1"], "negate": True}
    body = request() | {"checks": [EXACT, {"type": "contains", "name": "early", "arguments": early}]}
    run = client.post("/v1/evaluate", json=body).json()["evaluation_id"]
    for sort in ({"by": "position"}, {"by": "latency"}, {"by": "status"}):
        answer = client.post(f"{RUNS}/{run}/cases:query", json={"filter": {"check": check}, "sort": sort})
        assert sorted(row["position"] for row in answer.json()["cases"]) == positions, answer.text


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("slices?by=tiers", None, "by=tiers: no case has a value there; the members are"),
        ("slices?by=$..[", None, "by: expected a path"),
        ("slices?by=" + "x" * 2_000, None, "by: expected names of at most"),
        ("cases:search", {"where": [{"by": "", "name": "x"}]}, "where[0].by"),
        ("cases:search", {"where": [{"by": "$[", "name": "x"}]}, "by: expected a path"),
        ("cases:query", {"filter": {"score": {"over": 1}}}, "filter.score"),
        ("cases:query", {"filter": {"check": [{"index": 0}] * 11}}, "filter.check"),
    ],
)
def test_bad_slices_and_limits_are_refused_with_their_place(client, run, path, body, message):
    address = f"{RUNS}/{run}/{path}"
    answer = client.get(address) if body is None else client.post(address, json=body)
    assert (answer.status_code, message in answer.text) == (400, True), answer.text


def test_the_slices_of_an_erased_run_are_gone(client):
    run = client.post("/v1/evaluate", json=request(2)).json()["evaluation_id"]
    assert client.delete(f"/v1/evaluations/{run}").status_code == 200
    assert client.get(f"{RUNS}/{run}/slices").status_code == 404


def test_a_difference_of_rates_is_newcombes():
    """Newcombe (1998), example (a): 56 of 70 and 48 of 80."""
    one, other = (Rate(k / n, *wilson(k / n, n), n, n) for k, n in ((56, 70), (48, 80)))
    assert rate_difference(one, other) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-4)


@pytest.mark.parametrize(
    ("reasons", "groups"),
    [
        (["got 'a b' after 12 s", "got 'c' after 7 s"], ["mine: got … after # s"]),
        (['{"a": 1} differs', "[1, 2] differs"], ["mine: … differs"]),
        (["x" * 300], [f"mine: {'x' * 153}…"]),
        ([], []),
    ],
)
def test_reasons_without_their_values_are_one_group(reasons, groups):
    checks = [{"check_type": "mine", "status": "error", "error": {"message": one}} for one in reasons]
    context = {"test_case": {"id": "a"}, "output": {"value": 1}}
    assert reason_groups({"execution_context": context, "check_results": checks}) == groups


def test_each_criterion_that_is_not_met_is_a_group_without_the_words_of_the_judge():
    answer = {
        "criterion_1": {"reason": "It never says so.", "met": False},
        "criterion_2": {"reason": "It does.", "met": True},
    }
    check = {"check_type": "llm_judge", "status": "completed", "results": {"response": answer}}
    case = {"id": "a", "expected": [{"criterion": "says sorry"}, {"criterion": "is brief"}]}
    result = {"execution_context": {"test_case": case, "output": {"value": 1}}, "check_results": [check]}
    assert reason_groups(result) == ["llm_judge: not met: says sorry"]


def test_a_case_names_the_groups_of_its_failures(client, run):
    (group,) = slices(client, run, "reason")["slices"]
    trials = [client.get(f"{RUNS}/{run}/cases/{at}").json()["trials"][0] for at in (4, 5)]
    assert [one.get("groups") for one in trials] == [None, [group["name"]]]
