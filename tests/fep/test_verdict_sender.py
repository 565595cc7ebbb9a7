"""`[traces.NAME] to`: the verdicts of received traces go back to where the traces are, each once."""

import asyncio
import contextlib
import time
from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from assay.backends.verdicts import requests
from assay.backends.verdicts.from_settings import verdict_receivers
from assay.errors import UsageError
from assay.fep.records import send_verdicts
from assay.fep.trace_windows import verdict_sender
from assay.fep.trace_windows.registry import HOST
from assay.fep.trace_windows.verdict_sender import VerdictSender
from assay.host.host import open_runtime
from assay.ports import RunQuery, SystemClock
from assay.ports.config import TraceProjectConfig
from assay.settings import load
from support.servers.rest_client import Server
from support.traces.received import agent_trace, new_trace, wait_for, windows
from support.traces.receivers import Answer, Receiver
from support.waiting import wait_until

CHECKS = [
    {"contains": "degrees"},
    {"name": "short", "type": "threshold", "arguments": {"value": 3, "max_value": 2}},
]
PATIENT = verdict_sender.LEASE
FAST = {"checks": CHECKS, "settle": "0s", "quiet": "1s"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short pauses, also until another sender may go on; batches of few verdicts."""
    monkeypatch.setattr(requests, "WAIT", 0.001)
    monkeypatch.setattr(send_verdicts, "BATCH", 4)
    monkeypatch.setattr(verdict_sender, "TICK", 0.05)
    monkeypatch.setattr(verdict_sender, "SOON", 0.05)
    monkeypatch.setattr(verdict_sender, "LEASE", timedelta(seconds=1))


@pytest.fixture(scope="module")
def backends():
    with Receiver() as one, Receiver() as other:
        yield one, other


@pytest.fixture(scope="module")
def host(database, backends):
    one, other = (f"otlp={backend.url}" for backend in backends)
    projects = {
        "support": FAST | {"to": one},
        "shared": FAST | {"to": one},
        "ending": FAST | {"to": [one], "window": "1s"},
        "away": FAST | {"to": [one, other]},
        "explained": FAST | {"to": one, "headers": {"Authorization": "Basic ${BACKEND_KEY}"}},
        "quiet": FAST,
        "stopped": FAST | {"to": one},
    }
    with Server(database, traces=projects) as server:
        yield server


@contextlib.contextmanager
def sending(host, *, explanations=False, environment=None):
    """A sender on the loop of the server, as a host runs it."""
    configs = msgspec.convert(host.projects, dict[str, TraceProjectConfig])
    receivers = verdict_receivers(configs, {"BACKEND_KEY": "canary"} | (environment or {}))

    async def start():
        sender = VerdictSender(receivers, host.store, SystemClock(), explanations=explanations)
        return asyncio.create_task(sender.run())

    async def stop(task):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    task = host.do(start())
    try:
        yield
    finally:
        host.do(stop(task))


def post(host, project, count, answer="20 degrees"):
    """Send traces; return their ids."""
    traces = [new_trace() for _ in range(count)]
    with host.client() as client:
        for trace in traces:
            sent = client.post(
                "/v1/traces", json=agent_trace(trace, answer), headers={"x-assay-project": project}
            )
            assert sent.status_code == 200, sent.text
    return traces


def events_of(backend, traces):
    return [one for one in list(backend.events) if one["trace"] in traces]


def arrived(backend, traces):
    """Wait until each check of each trace has a verdict there, and return them."""
    wait_until(lambda: len({one["log.record.uid"] for one in events_of(backend, traces)}) == 2 * len(traces))
    return events_of(backend, traces)


def test_verdicts_go_out_once_while_the_window_is_open(host, backends, monkeypatch):
    monkeypatch.setattr(verdict_sender, "LEASE", PATIENT)
    with sending(host), sending(host):  # as two servers: one of them sends
        traces = post(host, "shared", 7)
        wait_for(host, "shared", scored=7)
        found = arrived(backends[0], traces)
        assert windows(host, "shared")[0].is_open
        more = post(host, "shared", 3)
        assert len(arrived(backends[0], more)) == 6
    assert len(found) == 14
    assert {(one["event"], one["span"]) for one in found} == {("gen_ai.evaluation.result", "02" * 8)}
    assert Counter(
        (one["gen_ai.evaluation.name"], one["gen_ai.evaluation.score.label"]) for one in found
    ) == {
        ("contains", "pass"): 7,
        ("short", "fail"): 7,
    }
    assert not any("gen_ai.evaluation.explanation" in one for one in found)
    assert not events_of(backends[1], traces)


def test_the_end_of_a_window_sends_nothing_again(host, backends):
    with sending(host):
        first = post(host, "ending", 3)
        arrived(backends[0], first)
        wait_until(lambda: not windows(host, "ending")[-1].is_open)
        second = post(host, "ending", 3)
        arrived(backends[0], second)
        wait_until(lambda: not windows(host, "ending")[0].is_open)
    with sending(host):  # a new process of the host
        third = post(host, "ending", 1)
        arrived(backends[0], third)
    assert (
        Counter(
            one["log.record.uid"] for one in events_of(backends[0], [*first, *second, *third])
        ).most_common(1)[0][1]
        == 1
    )


def test_a_backend_that_is_away_for_long_gets_all_of_it_later_and_delays_no_other(host, backends):
    one, other = backends
    other.script += [Answer(503)] * (3 * requests.TRIES) + [Answer(0), Answer(500)]
    with sending(host):
        traces = post(host, "away", 6)
        assert len(arrived(one, traces)) == 12
        assert len(arrived(other, traces)) == 12
    assert other.script == []


def test_headers_of_a_project_take_the_place_of_variables(host, backends):
    leaked = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=other,x-own=1"}
    with sending(host, explanations=True, environment=leaked):
        (trace,) = post(host, "explained", 1, answer="it is warm")
        found = arrived(backends[0], [trace])
    sent = [headers for _, headers, body in backends[0].requests if bytes.fromhex(trace) in body]
    assert {one["authorization"] for one in map(lowered, sent)} == {"Basic canary"}
    assert not any("x-own" in lowered(one) for one in sent)
    assert (
        "it is warm"
        in next(one for one in found if one["gen_ai.evaluation.name"] == "contains")[
            "gen_ai.evaluation.explanation"
        ]
    )
    assert "canary" not in str([window.run.metadata for window in windows(host, "explained")])


def lowered(headers):
    return {name.lower(): value for name, value in headers.items()}


def test_another_process_goes_on_at_once_when_the_sender_was_stopped(host, backends, monkeypatch):
    monkeypatch.setattr(verdict_sender, "LEASE", timedelta(days=1))
    for _ in range(2):
        with sending(host):
            assert len(arrived(backends[0], post(host, "stopped", 2))) == 4


@pytest.mark.anyio
async def test_a_host_that_stops_waits_until_its_sender_has_given_back_its_place(monkeypatch, tmp_path):
    gave_back = []

    async def run(sender):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(time.sleep, 0.2)  # as a database
            await sender._store.runs(RunQuery(tenant=HOST))  # the store is open yet
            gave_back.append(True)

    monkeypatch.setattr(VerdictSender, "run", run)
    config = tmp_path / "assay.toml"
    config.write_text('[traces.x]\nto = "otlp=http://127.0.0.1:9"\nchecks = [{contains = "a"}]\n')
    environment = {"ASSAY_CONFIG": str(config), "ASSAY_HOME": str(tmp_path), "ASSAY_DATABASE_URL": "memory:"}
    async with open_runtime(load(environment)):
        await asyncio.sleep(0)  # the sender has begun
    assert gave_back


def test_another_process_sends_the_rest_when_the_sender_has_died(host, backends, monkeypatch):
    async def nothing(*_):
        """What a process does that was killed."""

    with monkeypatch.context() as patch, sending(host):
        patch.setattr(VerdictSender, "_give_back", nothing)
        arrived(backends[0], post(host, "support", 1))
    traces = post(host, "support", 2)  # the dead one still holds its document
    with sending(host):
        found = arrived(backends[0], traces)
    assert len(found) == 4


def test_a_project_without_to_sends_nothing(host, backends):
    with sending(host):
        traces = post(host, "quiet", 1)
        wait_for(host, "quiet", scored=1)
        arrived(backends[0], post(host, "support", 1))
    assert not [one for backend in backends for one in events_of(backend, traces)]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"to": "zipkin"}, "settings: traces.x.to 'zipkin': expected one of otlp, otlp=URL, phoenix, phoenix=URL"),
        ({"to": "otlp=ftp://x"}, "settings: traces.x.to otlp: expected an address such as http://localhost:4318"),
        ({"to": "otlp=http://me:secret@x"}, "expected an address without a password"),
        ({"to": ["otlp", "otlp=http://localhost:4318"]}, "settings: traces.x.to: expected each address once"),
        ({"headers": {"a": "b"}}, "settings: traces.x.headers: expected `to` with them"),
        ({"to": "otlp", "headers": {"a": "${NO_SUCH}"}}, "traces.x.headers.a: ${NO_SUCH}: the environment has no NO_SUCH"),
        ({"to": "otlp", "headers": {"a": "${TWO_LINES}"}}, "settings: traces.x.headers: expected names of letters"),
        ({"to": "otlp", "headers": {"a b": "c"}}, "got 'a b'"),
    ],
)  # fmt: skip
def test_a_wrong_target_is_refused_when_the_host_starts(members, message):
    configs = msgspec.convert({"x": FAST | members}, dict[str, TraceProjectConfig])
    with pytest.raises(UsageError) as refused:
        verdict_receivers(configs, {"TWO_LINES": "canary\r\nx: y"})
    assert message in str(refused.value)
    assert "canary" not in str(refused.value)
    assert "secret" not in str(refused.value)
