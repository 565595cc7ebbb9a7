"""The log of runs: its laws, and that a poll, a stream and JSON show the same from every place."""

from functools import partial
from itertools import islice
from typing import Any

from assay.conform.check import Check, Failed, Host, NotTried, expect, expect_status, refused_as
from assay.conform.json_values import Document, is_list, is_object, list_in, object_in, same
from assay.conform.openwop.event_laws import EVENT_LAWS, EventLaw
from assay.conform.openwop.runs import EvalRun, any_run, frames, log, poll, ran
from assay.conform.openwop.surface import row, run_path

FOUND = 3
LOGS = ("plain", "tools", "failing")
UPDATES = ("run.", "eval.", "node.", "approval.", "clarification.", "interrupt.", "artifact.", "deployment.")
BAD_QUERIES = (
    "?streamMode=everything", "?streamMode=values,updates", "?bufferMs=5001", "?bufferMs=-1", "?bufferMs=x",
    "/poll?lastSequence=x", "/poll?timeout=0", "/poll?timeout=61",
)  # fmt: skip


def _runs(host: Host) -> list[EvalRun]:
    """Runs whose logs have scores, tools and failures."""
    if host.suite is not None:
        return [any_run(host)]
    return [ran(host, name, evalModes=["golden"]) for name in LOGS]


def _law(law: EventLaw, host: Host) -> None:
    for run in _runs(host):
        expect(run.events, f"{run.id}: expected events")
        found = list(islice(law.find(run.events, str(run.snapshot["status"])), FOUND))
        if found:
            raise Failed("; ".join(found))


def _stable(host: Host) -> None:
    run = any_run(host)
    expect(same(log(host, run.id), run.events), "two reads of the log of a run that has ended differ")


def _stored(host: Host, run: EvalRun) -> list[Document]:
    path = run_path(run.id, "/events")
    answer = host.send("GET", path, headers={"Accept": "application/json"})
    expect_status(answer, 200, f"GET {path} as JSON")
    return list_in(answer.document(), "events")


def _same_views(host: Host) -> None:
    run = any_run(host)
    expect(same(_stored(host, run), run.events), "JSON and the poll have other events")
    streamed = [one["data"] for one in frames(host, run.id, "?streamMode=debug")]
    expect(same(streamed, run.events), "the stream in the mode debug and the poll have other events")


def _frame_ids(host: Host) -> None:
    run = any_run(host)
    for one in frames(host, run.id, "?streamMode=debug"):
        data = one["data"]
        expect(is_object(data) and one["id"] == str(data.get("sequence")), "a frame: id is not its sequence")
        expect(one["event"] == data.get("type"), "a frame: event is not the type of its data")


def _resume_poll(host: Host) -> None:
    run = any_run(host)
    for after in range(-1, len(run.events)):
        found = poll(host, run.id, after)
        expect(same(found, run.events[after + 1 :]), f"a poll after {after} has other events than the log")


def _resume_stream(host: Host) -> None:
    run = any_run(host)
    for after in range(len(run.events)):
        found = [one["data"] for one in frames(host, run.id, "?streamMode=debug", after=after)]
        expect(same(found, run.events[after + 1 :]), f"a stream after {after} has other events than the log")


def _past_end(host: Host) -> None:
    run = any_run(host)
    for after in (len(run.events) - 1, 999_999):
        path = run_path(run.id, f"/events/poll?lastSequence={after}")
        answer = host.send("GET", path)
        expect_status(answer, 200, f"GET {path}")
        document = answer.document()
        expect(
            is_object(document) and document.get("events") == [],
            f"GET {path}: expected an empty list in events",
        )
        expect(document.get("isComplete", True) is True, f"GET {path}: isComplete: expected true")


def _bad_queries(host: Host) -> None:
    run = any_run(host)
    for query in BAD_QUERIES:
        path = run_path(run.id, f"/events{query}")
        found = refused_as(host.send("GET", path), 400, f"GET {path}")
        if "streamMode" in query:
            supported = object_in(found, "details").get("supported")
            expect(is_list(supported) and "updates" in supported, f"GET {path}: expected details.supported")


def _modes(host: Host) -> None:
    run = any_run(host)
    updates = [one["data"] for one in frames(host, run.id)]
    wanted = [one for one in run.events if str(one.get("type")).startswith(UPDATES)]
    wanted = [one for one in wanted if one.get("type") != "node.started"]
    expect(same(updates, wanted), "the mode updates: expected the events of the run, its evals and its nodes")
    expect(frames(host, run.id, "?streamMode=values"), "the mode values: expected a frame")


def _batches(host: Host) -> None:
    run = any_run(host)
    found = frames(host, run.id, "?streamMode=debug&bufferMs=1000")
    events: list[Any] = []
    for one in found:
        expect(one["event"] == "batch" and is_list(one["data"]), "bufferMs=1000: expected frames named batch")
        events += one["data"]
        last = events[-1] if events and is_object(events[-1]) else {}
        expect(one["id"] == str(last.get("sequence")), "a batch: id is not its highest sequence")
    expect(same(events, run.events), "batches have other events than the log")
    single = frames(host, run.id, "?streamMode=debug&bufferMs=0")
    expect(all(one["event"] != "batch" for one in single), "bufferMs=0: expected no batch")


def _open_run(host: Host) -> None:
    """JSON on the route of the stream answers at once for a run that goes on."""
    from_slow = any_run(host)
    path = run_path(from_slow.id, "/events")
    answer = host.send("GET", path, headers={"Accept": "application/json"})
    kind = answer.headers.get("content-type", "").partition(";")[0]
    expect(kind == "application/json", f"GET {path} with Accept: application/json: got {kind}")


def _law_check(law: EventLaw) -> Check:
    return row(
        f"events.{law.name}",
        law.section,
        law.rule,
        f"The logs of eval runs of {', '.join(LOGS)}.",
        "Logs that keep the rule.",
        partial(_law, law),
    )


def _failed_run(host: Host) -> None:
    """A task whose agent fails or refuses is measured: its score is 0, and the run completes."""
    if host.suite is not None:
        raise NotTried("it needs the suite failing of conformance/openwop; --suite names another")
    run = ran(host, "failing", evalModes=["golden"])
    expect(run.snapshot["status"] == "completed", "an agent that fails: expected a completed run")
    scores = {one.get("taskId"): one.get("score") for one in run.payloads("eval.scored")}
    wanted = {"raises": 0, "refuses": 0, "answers": 1}
    expect(scores == wanted, f"an agent that fails or refuses: expected the scores {wanted}, got {scores}")
    outcomes = sorted(str(one.get("outcome")) for one in run.payloads("agent.invocation.completed"))
    expect(
        outcomes == ["completed", "failed", "refused"],
        f"outcomes: expected completed, failed, refused; got {outcomes}",
    )


EVENT_CHECKS = [
    *map(_law_check, EVENT_LAWS),
    row("events.failed-tasks", "3.3", "An agent that fails or refuses was measured: its score is 0.", "An eval run with an agent that raises and refuses.", "A completed run; scores 0; outcomes failed and refused.", _failed_run),
    row("events.stable", "4.1", "The log is append-only.", "The log of a run that has ended, twice.", "Equal events.", _stable),
    row("events.views", "4.4", "Poll, stream and JSON show the same events.", "One log in three ways.", "Equal events.", _same_views),
    row("events.frames", "4.4", "A frame has the sequence as its id, and the type as its event.", "The stream in the mode debug.", "Such frames.", _frame_ids),
    row("events.resume-poll", "4.3", "A poll goes on behind every sequence.", "A poll after each sequence of a log.", "The rest of the log.", _resume_poll),
    row("events.resume-stream", "4.4", "A stream goes on behind every Last-Event-ID.", "A stream after each sequence of a log.", "The rest of the log, then the end of the connection.", _resume_stream),
    row("events.past-end", "4.3", "A sequence behind the end gives an empty list.", "Polls after the last sequence and after 999999.", "200, no events, isComplete.", _past_end),
    row("events.bad-queries", "4.4", "A query is validated before the run is read.", f"{len(BAD_QUERIES)} queries with wrong modes, times and cursors.", "400; details.supported for a mode.", _bad_queries),
    row("events.modes", "4.4", "The mode updates leaves out steps of agents; values has a frame.", "The stream without a mode, and in the mode values.", "Events of runs, evals and nodes; at least one frame.", _modes),
    row("events.batches", "4.4", "With bufferMs events come as frames named batch.", "The stream with bufferMs 1000 and 0.", "Batches with all events and the highest sequence as their id; none with 0.", _batches),
    row("events.json", "0.5", "The route of the stream answers JSON at once if it is asked for.", "GET /events with Accept: application/json.", "application/json.", _open_run),
]  # fmt: skip
