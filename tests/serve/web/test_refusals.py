"""Refusals of requests with thousands of problems: few are made on the event loop, and their number is bounded."""

import threading

import msgspec
import pytest

from assay.concurrency import loop_budget
from assay.conform.grpc.messages import message_of
from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from support.servers.grpc_client import RestAndGrpcServer, connect, refusal_of
from support.servers.rest_client import sqlite

MANY = 3_000
CASE, OUTPUT, CHECKS = (
    {"id": "a", "input": 1},
    {"value": 1},
    [{"type": "exists", "arguments": {"path": "$.output.value"}}],
)
NO_CHECK = {"type": "none", "arguments": {}}
SUITE = {"suiteId": "local.mine.evals.bad", "version": "1.0.0", "modes": ["golden"]}


def request_of(cases=CASE, outputs=OUTPUT, checks=CHECKS, **more):
    return {"test_cases": [cases] * MANY, "outputs": [outputs] * MANY, "checks": checks, **more}


def lines_of(*values):
    return b"\n".join(map(msgspec.json.encode, values))


BODIES = {
    "cases": ("/v1/evaluate", request_of(cases=0)),
    "outputs": ("/v1/evaluate", request_of(outputs=0)),
    "cases without outputs": ("/v1/evaluate", {"test_cases": [0] * MANY, "outputs": [], "checks": CHECKS}),
    "outputs without cases": ("/v1/evaluate", {"test_cases": [], "outputs": [0] * MANY, "checks": CHECKS}),
    "members": ("/v1/evaluate", {f"m{at}": 0 for at in range(MANY)}),
    "ids": (
        "/v1/evaluate",
        {**request_of(), "test_cases": [{"id": "a", "input": at} for at in range(MANY)]},
    ),
    "checks": ("/v1/evaluate", request_of(checks=[0] * 900 + [NO_CHECK])),
    "lists of checks": ("/v1/evaluate", request_of(checks=[[NO_CHECK]] * MANY)),
    "own checks": ("/v1/evaluate", request_of(cases={**CASE, "checks": [NO_CHECK]})),
    "own checks of a refused case": ("/v1/evaluate", request_of(cases={"checks": [NO_CHECK, 0]})),
    "a batch": ("/v1/evaluate:batch", {"evaluations": 0, **{f"m{at}": 0 for at in range(MANY)}}),
    "the head of lines": ("/v1/evaluations", lines_of({"checks": [0] * 900 + [NO_CHECK]})),
    "a line": ("/v1/evaluations", lines_of({"checks": CHECKS}, {f"m{at}": 0 for at in range(MANY)})),
    "a suite": ("/v1/host/assay/suites", {**SUITE, "tasks": [0] * MANY}),
    "a run": ("/v1/runs", {"tags": [0] * MANY}),
    "a bulk cancel": ("/v1/runs:bulk-cancel", {"runIds": [0] * MANY}),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("refusals")), seeded=True) as server:
        yield server


@pytest.fixture
def made(server, monkeypatch):
    """The threads in which problems were made. Each look at the clock of the budget finds a second gone."""
    makers = []
    new = Problem.__new__

    def record(kind, *values, **named):
        makers.append(threading.get_ident())
        return new(kind, *values, **named)

    class Clock:
        now = 0.0

        @classmethod
        def perf_counter(cls):
            cls.now += 1.0
            return cls.now

    monkeypatch.setattr(Problem, "__new__", record)
    monkeypatch.setattr(loop_budget, "time", Clock)
    return makers


def check_bounds(server, made):
    here = made.count(server._thread.ident)
    assert here <= 10, f"{here} of {len(made)} problems were made on the event loop"
    assert MOST_PROBLEMS / 2 <= len(made) <= 5 * MOST_PROBLEMS


@pytest.mark.parametrize("name", BODIES)
def test_a_refusal_over_rest_is_made_in_a_thread_and_bounded(server, made, name):
    path, body = BODIES[name]
    media = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with server.client() as client:
        got = client.post(path, content=data, headers={"Content-Type": media})
    assert got.status_code == 400, got.text
    check_bounds(server, made)
    details = got.json()["details"]
    assert len(details["problems"]) + details.get("more", 0) <= MOST_PROBLEMS


@pytest.mark.parametrize("name", ["cases", "outputs without cases", "lists of checks"])
def test_a_refusal_over_grpc_is_made_in_a_thread_and_bounded(server, made, name):
    request = BODIES[name][1]
    if name == "cases":
        request = request_of(cases={"id": "", "input": 1})
    elif name == "outputs without cases":
        request = dict(request) | {"outputs": [{"id": "", "value": 1}] * MANY}
    with connect(server) as client:
        _, details = refusal_of(client.RunEvaluation, message_of(request))
    check_bounds(server, made)
    assert len(details["details"].get("problems", ())) + details["details"]["more"] <= MOST_PROBLEMS


def test_a_refusal_takes_the_first_problems_of_many_without_making_the_others():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield Problem("a", "b")

    refusal = InvalidRequest(endless())
    assert len(refusal.problems) == len(taken) == MOST_PROBLEMS
    assert refusal.lines[-1] == "and at least 900 more problems"
