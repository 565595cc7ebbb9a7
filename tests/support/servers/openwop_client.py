"""What tests of the run surface share: a suite that is stored, a run that is started and followed, its frames."""

import json
from typing import Any, NamedTuple

from support.evals import AGENT, golden, suite_of

SUITE = suite_of(golden("a", "Paris", "Paris"), golden("b", "Rome", "Paris"))
REF = f"{SUITE['suiteId']}@{SUITE['version']}"


def suite(*tasks, name="one", version="1.0.0", modes=("golden",), **more):
    """With an id of its own, so that tests share a server."""
    return suite_of(*tasks, modes=modes, **more) | {
        "suiteId": f"local.tests.evals.{name}",
        "version": version,
    }


def store_suite(client, document):
    response = client.post("/v1/host/assay/suites", json=document)
    assert response.status_code in (200, 201), response.text
    return f"{document['suiteId']}@{document['version']}"


def run_request(ref, agent=AGENT, **configurable):
    body = {"mode": "eval", "evalSuiteRef": ref, "agentId": agent}
    return body | ({"configurable": configurable} if configurable else {})


def start_run(client, document, agent=AGENT, **configurable):
    """A run of that suite, by its id."""
    response = client.post("/v1/runs", json=run_request(store_suite(client, document), agent, **configurable))
    assert response.status_code == 201, response.text
    return response.json()["runId"]


def log_of(client, run):
    """Every event, once the run has ended."""
    events: list[dict[str, Any]] = []
    while True:
        after = events[-1]["sequence"] if events else -1
        page = client.get(f"/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20").json()
        events += page["events"]
        if page["isComplete"]:
            return events


def wait_for_run(client, run):
    """The run, once it has ended."""
    log_of(client, run)
    return client.get(f"/v1/runs/{run}").json()


def finish_run(client, document, agent=AGENT, **configurable):
    """A run of that suite that has ended, by its id."""
    run = start_run(client, document, agent, **configurable)
    log_of(client, run)
    return run


def types_of(events):
    return [event["type"] for event in events]


class Frame(NamedTuple):
    id: str | None
    name: str
    data: Any


def frames_of(lines, most=None, comments=False):
    """Server-sent events, from the lines of an answer; signs of life come whenever a machine is slow."""
    held: dict[str, str] = {}
    many = 0
    for line in lines:
        if line.startswith(":"):
            if comments:
                yield Frame(None, "comment", line)
        elif line:
            name, _, value = line.partition(": ")
            held[name] = value
        elif held:
            yield Frame(held.get("id"), held["event"], json.loads(held["data"]))
            held, many = {}, many + 1
            if many == most:
                return


def stream_events(client, run, after=None, most=None, comments=False, **query):
    """The frames of a run, to its end."""
    headers = {"accept": "text/event-stream"} | ({} if after is None else {"last-event-id": str(after)})
    with client.stream("GET", f"/v1/runs/{run}/events", params=query, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["connection"] == "close"
        return list(frames_of(response.iter_lines(), most, comments))
