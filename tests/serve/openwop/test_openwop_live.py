"""Following a run (openwop-contract §4.3, §4.4, §5.1): nothing missed, nothing twice, whoever asks and whatever happens to the server."""

import asyncio
import contextlib
import json
import os

import httpx
import pytest

from assay.backends.stores.open import open_store
from assay.ports import RunQuery
from assay.serve.web.limit_settings import ServerLimits
from support.evals import golden
from support.servers.openwop_client import (
    finish_run,
    frames_of,
    log_of,
    run_request,
    start_run,
    store_suite,
    stream_events,
    suite,
)
from support.servers.rest_client import Server
from support.spec_files import fits

FIVE = suite(*[golden(f"t{at}", "x", "x") for at in range(5)], name="five")
SECRET = "a very private task"


@pytest.fixture(scope="module")
def host(database):
    with Server(database, serving=ServerLimits(ping_seconds=0.05)) as host:
        yield host


@pytest.fixture(scope="module")
def beside(database, host):
    """Another process on the same record, as far as anybody can tell."""
    with Server(database) as host:
        yield host


@pytest.fixture(scope="module")
def over(client):
    """A run that has ended."""
    return finish_run(client, FIVE)


def ids(frames):
    return [int(frame.id) for frame in frames if frame.id is not None]


def gated(name, say="x", many=2):
    """Tasks that wait for a moment, so that somebody can look on."""
    return suite(*[golden(f"t{at}", "x", {"wait": 0.3, "say": say}) for at in range(many)], name=name)


# the queries, whatever is accepted


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("streamMode=everything", "unsupported_stream_mode"),
        ("streamMode=values,updates", "unsupported_stream_mode"),
        ("streamMode=", "unsupported_stream_mode"),
        ("bufferMs=99999", "validation_error"),
        ("bufferMs=-1", "validation_error"),
        ("bufferMs=x", "validation_error"),
        ("lastSequence=x", "validation_error"),
        ("lastSequence=", "validation_error"),
        ("lastSequence=1&since=1", "validation_error"),
        ("more=1", "validation_error"),
    ],
)
def test_4_4_a_query_is_refused_before_anything_is_negotiated(client, over, accept, query, code):
    answer = client.get(f"/v1/runs/{over}/events?{query}", headers={"accept": accept})
    assert (answer.status_code, answer.json()["error"]) == (400, code)
    if code == "unsupported_stream_mode":
        assert answer.json()["details"]["supported"] == ["updates", "values", "messages", "debug"]


@pytest.mark.parametrize(
    "query",
    [
        "lastSequence=",
        "timeout=",
        "timeout=0",
        "timeout=61",
        "timeout=x",
        "lastSequence=1.5",
        "streamMode=debug",
    ],
)
def test_4_3_an_invalid_poll_is_400(client, over, query):
    assert client.get(f"/v1/runs/{over}/events/poll?{query}").status_code == 400


# a run that has ended


def test_4_3_a_poll_returns_later_events(client, over):
    log = log_of(client, over)
    last = log[-1]["sequence"]
    for query, wanted in (
        ("", log),
        ("?lastSequence=-1", log),
        ("?lastSequence=0", log[1:]),
        ("?since=0", log[1:]),
        (f"?lastSequence={last}", []),
        ("?lastSequence=999999", []),
    ):
        page = client.get(f"/v1/runs/{over}/events/poll{query}").json()
        assert (page["events"], page["isComplete"], page["runStatus"]) == (wanted, True, "completed")
        assert (page["runId"], page["lastEventSeq"]) == (over, last)


def test_4_4_json_returns_the_events_of_the_stream(client, over):
    headers = {"accept": "application/json"}
    page = client.get(f"/v1/runs/{over}/events", headers=headers).json()
    assert page == client.get(f"/v1/runs/{over}/events/poll").json()
    run = start_run(client, gated("json-at-once"))
    assert client.get(f"/v1/runs/{run}/events", headers=headers).json()["isComplete"] is False


def test_4_4_a_frame_an_event_and_the_connection_is_closed_at_the_end(client, over):
    log = log_of(client, over)
    frames = stream_events(client, over, streamMode="debug")
    assert [(int(frame.id), frame.name, frame.data) for frame in frames] == [
        (event["sequence"], event["type"], event) for event in log
    ]
    updates = stream_events(client, over)
    wanted = ("run.", "eval.")
    assert [frame.data for frame in updates] == [event for event in log if event["type"].startswith(wanted)]
    assert {"run.started", "run.completed"} <= {frame.name for frame in updates}
    assert stream_events(client, over, streamMode="messages") == []
    assert [f.data for f in stream_events(client, over, streamMode="updates,messages")] == [
        f.data for f in updates
    ]


def test_4_4_last_event_id_resumes_strictly_after_it(client, over):
    log = log_of(client, over)
    last = log[-1]["sequence"]
    for after in (0, 3, last - 1, last, last + 7):
        frames = stream_events(client, over, after=after, streamMode="debug")
        assert ids(frames) == list(range(after + 1, last + 1))


def test_4_4_mode_values_sends_the_snapshot(client, over):
    frames = stream_events(client, over, streamMode="values")
    assert {frame.name for frame in frames} == {"state.snapshot"}
    for frame in frames:
        fits("run-snapshot", frame.data)
    assert frames[-1].data == client.get(f"/v1/runs/{over}").json()
    resumed = stream_events(client, over, after=2, streamMode="values")
    assert (resumed[0].name, resumed[0].id) == ("state.snapshot", "2")  # first thing on resume


@pytest.mark.parametrize("buffer", [1, 5000])
def test_4_4_a_batch_has_the_buffered_events_and_the_last_event_flushes_it(client, over, buffer):
    log = log_of(client, over)
    frames = stream_events(client, over, bufferMs=buffer, streamMode="debug")
    assert {frame.name for frame in frames} == {"batch"}
    assert [event for frame in frames for event in frame.data] == log
    for frame in frames:
        assert int(frame.id) == frame.data[-1]["sequence"]
    assert "batch" not in {frame.name for frame in stream_events(client, over, bufferMs=0)}


# a run that goes on


def test_5_1_progress_is_sent_while_tasks_run_without_an_id_and_without_content(host, client):
    run = start_run(client, gated("progress", say=SECRET))
    frames = stream_events(client, run)
    progress = [frame for frame in frames if frame.name == "progress"]
    assert progress
    assert {frame.id for frame in progress} == {None}
    for frame in progress:
        assert frame.data.keys() == {"runId", "taskId", "trial", "state"}
    assert "ended" in {frame.data["state"] for frame in progress}
    assert SECRET not in json.dumps([frame.data for frame in progress])
    assert "progress" not in {event["type"] for event in log_of(client, run)}


def test_5_1_progress_stays_in_order_and_ends_before_the_last_event(client):
    run = start_run(client, gated("placed", many=1), trials=2)
    frames = [frame for frame in stream_events(client, run, streamMode="debug") if frame.name != "comment"]
    assert frames[-1].name == "run.completed"
    trials = [(frame.data["taskId"], frame.data["trial"]) for frame in frames if _came_back(frame)]
    assert sorted(trials) == [("t0", 0), ("t0", 1)]
    for at, frame in enumerate(frames):
        if _came_back(frame):
            assert frames[at - 1].name == "assay.trial.ended"


def _came_back(frame):
    return frame.name == "progress" and frame.data["state"] == "ended"


def test_5_1_and_9_2_a_follower_at_another_process_gets_progress_and_annotations(client, beside):
    """A task that came back is read from the log; what another process sends reaches this follower."""
    document = suite(golden("quick", "x", "x"), golden("slow", "x", {"wait": 600}), name="beside")
    with beside.client() as other:
        run = start_run(client, document)
        headers = {"accept": "text/event-stream"}
        with other.stream("GET", f"/v1/runs/{run}/events", headers=headers) as answer:
            frames = frames_of(answer.iter_lines())
            first = next(frame for frame in frames if frame.name in ("progress", "eval.scored"))
            if first.name == "eval.scored":  # it was not there to see before
                assert first.data["payload"]["taskId"] == "quick"
            else:
                assert first.data == {"runId": run, "taskId": "quick", "trial": 0, "state": "ended"}
            made = [
                client.post(f"/v1/runs/{run}/annotations", json={"signal": {"kind": "label", "label": label}})
                for label in ("one", "two")
            ]
            heard = [next(frame for frame in frames if frame.name == "run.annotated") for _ in made]
            last = client.post(f"/v1/runs/{run}/annotations", json={"signal": {"kind": "flag"}})
            client.post(f"/v1/runs/{run}/cancel")
            rest = [frame for frame in frames if frame.name != "comment"]
    assert [(frame.id, frame.data) for frame in heard] == [(None, one.json()) for one in made]
    assert [frame.name for frame in rest if frame.name.startswith("run.")] == [
        "run.annotated",
        "run.cancelled",
    ]
    assert rest[-1].name == "run.cancelled"
    assert [one.data for one in rest if one.name == "run.annotated"] == [last.json()]


def test_4_4_an_idle_stream_sends_heartbeats(client):
    run = start_run(client, gated("alive", many=1))
    comments = [frame.data for frame in stream_events(client, run, comments=True) if frame.name == "comment"]
    assert set(comments) == {":keepalive"}


def test_4_4_the_end_of_a_run_flushes_the_buffer(client):
    run = start_run(client, gated("buffered", many=1))
    frames = [frame for frame in stream_events(client, run, bufferMs=5000) if frame.name == "batch"]
    assert frames[-1].data[-1]["type"] == "run.completed"  # long before five seconds are over


def test_4_4_followers_of_one_run_get_every_event_once(host, client, series):
    key = host.key()
    document = suite(
        *[golden(f"t{at}", "x", {"wait": 0.02 * at, "say": "x"}) for at in range(30)], name="crowd"
    )
    run = start_run(client, document)

    async def one(at):
        """HTTP/1.0, so that what comes is the stream itself; some come again in the middle."""
        seen, last, rounds = [], "", 2 if at % 4 == 0 else 1
        for turn in range(rounds):
            reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
            asked_for = (
                f"GET /v1/runs/{run}/events?streamMode=debug HTTP/1.0\r\nHost: x\r\nX-API-Key: {key}\r\n"
            )
            resume = f"Last-Event-ID: {last}\r\n" if last else ""
            writer.write(f"{asked_for}Accept: text/event-stream\r\n{resume}\r\n".encode())
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    last = line[4:].decode().strip()
                    seen.append(int(last))
                    if turn < rounds - 1 and len(seen) == 5 + at % 20:
                        break
            writer.close()
        return seen

    async def crowd():
        return await asyncio.gather(*[one(at) for at in range(series(12, 200))])

    followers = asyncio.run(crowd())
    log = log_of(client, run)
    assert all(seen == list(range(len(log))) for seen in followers)
    assert host.openwop.feeds.active_runs == 0


TOML = """
[agents."local.who.waits"]
kind = "callable"
target = "who:waits"
free = true
"""
WHO = """
import time
from pathlib import Path

def waits(task):
    while task == "wait" and not Path("go").exists():
        time.sleep(0.02)
    return "x"
"""


@contextlib.contextmanager
def serving(zygote, folder):
    """A server of its own process: its address, and how to kill it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    process = zygote.start("serve", "--port", "0", folder=folder, pipe=True, environ=environ)
    try:
        yield process.stdout.readline().split()[2], process
    finally:
        process.close()


def test_4_4_a_follower_of_a_killed_server_resumes_at_another(zygote, tmp_path):
    (tmp_path / "assay.toml").write_text(TOML)
    (tmp_path / "who.py").write_text(WHO)
    document = suite(
        *[golden(f"t{at}", "x", "say") for at in range(6)], golden("last", "x", "wait"), name="killed"
    )
    got: list = []

    def client_of(url):
        key = (tmp_path / ".assay" / "local-key").read_text().strip()
        return httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=60)

    with serving(zygote, tmp_path) as (url, process), client_of(url) as client:
        run = client.post(
            "/v1/runs", json=run_request(store_suite(client, document), "local.who.waits")
        ).json()["runId"]
        headers = {"accept": "text/event-stream"}
        with client.stream("GET", f"/v1/runs/{run}/events?streamMode=debug", headers=headers) as answer:
            frames = frames_of(answer.iter_lines())
            while sum(frame.name == "eval.scored" for frame in got) < 3:
                got.append(next(frames))
            process.kill()
            with contextlib.suppress(httpx.HTTPError, StopIteration):
                while True:
                    got.append(next(frames))
    process.wait()
    asyncio.run(_forget_the_lease(f"sqlite:///{tmp_path}/.assay/assay.db"))
    (tmp_path / "go").touch()
    with serving(zygote, tmp_path) as (url, _), client_of(url) as client:
        seen = [frame for frame in got if frame.id is not None]
        seen += stream_events(client, run, after=seen[-1].id, streamMode="debug")
        log = log_of(client, run)
        assert [int(frame.id) for frame in seen if frame.id] == list(range(len(log)))
        assert [frame.data for frame in seen if frame.id] == log
        assert log[-1]["type"] == "run.completed"


async def _forget_the_lease(address):
    """As if the time had passed after which another may take up what a dead one held."""
    store = await open_store(address)
    for run in await store.runs(RunQuery()):
        if run.holder is not None:
            await store.release(run.id, run.holder)
    await store.close()
