"""Phoenix from the registry, in an environment of its own: a trace goes in, and the verdicts about it come back."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from contextlib import closing

import pytest

from support.agents.frameworks.environments import NotMade, python_with
from support.traces.conversations import Conversation, genai
from support.traces.otlp import request_of, to_protobuf
from support.waiting import wait_until

START = 600  # seconds to its first answer, on a busy machine
CHECKS = [{"name": "polite", "contains": "please"}, {"contains": "answer"}]


@pytest.fixture
def phoenix(tmp_path):
    """The address of a Phoenix that has just started."""
    try:
        python = python_with("phoenix", ["arize-phoenix>=20"])
    except NotMade as reason:
        pytest.skip(f"Phoenix cannot be installed: {reason}")
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as one,
        closing(socket.create_server(("127.0.0.1", 0))) as other,
    ):
        port, grpc_port = one.getsockname()[1], other.getsockname()[1]
    settings = {
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "phoenix.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-m", "phoenix.server.main", "serve"],
            env=os.environ | settings,
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + START
            while _get(f"{url}/healthz") is None:
                assert process.poll() is None, "Phoenix ended"
                assert time.monotonic() < until, f"Phoenix does not answer after {START} s"
                time.sleep(0.5)
            yield url
        finally:
            process.kill()
            process.wait()


def _get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()
    except OSError:
        return None


def annotations(url):
    body = _get(f"{url}/v1/projects/default/span_annotations?span_ids={'10' * 8}")
    return json.loads(body)["data"] if body else []


def test_phoenix_shows_the_verdicts_and_a_repeat_adds_none(phoenix, command, tmp_path):
    spans = genai(Conversation(question="what?", answer="an answer"))
    document = request_of(*spans)
    (tmp_path / "trace.json").write_text(json.dumps(document))
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    sent = urllib.request.Request(
        f"{phoenix}/v1/traces", to_protobuf(document), {"Content-Type": "application/x-protobuf"}
    )
    urllib.request.urlopen(sent, timeout=60).close()
    wait_until(lambda: (_get(f"{phoenix}/v1/projects/default/spans") or b"").find(b"10" * 8) >= 0)
    for _ in range(2):
        done = command(
            *("evaluate", "--traces", "trace.json", "--checks", "checks.json", "--to", f"phoenix={phoenix}"),
            folder=tmp_path,
        )
        assert (done.code, done.err) == (0, ""), done.err
    found = annotations(phoenix)
    assert {(one["name"], one["result"]["label"], one["result"]["score"]) for one in found} == {
        ("polite", "fail", 0.0),
        ("contains", "pass", 1.0),
    }
    assert len(found) == 2
