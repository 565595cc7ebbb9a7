"""
A client for agent evals that uses only the standard library: `python over_openwop.py http://127.0.0.1:8321 KEY AGENT`.

It stores a suite, runs an agent on it, follows the run to its end, reads the scorecard and corrects a score.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def task(id: str, input: str, expected: str) -> dict[str, Any]:
    match = {"strategy": "exact", "value": expected}
    return {"taskId": id, "input": input, "expected": {"kind": "golden", "match": match}}


SUITE = {
    "suiteId": "local.example.evals.echo",
    "version": "1.0.0",
    "modes": ["golden"],
    "tasks": [task("same", "Paris", "Paris"), task("other", "Paris", "Rome")],
}


class Client:
    def __init__(self, address: str, key: str) -> None:
        self._address, self._key = address, key

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        fields = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", **headers}
        request = Request(self._address + path, data, fields, method=method)  # noqa: S310  # the caller's own address
        try:
            return urlopen(request, timeout=60)  # noqa: S310
        except HTTPError as refused:
            error = json.load(refused)
            sys.exit(f"{refused.code} {error['error']}: {error['message']}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with self.open(method, path, body) as answer:
            return json.load(answer)

    def events(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield the events until the run ends. Frames without an id, such as progress, are not in the log."""
        with self.open("GET", f"/v1/runs/{run}/events", Accept="text/event-stream") as answer:
            frame: dict[str, str] = {}
            for raw in answer:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name:
                    frame[name] = value
                    continue
                if "id" in frame:
                    yield json.loads(frame["data"])
                frame = {}


def main(address: str, key: str, agent: str) -> None:
    client = Client(address, key)
    client.ask("POST", "/v1/host/assay/suites", SUITE)
    start = {"mode": "eval", "evalSuiteRef": "local.example.evals.echo@1.0.0", "agentId": agent}
    run = client.ask("POST", "/v1/runs", start)["runId"]
    scored: dict[str, str] = {}
    for event in client.events(run):
        if event["type"] == "eval.scored":
            scored[event["payload"]["taskId"]] = event["eventId"]
    summary = client.ask("GET", f"/v1/runs/{run}/eval-summary")
    for result in summary["tasks"]:
        print(result["taskId"], result["score"])
    print("score", summary["aggregateScore"], "passed" if summary["passed"] else "not passed")

    signal = {"kind": "correction", "correction": json.dumps({"score": 1, "passed": True})}
    client.ask(
        "POST", f"/v1/runs/{run}/annotations", {"target": {"eventId": scored["other"]}, "signal": signal}
    )
    report = client.ask("GET", f"/v1/host/assay/runs/{run}/eval-report?limit=0")
    print("recorded", report["report"]["score"], "effective", report["effective"]["score"])


if __name__ == "__main__":
    main(*sys.argv[1:])
