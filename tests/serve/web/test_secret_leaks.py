"""Secrets are nowhere but where they were sent (FEP 6.4): planted everywhere a client can put one, and looked for everywhere else."""

import contextlib
import io
import json
import logging
import secrets

import grpc
import pytest

import assay
from assay.checks.checker import Checker, Text
from assay.serve.web import logging as logs
from support.servers.grpc_client import RestAndGrpcServer, connect
from support.servers.rest_client import CONTAINS, request_of
from support.servers.token_issuer import Issuer
from support.stores.database_dump import dump_of


class Remote(Checker):
    """A check of the operator's own, with a configuration."""

    type = "remote"
    text: Text
    config: assay.Opaque

    def run(self, services):
        return {"passed": True}


class Leaky(Checker):
    """A check whose client says too much when it fails."""

    type = "leaky"
    waits = False
    text: Text

    def run(self, services):
        raise RuntimeError(f"401 for Authorization: Bearer {LEAKED} at https://me:{LEAKED}@judge.example/")


def canary(prefix=""):
    return prefix + secrets.token_hex(24)


LEAKED = canary("sk-")
CONTENT = "words-of-a-task"


class SecretRecorder:
    """Every secret that was sent, by where; and everything that came back."""

    def __init__(self):
        self.secrets: dict[str, str] = {"a check's own failure": LEAKED}
        self.answers: list[str] = []

    def plant(self, where, secret):
        return self.secrets.setdefault(where, secret)

    def record(self, answer):
        self.answers.append(f"{answer.status_code} {answer.headers} {answer.text}")
        return answer


CONFIGS = {
    "an api key": lambda secret: {"api_key": secret},
    "a header": lambda secret: {"headers": {"Authorization": f"Bearer {secret}"}},
    "a header in a list": lambda secret: {"more": [{"x-auth-token": secret}]},
    "an address": lambda secret: {"base_url": f"https://me:{secret}@judge.example/v1"},
    "a query": lambda secret: {"base_url": f"https://judge.example/v1?sig={secret}"},
    "a password": lambda secret: {"password": secret},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A host to which all of it was sent, over both transports: its responses, log and folder."""
    folder, recorder = tmp_path_factory.mktemp("canary"), SecretRecorder()
    lines, loggers_heard = io.StringIO(), LoggerNames()
    keep = logs.handler("json", lines)
    logging.getLogger().addHandler(keep)
    logging.getLogger().addHandler(loggers_heard)
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    try:
        with (
            Issuer() as issuer,
            RestAndGrpcServer(
                f"sqlite:///{folder}/runs.db", jwt=issuer.trust(), checks=[Remote, Leaky], seeded=True
            ) as host,
            host.client("") as client,
        ):
            send(host, issuer, recorder, client)
            call(host, recorder)
            flow(recorder, client)
    finally:
        logging.getLogger().removeHandler(keep)
        logging.getLogger().removeHandler(loggers_heard)
        logging.getLogger().setLevel(before)
    (folder / "assay.toml").write_text(f'database_url = "sqlite:///{folder}/runs.db"\n')
    return folder, recorder, lines.getvalue(), loggers_heard.names


class LoggerNames(logging.Handler):
    """The loggers that spoke, whatever is written of it."""

    def __init__(self):
        super().__init__()
        self.names: set[str] = set()

    def emit(self, record):
        self.names.add(record.name)


def flow(recorder, client):
    """A workflow that is given secrets, and shown in every way there is."""
    headers = {"x-api-key": recorder.secrets["a key"]}
    payload = {
        "text": f"see {recorder.plant('a text of an input', canary('sk-'))} {CONTENT}",
        "password": recorder.plant("a member of an input", f"no id {canary()}"),
    }
    body = {"workflowId": "conformance-identity", "inputs": {"payload": payload}}
    run = recorder.record(client.post("/v1/runs", json=body, headers=headers)).json()["runId"]
    for mode in ("values", "debug"):
        stream = {**headers, "accept": "text/event-stream"}
        response = recorder.record(client.get(f"/v1/runs/{run}/events?streamMode={mode}", headers=stream))
        assert CONTENT in response.text
    for path in ("", "/events/poll"):
        response = recorder.record(client.get(f"/v1/runs/{run}{path}", headers=headers))
        assert CONTENT in response.text
        assert "[REDACTED:password]" in response.text


def send(host, issuer, recorder, client):
    good = recorder.plant("a key", host.key())
    headers = {"x-api-key": good}
    done = recorder.record(client.post("/v1/evaluate", json=request_of(2), headers=headers))
    assert done.status_code == 200
    gone = recorder.plant("a revoked key", host.key(revoked=True))
    wrong = recorder.plant("a wrong key", f"{good[:15]}{canary()[:43]}")
    token = recorder.plant("a token", issuer.token())
    forged = recorder.plant("a forged token", issuer.token(number=1))
    for text in (gone, wrong, token, forged, recorder.plant("a key that is none", canary("sk-"))):
        recorder.record(client.get("/v1/evaluations", headers={"authorization": f"Bearer {text}"}))
        recorder.record(client.get(f"/v1/evaluations/{text}", headers=headers))
        recorder.record(client.get("/v1/evaluations", params={"page_token": text}, headers=headers))
        recorder.record(client.get("/v1/evaluations", params={text[:90]: "x"}, headers=headers))
        recorder.record(client.post("/v1/evaluate", json={text: 1}, headers=headers))
        recorder.record(
            client.post(
                "/v1/evaluate", json=request_of(1, [{"type": text, "arguments": {}}]), headers=headers
            )
        )
        recorder.record(client.get("/v1/evaluations", headers={"authorization": f"Basic {text}"}))
    for what, make in CONFIGS.items():
        for name, type in (
            ("config", "remote"),
            ("model_config", "llm_judge"),
            ("provider_config", "llm_judge"),
        ):
            secret = recorder.plant(f"{what} in {name}", canary("sk-"))
            arguments = (
                {"text": "$.output.value"}
                if type == "remote"
                else {"prompt": "?", "response_format": {"type": "object"}}
            )
            check = {"type": type, "arguments": {**arguments, name: make(secret)}}
            answers = [
                client.post("/v1/evaluate", json=request_of(2, [check]), headers=headers),
                client.post("/v1/evaluations", json=request_of(2, [check]), headers=headers),
                client.post("/v1/evaluate", json=request_of(2, [[check], [CONTAINS]]), headers=headers),
                client.post(
                    "/v1/evaluate:batch", json={"evaluations": [request_of(1, [check])]}, headers=headers
                ),
                client.post("/v1/evaluate", json=inside(check), headers=headers),
            ]
            for answer in map(recorder.record, answers):
                assert answer.status_code in (200, 400), answer.text
    leaky = client.post(
        "/v1/evaluate", json=request_of(1, [{"type": "leaky", "arguments": {"text": "a"}}]), headers=headers
    )
    recorder.record(leaky)
    assert leaky.json()["results"][0]["check_results"][0]["status"] == "error"


def inside(check):
    """A case that brings its checks itself."""
    return {"test_cases": [{"id": "own", "input": 1, "checks": [check]}], "outputs": [{"value": "Paris"}]}


def call(host, recorder):
    with connect(host, key=recorder.secrets["a key"]) as client:
        for secret in list(recorder.secrets.values()):
            with contextlib.suppress(grpc.RpcError):
                client.ListOperations(metadata=(("x-more", secret),))
            try:
                client.GetOperation(operation(secret))
            except grpc.RpcError as error:
                recorder.answers.append(f"{error.details()} {error.trailing_metadata()}")


def operation(id):
    from assay.serve.grpc import fep_pb2

    return fep_pb2.GetOperationRequest(operation_id=id)


def secrets_in(recorder, text):
    return [where for where, secret in recorder.secrets.items() if secret in text]


def test_no_secret_is_in_the_database(recorded):
    folder, recorder, *_ = recorded
    kept = dump_of(f"sqlite:///{folder}/runs.db").decode("latin-1")
    assert "evaluation.completed" in kept
    assert not secrets_in(recorder, kept)


def test_no_secret_and_no_content_is_in_the_log_at_debug(recorded):
    _, recorder, lines, loggers = recorded
    assert lines
    assert not secrets_in(recorder, lines)
    assert CONTENT not in lines
    assert {"sse_starlette.sse", "httpcore.http11"} <= loggers  # they say all of it, and are not quoted


def test_no_secret_is_in_an_answer(recorded):
    _, recorder, *_ = recorded
    assert len(recorder.answers) > 100
    for answer in recorder.answers:
        assert not secrets_in(recorder, answer), answer


def test_no_secret_is_in_an_export(recorded, command):
    folder, recorder, *_ = recorded
    ids = json.loads(command("list", "--json", "--limit", "100", folder=folder).out)
    assert ids
    for one in ids:
        if "operation_id" not in one:
            continue  # a workflow's run
        done = command(
            "export", one["operation_id"], "-o", "-", "-o", "out.csv", "-o", "out.json", folder=folder
        )
        assert done.code == 0, done.err
        text = (
            done.out
            + done.err
            + "".join((folder / name).read_text("utf-8") for name in ("out.csv", "out.json"))
        )
        assert not secrets_in(recorder, text)


def test_a_secret_in_a_request_is_refused_with_its_place(recorded):
    _, recorder, *_ = recorded
    refused = [answer for answer in recorder.answers if "expected no secret" in answer]
    assert len(refused) >= len(CONFIGS) * 5
    assert any("checks[0].arguments.config" in answer for answer in refused)
