"""A member that is twice in an object of a body is refused, in a body of any size, at every endpoint."""

import json

import pytest

from support.servers.rest_client import Server, sqlite

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
TWICE = "this member is there twice, so its value is not clear: keep one"
LONG = json.dumps("at 12:00 " * 20_000)  # 180 kB
GOOD = f'{{"id":"a","input":{LONG}}}'


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("duplicates"))) as host, host.client() as client:
        yield client


def body(case=GOOD, output='{"value":1}', rest=',"checks":[]', many=13):
    """A body of more than 2 MiB, with this last case and output."""
    cases, outputs = [GOOD] * (many - 1) + [case], ['{"value": 1}'] * (many - 1) + [output]
    return f'{{"test_cases":[{",".join(cases)}],"outputs":[{",".join(outputs)}]{rest}}}'


@pytest.mark.parametrize("many", [2, 13])
@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ({"case": '{"id":"b","input":1,"input":2}'}, "test_cases[%d].input"),
        (
            {"case": '{"id":"b","input":"\\u003a","metadata":{"a":1,"\\u0061":2}}'},
            "test_cases[%d].metadata.a",
        ),
        ({"output": '{"value":[{"b":1,"b":1}]}'}, "outputs[%d].value[0].b"),
        ({"rest": ',"checks":[{"type":"exists","type":"regex"}]'}, "checks[0].type"),
        ({"rest": ',"outputs":[]'}, "outputs"),
        ({"rest": ',"checks":[],"experiment_metadata":{"name":"a","name":"b"}'}, "experiment_metadata.name"),
    ],
)
def test_a_member_twice_in_a_body_is_refused(client, many, parts, place):
    content = body(**parts, many=many)
    assert (len(content) > 2 * 1024 * 1024) is (many == 13)
    answer = client.post("/v1/evaluate", content=content, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["message"] == f"{place.replace('%d', str(many - 1))}: {TWICE}"


def test_a_large_body_without_a_member_twice_is_evaluated(client):
    case = '{"id": "b", "input": "\\u003a", "metadata": {"at": "12:00", "\\u003a": {"a": 1}}}'
    answer = client.post("/v1/evaluate", content=body(case), headers=JSON)
    assert answer.status_code == 200, answer.text[:500]


def test_a_member_twice_behind_two_megabytes_of_lines_is_refused(client):
    good = f'{{"test_case":{GOOD},"output":{{"value":1}}}}\n'
    twice = '{"test_case":{"id":"a","input":1},"output":{"value":1,"value":2}}'
    answer = client.post("/v1/evaluate", content='{"checks":[]}\n' + good * 12 + twice, headers=LINES)
    assert answer.status_code == 400
    assert answer.json()["message"] == f"line 14: output.value: {TWICE}"


@pytest.mark.parametrize(
    ("path", "content", "place"),
    [
        ("/v1/evaluate:batch", '{"evaluations":[],"evaluations":[]}', "evaluations"),
        ("/v1/evaluate:batch", '{"evaluations":[],"options":{"timeout_ms":1,"timeout_ms":2}}', "options.timeout_ms"),
        ("/v1/runs", '{"workflowId":"a","inputs":{"b":[{"c":1,"c":2}]}}', "inputs.b[0].c"),
    ],
)  # fmt: skip
def test_every_endpoint_refuses_a_member_twice(client, path, content, place):
    answer = client.post(path, content=content, headers=JSON)
    assert answer.status_code == 400
    assert f"{place}: {TWICE}" in answer.text
