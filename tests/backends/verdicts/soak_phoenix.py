"""Phoenix from the registry, in an environment of its own: a trace goes in, and the verdicts about it come back."""

import json
import urllib.request

import pytest

from support.agents.frameworks.environments import NotMade
from support.traces.conversations import Conversation, genai
from support.traces.otlp import request_of, to_protobuf
from support.traces.phoenix import get, phoenix_server
from support.waiting import wait_until

CHECKS = [{"name": "polite", "contains": "please"}, {"contains": "answer"}]


@pytest.fixture
def phoenix(tmp_path):
    """The address of a Phoenix that has just started."""
    try:
        with phoenix_server(tmp_path) as url:
            yield url
    except NotMade as reason:
        pytest.skip(f"Phoenix cannot be installed: {reason}")


def annotations(url):
    body = get(f"{url}/v1/projects/default/span_annotations?span_ids={'10' * 8}")
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
    wait_until(lambda: (get(f"{phoenix}/v1/projects/default/spans") or b"").find(b"10" * 8) >= 0)
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
