"""`--to`: verdicts of an evaluation and of a stored run reach the backend of the traces, once, whatever happens."""

import asyncio
import json
import os
import signal

import pytest

from assay.backends.stores.memory import MemoryStore
from assay.backends.verdicts import receiver_of
from assay.backends.verdicts import requests as http_requests
from assay.errors import EnvironmentFailure
from assay.fep.records import send_verdicts as outbox
from assay.fep.records.save import save_results
from support.traces.conversations import Conversation, genai
from support.traces.otlp import request_of
from support.traces.receivers import Answer, Phoenix, Receiver

CANARY = "canary-51b2"
CHECKS = [{"name": "polite", "contains": "please"}, {"contains": "answer"}]
EXPLAINED = {"ASSAY_SEND_EXPLANATIONS": "true"}


def context(at):
    trace = {"trace_ids": [f"{at + 1:032x}"], "span_id": f"{at + 1:016x}"}
    return {
        "test_case": {"id": f"c{at}", "input": CANARY},
        "output": {"value": f"{CANARY} answer", "metadata": {"trace": trace}},
    }


@pytest.fixture
def home(tmp_path):
    talk = Conversation(question=f"{CANARY} question", answer=f"{CANARY} answer")
    (tmp_path / "trace.json").write_text(json.dumps(request_of(*genai(talk))))
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    return tmp_path


@pytest.fixture
def receiver():
    with Receiver() as found:
        yield found


TRACES = ("evaluate", "--traces", "trace.json", "--checks", "checks.json")


def test_an_evaluation_of_traces_sends_one_event_for_each_check(command, home, receiver):
    done = command(*TRACES, "--to", f"otlp={receiver.url}", folder=home)
    assert (done.code, done.err) == (0, "")
    assert f"2 verdicts sent to {receiver.url}/v1/logs" in done.out
    common = {"event": "gen_ai.evaluation.result", "trace": "aa" * 16, "span": "10" * 8}
    assert [
        {**common, "name": one["gen_ai.evaluation.name"], "label": one["gen_ai.evaluation.score.label"]}
        for one in receiver.events
        if common.items() <= one.items()
    ] == [{**common, "name": "polite", "label": "fail"}, {**common, "name": "contains", "label": "pass"}]
    assert CANARY not in repr(receiver.events)

    again = command("export", "latest", "--to", f"otlp={receiver.url}", folder=home)
    assert (again.code, again.out) == (0, f"2 verdicts sent to {receiver.url}/v1/logs\n")
    assert len(receiver.events) == 2  # acknowledged ones are not sent again

    with Receiver() as other:
        ended = command("export", "latest", "--to", f"otlp={other.url}", folder=home, environ=EXPLAINED)
        assert (ended.code, ended.err) == (0, "")
        assert CANARY in other.events[0]["gen_ai.evaluation.explanation"]
        assert [one["log.record.uid"] for one in other.events] == [
            one["log.record.uid"] for one in receiver.events
        ]


def test_phoenix_and_otlp_get_the_same_verdicts(command, home, receiver):
    with Phoenix("10" * 8) as phoenix:
        to = ("--to", f"phoenix={phoenix.url}", "--to", f"otlp={receiver.url}")
        done = command(*TRACES, *to, "--json", folder=home)
    assert (done.code, done.err) == (0, "")
    assert [(one["to"], one["verdicts"]) for one in json.loads(done.out)["sent"]] == [
        (f"{phoenix.url}/v1/span_annotations", 2),
        (f"{receiver.url}/v1/logs", 2),
    ]
    annotations = list(phoenix.annotations.values())
    assert [one["result"] for one in annotations] == [
        {"label": "fail", "score": 0.0},
        {"label": "pass", "score": 1.0},
    ]
    assert CANARY not in repr(annotations)


def test_a_wrong_address_loses_no_result(command, home, receiver):
    receiver.script = [Answer(404, b"no such page")]
    failed = command(*TRACES, "--to", f"otlp={receiver.url}/x", folder=home)
    assert failed.code == 1
    run = failed.out.partition("assay show ")[2].split()[0]
    assert failed.messages == [
        f"assay: --to otlp={receiver.url}/x: {receiver.url}/x/v1/logs answered 404 no such page",
        f"assay: the results are stored; send the rest with: assay export {run} --to otlp={receiver.url}/x",
    ]
    done = command("export", run, "--to", f"otlp={receiver.url}", folder=home)
    assert (done.code, len(receiver.events)) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*TRACES, "--to", "vibes"), "--to 'vibes': expected one of otlp, otlp=URL, phoenix, phoenix=URL"),
        (("export", "latest"), "expected -o FILE or --to WHERE, got none"),
        (
            (*TRACES, "--to", "otlp", "--to", "otlp=http://localhost:4318"),
            "--to: expected each address once, got http://localhost:4318/v1/logs twice",
        ),
        (
            (*TRACES, "--to", "otlp", "--resume", "-o", "x.jsonl"),
            "--to, which stores the run, and --resume: expected one of them, got both",
        ),
    ],
)
def test_a_wrong_use_is_refused_before_anything_runs(command, home, arguments, message):
    refused = command(*arguments, folder=home)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


def test_results_without_a_trace_are_counted_and_a_run_without_any_trace_is_refused(command, home, receiver):
    plain = {"test_case": {"id": "p", "input": "?"}, "output": {"value": "answer"}}
    (home / "cases.jsonl").write_text(f"{json.dumps(plain)}\n{json.dumps(context(1))}\n")
    to = ("--checks", "checks.json", "--to", f"otlp={receiver.url}")
    some = command("evaluate", "cases.jsonl", *to, folder=home)
    assert (some.code, len(receiver.events)) == (0, 2)
    assert some.messages == [f"assay: --to otlp={receiver.url}: 1 result without a trace not sent"]
    (home / "cases.jsonl").write_text(f"{json.dumps(plain)}\n")
    none = command("evaluate", "cases.jsonl", *to, folder=home)
    assert (none.code, len(receiver.events)) == (1, 2)
    assert none.messages == [
        f"assay: --to otlp={receiver.url}: no result has a trace (output.metadata.trace), so nothing was sent"
    ]


def test_a_sender_that_was_killed_is_continued(command, zygote, home, receiver):
    """Batches: the first is acknowledged, the second is received and its sender dies, the third has not begun."""
    (home / "cases.jsonl").write_text("".join(f"{json.dumps(context(at))}\n" for at in range(600)))
    stored = command("evaluate", "cases.jsonl", "--checks", "checks.json", "--save", folder=home)
    assert stored.code == 0
    arguments = ("export", "latest", "--to", f"otlp={receiver.url}")
    process = zygote.start(*arguments, folder=home)

    def kill():
        if len(receiver.requests) == 2:
            os.kill(process.pid, signal.SIGKILL)

    receiver.before = kill
    process.communicate()
    receiver.before = None
    assert process.returncode == -signal.SIGKILL
    first = [one["log.record.uid"] for one in receiver.events]
    done = command(*arguments, folder=home)
    assert (done.code, done.out) == (0, f"1,200 verdicts sent to {receiver.url}/v1/logs\n")
    uids = [one["log.record.uid"] for one in receiver.events]
    assert len(first) == 1024
    assert uids == first + first[512:] + uids[1536:]
    assert len(set(uids)) == 1200
    assert len(uids) == 1200 + 512


class Unsteady:
    """A receiver that fails where the script says so. `kept` has what it acknowledged."""

    address = "http://somewhere/v1/logs"

    def __init__(self, fails):
        self.fails, self.kept, self.calls = set(fails), [], 0

    async def send(self, verdicts):
        self.calls += 1
        if self.calls in self.fails:
            raise EnvironmentFailure("away")
        self.kept += [one.uid for one in verdicts]


def stored_run(store, many):
    lines = [
        json.dumps(
            {
                "status": "completed",
                "execution_context": context(at),
                "check_results": [
                    {"check_type": "contains", "status": "completed", "results": {"passed": True}, "evaluated_at": "2026-01-01T00:00:00Z"}
                ],
            }
        ).encode()
        for at in range(many)
    ]  # fmt: skip
    return save_results(store, "", lines, ""), lines


@pytest.mark.parametrize("fails", [[], [1], [2], [1, 3], [2, 3, 5]])
def test_what_was_acknowledged_is_not_sent_again(fails, monkeypatch):
    monkeypatch.setattr(outbox, "BATCH", 4)
    store, receiver = MemoryStore(), Unsteady(fails)
    id, lines = stored_run(store, 10)

    async def send():
        run = await store.run(id)

        async def results(start):
            for line in lines[start:]:
                yield line

        return await outbox.send_verdicts(store, run, results, receiver)

    for _ in fails:
        with pytest.raises(EnvironmentFailure, match="away"):
            asyncio.run(send())
    sent = asyncio.run(send())
    assert (sent.results, sent.verdicts, sent.rejected) == (10, 10, 0)
    assert len(receiver.kept) == len(set(receiver.kept)) == 10


def test_of_two_senders_at_once_the_first_stops(monkeypatch):
    monkeypatch.setattr(outbox, "BATCH", 1)
    monkeypatch.setattr(http_requests, "WAIT", 0.001)
    store = MemoryStore()
    id, lines = stored_run(store, 3)
    receiver = Unsteady([])

    async def both():
        run = await store.run(id)
        started, gone_on = asyncio.Event(), asyncio.Event()

        async def slow(start):
            for at, line in enumerate(lines[start:]):
                yield line
                if at == 0:
                    started.set()
                    await gone_on.wait()

        async def quick(start):
            for line in lines[start:]:
                yield line

        first = asyncio.create_task(outbox.send_verdicts(store, run, slow, receiver))
        await started.wait()
        second = await outbox.send_verdicts(store, run, quick, receiver)
        gone_on.set()
        with pytest.raises(EnvironmentFailure, match="another process sends its verdicts there"):
            await first
        return second

    assert asyncio.run(both()).verdicts == 3
    assert len(set(receiver.kept)) == 3
    assert receiver_of("otlp", {}).address == "http://localhost:4318/v1/logs"
