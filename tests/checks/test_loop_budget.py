"""Checks that take long to read: an event loop reads few of them, and a thread reads all."""

import asyncio
import threading
import time

import pytest

from assay.checks import STANDARD
from assay.checks.checker import Checker, Text, verdict
from assay.concurrency.loop_budget import LONG_PATTERN, OverBudget, with_budget
from assay.concurrency.threads import in_place
from assay.concurrency.workers import batch
from assay.errors import InvalidRequest
from assay.fep.planning.request import plan_of
from assay.ports import Services
from support.servers.rest_client import Server, lines_of, request_of, sqlite


def regexes(*patterns):
    return [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": one}} for one in patterns]


def planned(checks):
    try:
        return plan_of(checks, STANDARD, Services()).versions
    except InvalidRequest as refusal:
        return refusal.problems


@pytest.mark.parametrize(
    ("checks", "seconds"),
    [(regexes("a"), -1), (regexes("a", "("), -1), (regexes("a" * (LONG_PATTERN + 1)), 60)],
    ids=["one", "one that is wrong", "a long pattern"],
)
def test_a_thread_past_the_deadline_gives_the_same_answer(checks, seconds):
    with pytest.raises(OverBudget):
        with_budget(seconds, lambda: planned(checks))
    threads = []

    def work():
        threads.append(threading.current_thread())
        return planned(checks)

    with batch.owner_scope(str(checks)):
        assert asyncio.run(in_place(work, seconds=seconds)) == planned(checks)
    assert [one is threading.main_thread() for one in threads] == [True, False]


def test_without_a_deadline_nothing_is_over():
    assert planned(regexes("a" * (LONG_PATTERN + 1))) == ["regex@1.0.0"]
    assert with_budget(60, lambda: planned(regexes("a"))) == ["regex@1.0.0"]


READERS: list[int] = []


class Dear(Checker):
    """A check that takes 5 ms to read."""

    type = "dear"
    text: Text
    word: str

    @classmethod
    def validate_literals(cls, literals):
        READERS.append(threading.get_ident())
        time.sleep(0.005)

    def run(self, services):
        return verdict(self.word in self.text)


def dear(*words):
    """Twelve of them, which no cache has."""
    return [
        {"type": "dear", "arguments": {"text": "$.output.value", "word": f"{words} {at}"}} for at in range(12)
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("dear")), checks=[Dear]) as server, server.client() as client:
        yield server, client


def own(checks):
    request = request_of(2, [])
    del request["checks"]
    return {**request, "test_cases": [{**one, "checks": checks} for one in request["test_cases"]]}


@pytest.mark.parametrize("path", ["/v1/evaluate", "/v1/evaluations"])
@pytest.mark.parametrize("form", ["shared", "own", "large", "batch", "lines", "own lines"])
def test_the_event_loop_of_a_server_reads_few_of_them(server, path, form):
    host, client = server
    READERS.clear()
    checks = dear(path, form)
    request = own(checks) if form.startswith("own") else request_of(2, checks)
    if form == "large":
        request["outputs"][0]["value"] = "x" * 300_000
    if form.endswith("lines"):
        response = client.post(
            path, content=lines_of(request), headers={"content-type": "application/x-ndjson"}
        )
    elif form == "batch":
        response = client.post("/v1/evaluate:batch", json={"evaluations": [request]})
    else:
        response = client.post(path, json=request)
    assert response.status_code in (200, 202), response.text
    if response.status_code == 202:
        client.get(f"/v1/evaluations/{response.json()['operation_id']}/events")
    assert len(READERS) >= len(checks)
    on_the_loop = READERS.count(host._thread.ident)
    assert on_the_loop <= 6, (
        on_the_loop,
        len(READERS),
    )  # 10 ms, perhaps twice: for the request and for its run
