"""Verdicts over OTLP/HTTP and over the REST of Phoenix: what receivers read, faults, and the variables of each."""

import asyncio
import json
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import trustme
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from assay.backends.verdicts import receiver_of, requests
from assay.errors import EnvironmentFailure, UsageError
from assay.ports.verdicts import Verdict
from support.traces.receivers import Answer, Phoenix, Receiver

SPAN = "b7" * 8


def verdict(at=0, **members):
    usual = {"name": "polite", "score": 0.5, "label": "fail", "time": 1_780_000_000_000_000_000 + at}
    ids = {"uid": f"uid-{at}", "run": "run-1", "trace_id": "aa" * 16, "span_id": SPAN}
    return Verdict(**ids | usual | members)


@pytest.fixture
def receiver():
    with Receiver() as found:
        yield found


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(requests, "WAIT", 0.001)


def send(spec, *verdicts, **environment):
    return asyncio.run(receiver_of(spec, environment).send(verdicts))


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"},
        {"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
    ids=repr,
)
def test_an_otlp_receiver_reads_the_events_back(receiver, variables):
    measured = verdict(response_id="resp-1", explanation="no greeting")
    unmeasured = verdict(1, label=None, score=None, error_type="timeout_error")
    assert send(f"otlp={receiver.url}", measured, unmeasured, **variables) is None
    common = {"event": "gen_ai.evaluation.result", "trace": "aa" * 16, "span": SPAN, "scope": "assay"}
    common |= {"service": "assay", "gen_ai.evaluation.name": "polite", "assay.run.id": "run-1"}
    assert receiver.events == [
        {
            **common,
            "time": 1_780_000_000_000_000_000,
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "fail",
            "gen_ai.evaluation.explanation": "no greeting",
            "gen_ai.response.id": "resp-1",
            "log.record.uid": "uid-0",
        },
        {
            **common,
            "time": 1_780_000_000_000_000_001,
            "error.type": "timeout_error",
            "log.record.uid": "uid-1",
        },
    ]
    ((_, headers, _),) = receiver.requests
    assert headers.get("Content-Encoding") == (
        None if variables.get("OTEL_EXPORTER_OTLP_COMPRESSION") else "gzip"
    )


@pytest.mark.parametrize(
    ("spec", "variables", "path"),
    [
        ("otlp={url}", {}, "/v1/logs"),
        ("otlp={url}/", {}, "/v1/logs"),
        ("otlp={url}/v1/logs", {}, "/v1/logs"),
        ("otlp={url}/api/otel", {}, "/api/otel/v1/logs"),
        ("otlp", {"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}/base/"}, "/base/v1/logs"),
        ("otlp", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "{url}/mine"}, "/mine"),
        ("otlp={url}", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://127.0.0.1:1/mine"}, "/v1/logs"),
    ],
)
def test_the_address_is_that_of_opentelemetry(receiver, spec, variables, path):
    receiver.script = [Answer(200, keeps=True)]
    receiver.receive = lambda *_: None
    variables = {name: text.format(url=receiver.url) for name, text in variables.items()}
    send(spec.format(url=receiver.url), verdict(), **variables)
    assert [one for one, _, _ in receiver.requests] == [path]


def test_headers_and_the_resource_are_those_of_the_variables(receiver):
    variables = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, other=1", "OTEL_SERVICE_NAME": "shop"}
    send(f"otlp={receiver.url}", verdict(), **variables)
    headers = {name.lower(): value for name, value in receiver.requests[0][1].items()}
    assert (headers["x-key"], headers["other"]) == ("a b", "1")
    assert receiver.events[0]["service"] == "shop"


SOON = format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)


@pytest.mark.parametrize(
    "faults",
    [
        [Answer(429, Retry_After="0")],
        [Answer(503, Retry_After=SOON), Answer(502), Answer(504)],
        [Answer(0)],
        [Answer(0), Answer(429, Retry_After="soon"), Answer(0), Answer(503)],
    ],
)
def test_what_may_be_accepted_later_is_sent_again(receiver, faults):
    receiver.script = list(faults)
    send(f"otlp={receiver.url}", verdict(), verdict(1))
    assert receiver.asked == len(faults) + 1
    assert [one["log.record.uid"] for one in receiver.events] == ["uid-0", "uid-1"]


def test_retry_after_is_waited_for(receiver, monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(requests.asyncio, "sleep", sleep)
    receiver.script = [Answer(429, Retry_After="7"), Answer(503, Retry_After="100000")]
    send(f"otlp={receiver.url}", verdict())
    assert waits == [7.0, requests.LONGEST]


@pytest.mark.parametrize(
    ("answers", "message", "asked"),
    [
        ([Answer(400, b"bad\n request")], "{url}/v1/logs answered 400 bad request", 1),
        ([Answer(401)], "{url}/v1/logs answered 401", 1),
        ([Answer(302, Location="http://127.0.0.1:1/")], "{url}/v1/logs answered 302", 1),
        ([Answer(500, b"x")], "{url}/v1/logs answered 500 x", 1),
        ([Answer(503, b"full") for _ in range(9)], "{url}/v1/logs answered 503 full, 6 times", 6),
        ([Answer(0) for _ in range(9)], "{url}/v1/logs closed the connection: *, 6 times", 6),
        (
            [Answer(200, b"<html>hello", Content_Type="text/html")],
            "{url}/v1/logs: expected the answer of an OTLP receiver, got '<html>hello'",
            1,
        ),
    ],
)
def test_what_is_not_acknowledged_is_a_failure(receiver, answers, message, asked):
    receiver.script = answers
    with pytest.raises(EnvironmentFailure) as failure:
        send(f"otlp={receiver.url}", verdict(), OTEL_EXPORTER_OTLP_HEADERS="authorization=sesame")
    start, _, end = message.format(url=receiver.url).partition("*")
    assert str(failure.value).startswith(start)
    assert str(failure.value).endswith(end)
    assert "sesame" not in str(failure.value)
    assert receiver.asked == asked


def test_an_address_without_a_receiver_is_a_failure():
    with Receiver() as gone:
        url = gone.url
    with pytest.raises(EnvironmentFailure, match=r"could not be reached: .*refused, 6 times"):
        send(f"otlp={url}", verdict())


@pytest.mark.parametrize("form", ["application/x-protobuf", "application/json"])
def test_verdicts_that_are_rejected_are_counted_and_not_sent_again(receiver, form):
    if form == "application/json":
        body = json.dumps({"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "too old"}}).encode()
    else:
        answer = ExportLogsServiceResponse()
        answer.partial_success.rejected_log_records = 1
        answer.partial_success.error_message = "too old"
        body = answer.SerializeToString()
    receiver.script = [Answer(200, body, keeps=True, Content_Type=form)]
    assert send(f"otlp={receiver.url}", verdict(), verdict(1)) == (1, "too old")
    assert receiver.asked == 1


def test_a_request_that_is_too_large_is_sent_in_halves(receiver):
    receiver.script = [Answer(413), Answer(413)]
    send(f"otlp={receiver.url}", *map(verdict, range(8)))
    assert [one["log.record.uid"] for one in receiver.events] == [f"uid-{at}" for at in range(8)]
    assert [len(body) > 0 for _, _, body in receiver.requests] == [True] * 3
    receiver.script = [Answer(413)]
    with pytest.raises(EnvironmentFailure, match="answered 413"):
        send(f"otlp={receiver.url}", verdict())


@pytest.mark.parametrize(
    ("spec", "variables", "message"),
    [
        ("vibes", {}, "--to 'vibes': expected one of otlp, otlp=URL, phoenix, phoenix=URL"),
        ("", {}, "--to '': expected one of otlp, otlp=URL, phoenix, phoenix=URL"),
        (
            "otlp=localhost:4318",
            {},
            "--to otlp: expected an address such as http://localhost:4318, got 'localhost:4318/v1/logs'",
        ),
        (
            "otlp=http://a:b@host",
            {},
            "--to otlp: expected an address without a password; a variable for headers may have it",
        ),
        (
            "otlp=http://host:door",
            {},
            "--to otlp: expected an address such as http://localhost:4318, got 'http://host:door/v1/logs'",
        ),
        (
            "otlp",
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "--to otlp: OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf or http/json, got 'grpc'",
        ),
        (
            "otlp",
            {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
            "--to otlp: OTEL_EXPORTER_OTLP_TIMEOUT: expected a number of seconds above 0, got 'soon'",
        ),
        (
            "otlp",
            {"OTEL_EXPORTER_OTLP_COMPRESSION": "zip"},
            "--to otlp: OTEL_EXPORTER_OTLP_COMPRESSION: expected gzip or none, got 'zip'",
        ),
        (
            "otlp",
            {"OTEL_EXPORTER_OTLP_HEADERS": "sesame"},
            "--to otlp: OTEL_EXPORTER_OTLP_HEADERS: expected name=value,…",
        ),
        (
            "otlp",
            {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/such/file"},
            "--to otlp: OTEL_EXPORTER_OTLP_CERTIFICATE: expected files of certificates, got [Errno 2] No such file or directory",
        ),
        (
            "phoenix=ftp://host",
            {},
            "--to phoenix: expected an address such as http://localhost:4318, got 'ftp://host/v1/span_annotations?sync=true'",
        ),
    ],
)
def test_a_receiver_that_is_not_possible_is_refused_before_anything_is_sent(spec, variables, message):
    with pytest.raises(UsageError) as refusal:
        receiver_of(spec, variables)
    assert str(refusal.value) == message


def test_phoenix_gets_annotations_and_a_repeat_takes_the_place_of_the_first():
    with Phoenix(SPAN) as phoenix:
        variables = {"PHOENIX_API_KEY": "key-1", "PHOENIX_CLIENT_HEADERS": "x-team=shop"}
        judged = verdict(by_model=True, name="tone", explanation="rude")
        unmeasured = verdict(1, label=None, score=None, error_type="timeout_error")
        for _ in range(2):
            assert send(f"phoenix={phoenix.url}/", judged, unmeasured, **variables) is None
        again = verdict(2, by_model=True, name="tone", label="pass", score=1.0)
        send("phoenix", again, PHOENIX_COLLECTOR_ENDPOINT=f"{phoenix.url}/v1/traces")
    about = {"span_id": SPAN, "identifier": "assay"}
    assert list(phoenix.annotations.values()) == [
        {
            **about,
            "name": "tone",
            "annotator_kind": "LLM",
            "result": {"label": "pass", "score": 1.0},
            "metadata": {"run": "run-1", "uid": "uid-2"},
        },
        {
            **about,
            "name": "polite",
            "annotator_kind": "CODE",
            "result": {"label": "not measured"},
            "metadata": {"run": "run-1", "uid": "uid-1", "error.type": "timeout_error"},
        },
    ]
    headers = {name.lower(): value for name, value in phoenix.requests[0][1].items()}
    assert (headers["authorization"], headers["x-team"]) == ("Bearer key-1", "shop")


def test_verdicts_about_spans_that_phoenix_lacks_are_counted_and_the_others_sent():
    with Phoenix(SPAN) as phoenix:
        lost = [verdict(at, span_id=f"{at:02x}" * 8) for at in (1, 2)]
        rejected = send(f"phoenix={phoenix.url}", lost[0], verdict(3), lost[1])
        assert rejected == (2, "Phoenix does not have their spans")
        assert [one["metadata"]["uid"] for one in phoenix.annotations.values()] == ["uid-3"]
        phoenix.script = [Answer(404, b"no such route")]
        with pytest.raises(EnvironmentFailure, match="answered 404 no such route"):
            send(f"phoenix={phoenix.url}", verdict())


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """The files of an authority, of a server at 127.0.0.1 and of a client."""
    folder, authority = tmp_path_factory.mktemp("papers"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("client@example.com")
    client.cert_chain_pems[0].write_to_path(folder / "client.pem")
    client.private_key_pem.write_to_path(folder / "client.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(context)
    return folder, context


@pytest.mark.parametrize("wants_client", [False, True])
def test_verdicts_go_over_tls_to_a_backend_of_an_own_authority(papers, wants_client):
    folder, context = papers
    if wants_client:
        context.load_verify_locations(folder / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED if wants_client else ssl.CERT_NONE
    trusted = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(folder / "authority.pem")}
    own = {
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": str(folder / "client.pem"),
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": str(folder / "client.key"),
    }
    with Receiver(context) as backend:
        assert backend.url.startswith("https://")
        assert send(f"otlp={backend.url}", verdict(), **trusted, **own) is None
        assert [one["log.record.uid"] for one in backend.events] == ["uid-0"]
        strangers = [{}, trusted] if wants_client else [{}]
        for variables in strangers:
            with pytest.raises(EnvironmentFailure) as failed:
                send(f"otlp={backend.url}", verdict(1), **variables)
            assert backend.url in str(failed.value)
        assert len(backend.events) == 1
