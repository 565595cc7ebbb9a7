"""The receiver of OTLP: what is acknowledged is scored once, in the window of its project; the rest is refused clearly."""

import pytest

from support.servers.rest_client import Server
from support.traces.received import CHECKS, agent_trace, wait_for

PROTOBUF = "application/x-protobuf"
FAST = {"checks": CHECKS, "settle": "0s", "quiet": "1s"}


@pytest.fixture(scope="module")
def host(database):
    projects = {
        "support": FAST,
        "sampled": FAST | {"sample": 0.5},
        "gold": FAST | {"filter": {"customer": ["gold", "silver"]}},
        "talks": FAST | {"case": "conversation"},
        "other": FAST | {"tenants": ["globex"]},
    }
    with Server(database, traces=projects) as server:
        yield server


def send(client, document, project="support", path="/v1/traces", **headers):
    return client.post(path, json=document, headers={"x-assay-project": project, **headers})


def test_a_trace_is_scored_when_its_root_has_come(host):
    with host.client(tenant="once") as client:
        answer = send(client, agent_trace())
        assert (answer.status_code, answer.json()) == (200, {})
        (window,) = wait_for(host, tenant="once", scored=1)
        assert (window.counts.seen, window.counts.sampled, window.not_measured) == (1, 1, 0)
        assert window.run.metadata["tags"] == [f"name=support {window.plan.start:%Y-%m-%d}"]
