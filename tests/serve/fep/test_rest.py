"""FEP over HTTP: what every route does when it is asked well, on both databases."""

import asyncio
import gzip
import json
import re
import threading
import time

import httpx
import pytest
from msgspec import json as wire

import assay
from assay.errors import EnvironmentFailure
from assay.protocol.operations import BatchEvaluationResponse, EvaluationOperation
from assay.protocol.results import EvaluationRunResult
from support.servers.rest_client import CONTAINS, SLOW, Server, events_of, lines_of, request_of, slow, sqlite
from support.waiting import PATIENCE, wait_until


@pytest.fixture(scope="module")
def host(database):
    with Server(database) as host:
        yield host


def started(client, request, **headers):
    answer = client.post("/v1/evaluations", json=request, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()["operation_id"]


def wait_for_end(client, id):
    def over():
        operation = client.get(f"/v1/operations/{id}").json()
        return operation if operation["status"] in ("completed", "failed", "cancelled") else None

    return wait_until(over)


# Evaluate


@pytest.mark.parametrize(
    ("many", "checks"),
    [
        (3, [CONTAINS]),
        (0, [CONTAINS]),  # FEP-36
        (3, []),
        (4, [slow(0.01)]),  # waits, so it is conducted as a run
        (1200, [CONTAINS]),  # more than is done at once
        (3, [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": "(P+)+x"}}]),  # in a thread
    ],
)
def test_evaluate_returns_the_result_and_stores_it(client, many, checks):
    answer = client.post("/v1/evaluate", json=request_of(many, checks, experiment_metadata={"name": "x"}))
    assert answer.status_code == 200, answer.text
    result = wire.decode(answer.content, type=EvaluationRunResult)
    assert result.summary.total_test_cases == many
    assert result.summary.total_checks == many * len(checks)
    assert [one.execution_context.test_case["id"] for one in result.results] == [
        f"c{at}" for at in range(many)
    ]
    assert result.experiment.name == "x"
    kept = client.get(answer.headers["content-location"])
    assert kept.json() == answer.json()


BAD_COMPARISONS = [
    ("", 400, "baseline: expected the id of the run"),
    ("baseline=eval_unknown", 404, "eval_unknown"),
    ("baseline={0}&margin=0", 400, "margin: expected a number above 0, got '0'"),
    ("baseline={0}&margin=nan", 400, "margin: expected a number above 0"),
    ("baseline={0}&limit=1000", 400, "limit: expected 0 to 100"),
    ("baseline={0}&metric=tone", 400, "no check is called 'tone'"),
    (
        "baseline={0}&metric=latency_ms:p9",
        400,
        "metric: expected latency_ms, latency_ms:median or latency_ms:p95",
    ),
    ("baseline={0}&by=a:b", 400, "by: expected tag"),
]


def test_a_path_that_visits_too_many_nodes_is_refused(client):
    context = {"test_case": {"id": "a", "input": [*range(10_001)]}, "output": {"value": "x"}}
    check = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["x"]}}
    body = request_of(1, [check]) | {"test_cases": [context["test_case"]], "outputs": [context["output"]]}
    runs = [client.post("/v1/evaluate", json=body).json()["evaluation_id"] for _ in range(2)]
    refused = client.get(f"/v1/evaluations/{runs[0]}/comparison?baseline={runs[1]}&by=$..*")
    assert refused.status_code == 400, refused.text
    assert refused.json()["details"]["problems"] == [
        {
            "place": "by=$..*",
            "message": "expected a path to a value of a case, such as $.test_case.metadata.lang; the path visits more "
            "than 10000 nodes",
        }
    ]


def test_two_evaluations_are_compared(client):
    def scored(phrase):
        check = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [phrase]}}
        return client.post("/v1/evaluate", json=request_of(20, [check])).json()["evaluation_id"]

    good, bad = scored("Paris"), scored("London")
    path = f"/v1/evaluations/{bad}/comparison"
    (pair,) = client.get(f"{path}?baseline={good}&by=check&limit=2").json()["comparisons"]
    result = pair["result"]
    assert (result["before"], result["after"], result["verdict"]) == (1, 0, "regressed")
    assert (pair["worse"], len(pair["changes"]), pair["changes"][0]["data"]["reason_before"]) == (
        20,
        2,
        "passed",
    )
    assert "expected a text that contains 'London'" in pair["changes"][0]["data"]["reason_after"]
    assert [one["slice"] for one in pair["slices"]] == ["contains"]
    for query, status, message in BAD_COMPARISONS:
        refused = client.get(f"{path}?{query.format(good)}")
        assert (refused.status_code, message in refused.text) == (status, True), refused.text


def test_evaluations_over_different_cases_are_compared_without_pairs(client):
    """`b` has the customers of `a` in another mix: each is served as before."""

    def scored(prefix, gold, free):
        kinds = [("gold", "Paris")] * gold + [("free", "Rome")] * free
        body = request_of(len(kinds))
        for at, (kind, answer) in enumerate(kinds):
            body["test_cases"][at] |= {"id": f"{prefix}{at}", "metadata": {"customer": kind}}
            body["outputs"][at] = {"value": answer}
        return client.post("/v1/evaluate", json=body).json()["evaluation_id"]

    a, b = scored("a", 30, 10), scored("b", 10, 30)
    path = f"/v1/evaluations/{b}/comparison?baseline={a}"
    (pair,) = client.get(f"{path}&by=customer").json()["comparisons"]
    result = pair["result"]
    assert (pair["unpaired"], result["method"], result["verdict"]) == (True, "newcombe", "regressed")
    assert (result["before"], result["after"]) == (0.75, 0.25)
    assert (result["cases_before"], result["cases_after"]) == (40, 40)
    assert [mix["by"] for mix in pair["mixes"]] == ["customer"]
    assert {one["slice"]: one["result"]["difference"] for one in pair["slices"]} == {"gold": 0, "free": 0}
    (weighted,) = client.get(f"{path}&standardize_by=customer").json()["comparisons"]
    assert (weighted["result"]["before"], weighted["result"]["after"]) == (0.75, 0.75)
    assert weighted["standardized"]["by"] == "customer"


def test_an_evaluation_with_store_false_is_not_stored(client):
    def stored():
        return [one["operation_id"] for one in client.get("/v1/evaluations?page_size=1").json()["operations"]]

    before = stored()
    tried = client.post("/v1/evaluate?store=false", json=request_of(3))
    assert (tried.status_code, len(tried.json()["results"])) == (200, 3)
    assert client.get(f"/v1/evaluations/{tried.json()['evaluation_id']}").status_code == 404
    assert stored() == before
    wrong = [("true", "expected false"), ("false", "expected true: an evaluation that calls a model")]
    for (value, message), checks in zip(wrong, ([], [slow(0.1)]), strict=True):
        refused = client.post(f"/v1/evaluate?store={value}", json=request_of(1, checks))
        assert (refused.status_code, message in refused.text) == (400, True), refused.text


BAD_VIEWS = [
    ("", "runs: expected 2 to 8 ids of runs, separated by commas, got 0"),
    ("runs={0}", "got 1"),
    ("runs={0},{0}&change=odd", "change: expected one of changed, worse"),
    ("runs={0},{0}&of=eval_x", "of: expected one of"),
    ("runs={0},{0}&limit=0", "limit: expected 1 to 200"),
    ("runs={0},{0}&slice_by=tag", "slice_by: expected one of the names in `by`"),
]


def test_a_comparison_for_a_page_has_the_words_of_the_command_and_pages_of_cases(client):
    def scored(*phrases):
        check = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": list(phrases)}}
        return client.post("/v1/evaluate", json=request_of(20, [check])).json()["evaluation_id"]

    good, bad = scored("Paris"), scored("London")
    plain = client.get(f"/v1/evaluations/{bad}/comparison?baseline={good}&limit=0").json()
    path = "/v1/host/assay/comparison"
    view = client.get(f"{path}?runs={good},{bad},{good}").json()
    first, same = view["comparison"]["comparisons"]
    assert first["result"]["difference"] == plain["comparisons"][0]["result"]["difference"]
    assert (first["run"], same["run"], same["unchanged"]) == (bad, good, 20)
    alone = client.get(f"{path}?runs={good},{bad}").json()
    assert alone["comparison"] == plain
    words = alone["pairs"][0]
    assert words["headline"].startswith("100.0% → 0.0% (−100.0 points, 95% −100.0…")
    assert words["headline"].endswith("20 cases) regressed")
    assert words["counts"] == "passed: 20 worse, 0 better, 0 unchanged"
    assert words["charts"]["points"] == [{"before": 1.0, "after": 0.0, "cases": 20}]
    page = client.get(f"{path}/cases?runs={good},{bad}&change=worse&first=15&limit=10").json()
    assert (page["total"], page["first"], len(page["cases"])) == (20, 15, 5)
    assert (page["cases"][0]["before"], page["cases"][0]["reason_before"]) == (1.0, "passed")
    assert (page["cases"][0]["position_before"], page["cases"][0]["position_after"]) == (15, 15)
    assert "expected a text that contains 'London'" in page["cases"][0]["reason_after"]
    assert client.get(f"{path}/cases?runs={good},{bad}&change=better").json()["cases"] == []
    for query, message in BAD_VIEWS:
        refused = client.get(f"{path}/cases?{query.format(good)}")
        assert (refused.status_code, message in refused.text) == (400, True), refused.text


@pytest.mark.parametrize("many", [30, 1_200], ids=["at once", "in units"])
def test_statistics_are_those_of_the_library(client, many):
    """FEP-46: repeats of a case are one cluster, also where they lie in different units."""
    cases = [{"id": f"c{at % (many // 2)}", "input": "?"} for at in range(many)]
    outputs = [{"value": "a" if at % 3 else "b"} for at in range(many)]
    checks = [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "a"}}]
    answer = client.post("/v1/evaluate", json={"test_cases": cases, "outputs": outputs, "checks": checks})
    assert answer.status_code == 200, answer.text
    expected = assay.evaluate_sync(cases, outputs, checks).metadata["statistics"]
    assert answer.json()["metadata"]["statistics"] == expected
    assert expected["pass_rate"]["cases"] == many // 2
    kept = client.get(f"/v1/evaluations/{answer.json()['evaluation_id']}").json()
    assert kept["metadata"]["statistics"] == expected


def test_every_case_may_bring_its_own_checks(client):
    cases = [
        {"id": "a", "input": 1, "checks": [CONTAINS]},
        {"id": "b", "input": 2, "checks": [slow(0.01), CONTAINS]},
    ]
    request = {"test_cases": cases, "outputs": [{"value": "Paris"}, {"value": "Rome"}]}
    result = client.post("/v1/evaluate", json=request).json()
    assert [[one["results"]["passed"] for one in case["check_results"]] for case in result["results"]] == [
        [True],
        [True, False],
    ]
    assert "checks" not in result["results"][0]["execution_context"]["test_case"]  # FEP-11


def test_each_case_may_have_a_list_of_its_own(client):
    request = request_of(2, [[CONTAINS], [CONTAINS, slow(0.01)]])
    result = client.post("/v1/evaluate", json=request).json()
    assert [len(case["check_results"]) for case in result["results"]] == [1, 2]


def test_unknown_members_and_numbers_are_returned_unchanged(client):
    body = (
        b'{"test_cases":[{"id":"a","input":1e2,"colour":"blue"}],\n "outputs":[ {"value":1.0,\n"confidence":0.50} ],'
        b'"checks":[{"type":"threshold","arguments":{"value":"$.output.confidence","min_value":0.5}}]}'
    )
    answer = client.post("/v1/evaluate", content=body, headers={"content-type": "application/json"})
    assert b'"input":1e2,"colour":"blue"' in answer.content
    assert b'"value":1.0,"confidence":0.50' in answer.content
    assert answer.json()["results"][0]["check_results"][0]["results"] == {"passed": True}
    assert client.get(answer.headers["content-location"]).content == answer.content


def test_an_invalid_check_is_an_error_result(client):
    checks = [{"type": "contains", "arguments": {"text": "$.output.nothing", "phrases": ["x"]}}]
    result = client.post("/v1/evaluate", json=request_of(2, checks)).json()
    assert result["status"] == "error"
    assert {one["error"]["type"] for case in result["results"] for one in case["check_results"]} == {
        "jsonpath_error"
    }


def test_jsonl_in_and_jsonl_out(client):
    request = request_of(700, experiment_metadata={"name": "lines"})
    media = {"content-type": "application/x-ndjson", "accept": "application/x-ndjson"}
    answer = client.post("/v1/evaluate", content=lines_of(request), headers=media)
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["execution_context"]["test_case"]["id"] for line in lines] == [f"c{at}" for at in range(700)]
    whole = client.get(answer.headers["content-location"]).json()
    assert whole["results"] == lines
    assert whole["experiment"] == {"name": "lines"}


def test_lines_with_checks_of_their_own_blank_lines_and_a_bom(client):
    case = json.dumps(
        {"test_case": {"id": "a", "input": 1, "checks": [CONTAINS]}, "output": {"value": "Paris"}}
    )
    body = f"\ufeff{{}}\r\n\r\n{case}\r\n  {case}".encode()
    answer = client.post("/v1/evaluate", content=body, headers={"content-type": "application/x-ndjson"})
    assert answer.json()["summary"]["completed_checks"] == 2


@pytest.mark.parametrize("lines", [False, True])
def test_gzip_in_and_out(client, lines):
    request = request_of(100)
    body = lines_of(request) if lines else json.dumps(request).encode()
    media = "application/x-ndjson" if lines else "application/json"
    half = len(body) // 2
    packed = gzip.compress(body[:half]) + gzip.compress(body[half:])  # two members, as `cat a.gz b.gz` makes
    answer = client.post(
        "/v1/evaluate", content=packed, headers={"content-type": media, "content-encoding": "gzip"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["summary"]["total_test_cases"] == 100
    plain = client.get(answer.headers["content-location"], headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == answer.json()
    refused = client.get(answer.headers["content-location"], headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers


@pytest.mark.parametrize(
    ("accept", "lines"),
    [
        ("application/x-ndjson", True),
        ("application/x-ndjson, */*;q=0.1", True),
        ("application/json;q=0.2, application/x-ndjson", True),
        ("application/json, application/x-ndjson;q=0.5", False),
        ("application/x-ndjson;q=0", False),
        ("*/*", False),
    ],
)
def test_accept_of_jsonl_returns_jsonl(client, accept, lines):
    answer = client.post("/v1/evaluate", json=request_of(1), headers={"accept": accept})
    assert answer.headers["content-type"] == ("application/x-ndjson" if lines else "application/json")


@pytest.mark.parametrize(
    ("accept", "packed"),
    [
        ("gzip", True),
        ("x-gzip", True),
        ("br, *", True),
        ("*;q=0, gzip", True),
        ("gzip;q=0, *", False),
        ("gzip; q=0.000", False),
        ("br", False),
        ("", False),
    ],
)
def test_accept_encoding_of_gzip_returns_gzip(client, accept, packed):
    id = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
    answer = client.get(f"/v1/evaluations/{id}", headers={"accept-encoding": accept})
    assert ("content-encoding" in answer.headers) == packed


# Operations


def test_an_evaluation_is_started_followed_and_read(client):
    answer = client.post("/v1/evaluations", json=request_of(6, [slow(0.1)]))
    operation = wire.decode(answer.content, type=EvaluationOperation)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/operations/{operation.operation_id}"
    assert operation.status in ("pending", "running")
    early = client.get(f"/v1/evaluations/{operation.operation_id}")
    assert (early.status_code, early.json()["error"]) == (409, "conflict")
    assert early.json()["details"]["status"] in ("pending", "running")
    done = wait_for_end(client, operation.operation_id)
    assert done["status"] == "completed"
    assert done["progress"]["completed_test_cases"] == 6
    assert client.get(f"/v1/evaluations/{operation.operation_id}").json()["status"] == "completed"


def test_a_cancelled_evaluation_is_a_result_with_skips(client):
    id = started(client, request_of(40, [slow(0.3)]))
    answer = client.post(f"/v1/evaluations/{id}:cancel")
    assert (answer.status_code, answer.json()) == (200, {"cancelled": True})
    assert client.post(f"/v1/evaluations/{id}:cancel", json={}).json() == {"cancelled": True}
    assert client.get(f"/v1/operations/{id}").json()["status"] == "cancelled"
    result = client.get(f"/v1/evaluations/{id}").json()
    assert result["status"] == "skip"
    assert result["summary"]["skipped_test_cases"] > 0
    assert len(result["results"]) == 40
    assert client.get(f"/v1/evaluations/{id}").json() == result


def own(many, seconds=0.3):
    request = request_of(many, [slow(seconds)])
    checks = request.pop("checks")
    return {**request, "test_cases": [case | {"checks": checks * 2} for case in request["test_cases"]]}


@pytest.mark.parametrize(
    ("request_", "lines", "checks"),
    [
        pytest.param(request_of(40, [slow(0.3)] * 2), False, 80, id="shared"),
        pytest.param(request_of(40, [[slow(0.3)] * (at % 3) for at in range(40)]), False, 39, id="each"),
        pytest.param(own(40), False, 80, id="own"),
        pytest.param(own(40), True, 80, id="own-lines"),
    ],
)
def test_the_summary_of_a_cancelled_evaluation_counts_every_check(client, request_, lines, checks):
    if lines:
        content = b"{}\n" + lines_of({**request_, "checks": []}).partition(b"\n")[2]
        started = client.post(
            "/v1/evaluations", content=content, headers={"content-type": "application/x-ndjson"}
        )
    else:
        started = client.post("/v1/evaluations", json=request_)
    id = started.json()["operation_id"]
    client.post(f"/v1/evaluations/{id}:cancel")
    result = client.get(f"/v1/evaluations/{id}").json()
    assert result["summary"]["total_checks"] == checks
    for count in ("total_checks", "completed_checks", "error_checks", "skipped_checks"):
        assert result["summary"][count] == sum(case["summary"][count] for case in result["results"])


def test_cancel_of_a_finished_evaluation_is_409(client):
    id = client.post("/v1/evaluate", json=request_of()).json()["evaluation_id"]
    answer = client.post(f"/v1/evaluations/{id}:cancel")
    assert (answer.status_code, answer.json()["error"]) == (409, "run_terminal")
    assert answer.json()["details"] == {"status": "completed"}


def test_operations_are_listed_by_filter_newest_first(host):
    with host.client(tenant="lister") as client:
        ids = [
            client.post(
                "/v1/evaluate", json=request_of(1, experiment_metadata={"name": f"e{at % 2}"})
            ).json()["evaluation_id"]
            for at in range(5)
        ]
        running = started(client, request_of(2, [slow(20)]))  # it is cancelled below

        def listed(**asked):
            answer = client.get("/v1/evaluations", params=asked)
            assert answer.status_code == 200, answer.text
            return [one["operation_id"] for one in answer.json()["operations"]], answer.json().get(
                "next_page_token"
            )

        assert listed()[0] == [running, *reversed(ids)]
        for one in client.get("/v1/evaluations", params={"status": "completed"}).json()["operations"]:
            assert one["created_at"] <= one["started_at"] <= one["completed_at"]
        assert listed(experiment="e1")[0] == [ids[3], ids[1]]
        waiting = listed(status="pending")[0]  # asked first: it may begin to run meanwhile
        assert {*waiting, *listed(status="running")[0]} == {running}
        middle = client.get(f"/v1/operations/{ids[2]}").json()["created_at"]
        assert listed(since=middle)[0] == [running, *reversed(ids[2:])]
        assert listed(until=middle)[0] == [ids[1], ids[0]]
        first, token = listed(page_size=2, status="completed")
        second, more = listed(page_size=2, status="completed", page_token=token)
        third, last = listed(page_size=2, status="completed", page_token=more)
        assert (first + second + third, last) == ([*reversed(ids)], None)
        client.post(f"/v1/evaluations/{running}:cancel")


def test_results_come_in_pages(client):
    id = client.post("/v1/evaluate", json=request_of(7)).json()["evaluation_id"]
    whole = client.get(f"/v1/evaluations/{id}").json()
    seen, url = [], f"/v1/evaluations/{id}?page_size=3"
    while url:
        page = client.get(url)
        assert page.json()["summary"] == whole["summary"]
        seen += page.json()["results"]
        token = page.json().get("metadata", {}).get("next_page_token")
        url = page.links["next"]["url"] if "next" in page.links else None
        assert (token is None) == (url is None)
    assert seen == whole["results"]
    lines = client.get(f"/v1/evaluations/{id}?page_size=3", headers={"accept": "application/x-ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == whole["results"][:3]
    assert "next" in lines.links


def test_a_finished_result_has_a_tag(client):
    id = client.post("/v1/evaluate", json=request_of(3)).json()["evaluation_id"]
    tag = client.get(f"/v1/evaluations/{id}").headers["etag"]
    same = client.get(f"/v1/evaluations/{id}", headers={"if-none-match": f'"x", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    other = client.get(f"/v1/evaluations/{id}?page_size=1", headers={"if-none-match": tag})
    assert other.status_code == 200


def test_head_is_get_without_the_body(client):
    id = client.post("/v1/evaluate", json=request_of(3)).json()["evaluation_id"]
    for path in ("/v1/health", f"/v1/evaluations/{id}", "/v1/checks"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path


# Events


def test_a_follower_has_every_event_once_and_in_order(client):
    id = started(client, request_of(8, [slow(0.05)]))
    events = events_of(client, id)
    results = [event.data["index"] for event in events if event.name == "result"]
    progress = [event.data for event in events if event.name == "progress"]
    assert sorted(results) == list(range(8))
    assert [one["completed_test_cases"] for one in progress] == [0, *range(1, 9), 8]
    assert progress[-1]["status"] == "completed"
    kept = client.get(f"/v1/evaluations/{id}").json()["results"]
    assert all(
        event.data["result"] == kept[event.data["index"]] for event in events if event.name == "result"
    )
    again = events_of(client, id)  # when all is over, the same
    assert again == events
    for at in range(len(events) - 1):
        assert events_of(client, id, after=events[at].id) == events[at + 1 :]
    over = client.get(f"/v1/evaluations/{id}/events", headers={"last-event-id": events[-1].id})
    assert (over.status_code, over.content) == (204, b"")


def test_followers_that_come_late_or_leave_early_miss_no_event(host, series):
    many = series(5, 12)
    with host.client() as client:
        id = started(client, request_of(30, [slow(0.1)]))
        seen: list[list] = [[] for _ in range(many)]

        def follow(which):
            with httpx.Client(base_url=host.url, headers=client.headers, timeout=PATIENCE) as own:
                time.sleep(which * 0.03)
                last = None
                while True:
                    got = events_of(own, id, after=last, most=3 + which)
                    seen[which] += got
                    if not got or got[-1].data.get("status") == "completed":
                        return
                    last = got[-1].id

        threads = [threading.Thread(target=follow, args=(which,)) for which in range(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        whole = events_of(client, id)
        assert all(one == whole for one in seen)


def test_many_follow_one_run_and_none_misses_or_repeats_anything(tmp_path, series):
    followers, many = series(20, 200), series(30, 500)

    async def follow(host, key, run):
        reader, writer = await asyncio.open_connection("127.0.0.1", host.port, limit=1 << 22)
        head = f"GET /v1/evaluations/{run}/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode())
        whole = await reader.read(-1)
        writer.close()
        return re.findall(rb"^id: (\S+)\r?$", whole, re.MULTILINE)

    async def all_of(*of):
        return await asyncio.gather(*(follow(*of) for _ in range(followers)))

    with Server(sqlite(tmp_path)) as host, host.client() as client:
        run = started(client, request_of(many, [slow(0.06)]))
        seen = asyncio.run(all_of(host, host.key(), run))
        results = [f"{at}.0".encode() for at in range(1, many + 1)]
        wanted = [b"0", *(id for at in range(1, many + 1) for id in (results[at - 1], str(at).encode()))]
        wanted.append(str(many + 1).encode())
        assert all(ids == wanted for ids in seen)


def test_a_large_run_is_followed_in_pieces(client):
    id = started(client, request_of(1300))
    events = events_of(client, id)
    assert sorted(event.data["index"] for event in events if event.name == "result") == list(range(1300))
    middle = next(at for at, event in enumerate(events) if event.id == "2.250")
    assert events_of(client, id, after="2.250") == events[middle + 1 :]


# Batches


def test_an_invalid_evaluation_of_a_batch_does_not_fail_the_others(client):
    evaluations = [
        request_of(2),
        {"test_cases": []},
        request_of(3, [slow(0.02)]),
        request_of(1, [{"type": "vibes", "arguments": {}}]),
    ]
    answer = client.post(
        "/v1/evaluate:batch", json={"evaluations": evaluations, "options": {"max_concurrent": 2}}
    )
    assert answer.status_code == 200, answer.text
    batch = wire.decode(answer.content, type=BatchEvaluationResponse)
    assert [one.summary.total_test_cases for one in batch.results] == [2, 3]
    assert [(one.error, one.details["index"]) for one in batch.errors] == [
        ("validation_error", 1),
        ("validation_error", 3),
    ]
    assert (
        batch.summary.total_evaluations,
        batch.summary.successful_evaluations,
        batch.summary.failed_evaluations,
    ) == (4, 2, 2)
    for result in batch.results:
        assert client.get(f"/v1/evaluations/{result.evaluation_id}").status_code == 200


def test_fail_fast_starts_nothing_after_a_failure(client):
    body = {
        "evaluations": [{}, request_of(1), request_of(1)],
        "options": {"max_concurrent": 1, "fail_fast": True},
    }
    batch = client.post("/v1/evaluate:batch", json=body).json()
    assert batch["results"] == []
    assert [one["details"].get("reason") for one in batch["errors"]] == [None, "fail_fast", "fail_fast"]


def test_a_batch_ends_at_its_timeout(client):
    body = {
        "evaluations": [request_of(1), request_of(60, [slow(600)]), request_of(1, [slow(600)])],
        "options": {"timeout_ms": 3_000},
    }
    batch = client.post("/v1/evaluate:batch", json=body).json()
    assert len(batch["results"]) == 1
    assert [(one["error"], one["details"]["index"]) for one in batch["errors"]] == [
        ("run_timeout", 1),
        ("run_timeout", 2),
    ]
    late = batch["errors"][0]["details"]["evaluation_id"]
    assert client.get(f"/v1/operations/{late}").json()["status"] == "cancelled"


# Idempotency


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/v1/evaluate", request_of(2), request_of(3)),
        ("/v1/evaluate", request_of(2, [slow(0.01)]), request_of(3)),
        ("/v1/evaluations", request_of(2), request_of(3)),
        (
            "/v1/evaluate:batch",
            {"evaluations": [request_of(1), {}, request_of(2, [SLOW])]},
            {"evaluations": []},
        ),
    ],
)
def test_the_same_idempotency_key_returns_the_same_run(client, path, body, other, request):
    key = {"Idempotency-Key": request.node.name}
    first = client.post(path, json=body, headers=key)
    turned = json.dumps(dict(reversed(list(body.items()))), indent=2)  # the same, written another way
    again = client.post(path, content=turned, headers={**key, "content-type": "application/json"})
    assert again.status_code == first.status_code in (200, 202)
    assert "openwop-idempotent-replay" not in first.headers
    assert again.headers["openwop-idempotent-replay"] == "true"
    if path != "/v1/evaluations":
        assert again.json() == first.json()
    else:
        assert again.json()["operation_id"] == first.json()["operation_id"]
    mismatch = client.post(path, json=other, headers=key)
    assert (mismatch.status_code, mismatch.json()["error"]) == (409, "idempotency_key_mismatch")
    assert "evaluation_id" not in mismatch.text
    free = client.post(path, json=other, headers={"Idempotency-Key": request.node.name + " another"})
    assert free.status_code == first.status_code


def test_jsonl_requests_have_idempotency_keys(client):
    headers = {"Idempotency-Key": "of lines", "content-type": "application/x-ndjson"}
    first, again = (
        client.post("/v1/evaluate", content=lines_of(request_of(5)), headers=headers) for _ in range(2)
    )
    assert first.json() == again.json()
    assert again.headers["openwop-idempotent-replay"] == "true"
    assert client.post("/v1/evaluate", content=lines_of(request_of(6)), headers=headers).status_code == 409


def test_an_idempotency_key_belongs_to_its_tenant_and_operation(host):
    key = {"Idempotency-Key": "shared"}
    with host.client(tenant="one") as one, host.client(tenant="two") as two:
        ids = {
            one.post("/v1/evaluate", json=request_of(1), headers=key).json()["evaluation_id"],
            two.post("/v1/evaluate", json=request_of(2), headers=key).json()["evaluation_id"],
            one.post("/v1/evaluations", json=request_of(3), headers=key).json()["operation_id"],
        }
    assert len(ids) == 3


@pytest.mark.parametrize("body", [request_of(2), request_of(3, [slow(0.2)])])
def test_ten_at_once_with_one_key_are_one_run(host, body):
    async def ask():
        async with httpx.AsyncClient(
            base_url=host.url, headers={"X-API-Key": key}, timeout=PATIENCE
        ) as client:
            once = {"Idempotency-Key": f"ten {len(body['checks'])} {body['checks'][0]['type']}"}
            return await asyncio.gather(
                *(client.post("/v1/evaluate", json=body, headers=once) for _ in range(10))
            )

    key = host.key()
    answers = asyncio.run(ask())
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["evaluation_id"] for answer in answers}) == 1
    assert sum("openwop-idempotent-replay" in answer.headers for answer in answers) == 9


def test_a_refused_request_does_not_use_its_idempotency_key(client):
    key = {"Idempotency-Key": "first wrong"}
    assert client.post("/v1/evaluate", json={}, headers=key).status_code == 400
    assert client.post("/v1/evaluate", json=request_of(1), headers=key).status_code == 200


def test_a_repeated_cancel_returns_the_first_response(client):
    id = started(client, request_of(9, [slow(1)]))
    key = {"Idempotency-Key": "stop it"}
    first = client.post(f"/v1/evaluations/{id}:cancel", headers=key)
    again = client.post(f"/v1/evaluations/{id}:cancel", headers=key)
    assert first.json() == again.json() == {"cancelled": True}
    assert again.headers["openwop-idempotent-replay"] == "true"
    other = started(client, request_of(1, [slow(0.01)]))
    assert client.post(f"/v1/evaluations/{other}:cancel", headers=key).status_code == 409


# The rest


def test_the_catalogue_has_schemas(client):
    checks = {one["type"]: one for one in client.get("/v1/checks").json()["checks"]}
    assert {"exact_match", "contains", "regex", "threshold", "slow"} <= checks.keys()
    contains = checks["contains"]
    assert contains["results"]["required"] == ["passed"]
    assert contains["arguments"]["required"] == ["text", "phrases"]
    assert {
        "type": "string",
        "pattern": r"^\$\.",
        "description": "A JSONPath into the context (RFC 9535).",
    } in (contains["arguments"]["properties"]["phrases"]["anyOf"])


def test_health_needs_no_key_and_names_the_protocol(host):
    with host.client(key="") as client:
        assert client.get("/v1/health").json() == {
            "status": "healthy",
            "version": "0.0.1",
            "assay_version": assay.__version__,
        }
        assert client.get("/v1/ready").json() == {"status": "ready"}
        assert client.get("/v1/live").json() == {"status": "alive"}


def test_every_response_has_a_request_id(client):
    assert client.get("/v1/health").headers["x-request-id"].startswith("req_")
    assert client.get("/v1/nowhere", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert (
        client.get("/v1/health", headers={"x-request-id": "<script>"})
        .headers["x-request-id"]
        .startswith("req_")
    )


def test_a_stopping_server_ends_its_streams_and_resumes_its_runs_later(tmp_path):
    with Server(sqlite(tmp_path)) as host, host.client() as client, host.client() as other:
        id = started(client, request_of(3, [slow(4)]))
        answers: list = []
        threads = [
            threading.Thread(target=lambda: answers.append(events_of(client, id))),
            threading.Thread(
                target=lambda: answers.append(other.post("/v1/evaluate", json=request_of(2, [slow(4)])))
            ),
        ]
        for thread in threads:
            thread.start()
        load = host.app.state.server.admission
        wait_until(lambda: load.streams == 1)
        wait_until(lambda: len(client.get("/v1/evaluations").json()["operations"]) == 2)
        host.server.should_exit = True
        for thread in threads:
            thread.join(PATIENCE)
    (refused,) = [answer for answer in answers if isinstance(answer, httpx.Response)]
    assert (refused.status_code, refused.json()["error"], len(answers)) == (503, "unavailable", 2)
    with Server(sqlite(tmp_path)) as host, host.client() as client:
        assert wait_for_end(client, id)["status"] == "completed"
        assert len(client.get("/v1/evaluations").json()["operations"]) == 2


def test_a_database_error_is_503_without_its_message(tmp_path):
    with Server(sqlite(tmp_path)) as host, host.client() as client:

        async def away(*_, **__):
            raise EnvironmentFailure("the password of the database is hunter2")

        client.get("/v1/checks")  # so that the key is known
        commit, host.service.store.commit = host.service.store.commit, away
        answer = client.post("/v1/evaluate", json=request_of())
        host.service.store.commit = commit
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
        assert "hunter2" not in answer.text
        assert client.post("/v1/evaluate", json=request_of()).status_code == 200
