"""`--batch` of the command: judges and rubrics in batches, also when the process is killed at any step."""

import json
import os
import signal
import threading
import time
from typing import Any

import pytest

from support.models.batch_server import BatchServer
from support.models.judges import judge
from support.waiting import PATIENCE

CASES = 12
FULL = {
    "batch_requests": CASES,
    "batch_poll": 5,
}  # a batch is submitted when it has all calls, however slow they come
VARYING = (
    "cost_usd",
    "response_time_ms",
    "attempts",
    "batch",
    "evaluated_at",
    "execution_time_ms",
    "known_cost_usd",
)
STEPS = {  # the request after whose effect, and before whose answer, the process is killed
    "openai_compatible": [
        ("POST", "/files"),
        ("POST", "/batches"),
        ("GET", "/batches/"),
        ("GET", "/content"),
    ],
    "anthropic": [("POST", "/messages/batches"), ("GET", "/messages/batches/"), ("GET", "/results")],
}
ROWS = [(kind, *step) for kind, steps in STEPS.items() for step in steps]


def configure(folder, server, kind, price=1_000_000, **more: Any) -> None:
    provider = {
        "kind": kind,
        "base_url": server.base_url,
        "api_key": "sk-canary-7d1f9b3e5a",
        "batch_poll": 0.05,
    }
    provider |= {"max_retries": 2, **more}
    lines = ["[providers.judges]", *(f"{name} = {json.dumps(value)}" for name, value in provider.items())]
    prices = (
        f"prices = {{input = {price}, output = 0, cache_read = {price / 10}, cache_write = {price * 1.25}}}"
    )
    lines += [prices, "[models]", 'judge = "judges:m"']
    (folder / "assay.toml").write_text("\n".join(lines))


@pytest.fixture
def server():
    with BatchServer() as server:
        yield server


@pytest.fixture
def folder(tmp_path):
    contexts = [
        {"test_case": {"id": f"c{at}", "input": at}, "output": {"value": f"text {at}"}} for at in range(CASES)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in contexts))
    (tmp_path / "checks.json").write_text(json.dumps([judge("Polite? {{$.output.value}}")]))
    return tmp_path


EVALUATE = ("evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json")
BATCH = (*EVALUATE, "-o", "results.jsonl", "--batch")


def results(folder, name="results.jsonl") -> list[Any]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without(one) for name, one in value.items() if name not in VARYING}
    return [without(one) for one in value] if isinstance(value, list) else value


def cost(lines: list[Any]) -> float:
    return sum(one["check_results"][0]["results"]["metadata"]["cost_usd"] for one in lines)


@pytest.mark.parametrize("kind", STEPS)
def test_the_evidence_is_that_of_single_calls_at_half_the_price(command, folder, server, kind):
    """One batch has all calls: `--concurrency` does not bound what waits."""
    configure(folder, server, kind, **FULL)
    ended = command(*BATCH, "--concurrency", "2", folder=folder)
    assert (ended.code, len(server.batches)) == (0, 1), ended.err
    assert f"provider 'judges' has {CASES} calls" in ended.err
    single = command(*EVALUATE, "-o", "single.jsonl", folder=folder)
    assert (single.code, len(server.singles)) == (0, CASES)
    batch = results(folder)
    assert without(batch) == without(results(folder, "single.jsonl"))
    assert cost(batch) == pytest.approx(cost(results(folder, "single.jsonl")) / 2)
    assert all(one["check_results"][0]["results"]["metadata"]["batch"] is True for one in batch)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "method", "path"), ROWS)
def test_a_run_that_was_killed_continues_and_pays_once(zygote, command, folder, server, kind, method, path):
    configure(folder, server, kind)
    killed = threading.Event()
    process = zygote.start(*BATCH, "--save", folder=folder)

    def kill(at: str, verb: str, where: str) -> None:
        if not killed.is_set() and (at, verb) == ("after", method) and path in where:
            killed.set()  # before the kill: the test goes on as soon as the process has ended
            os.kill(process.pid, signal.SIGKILL)

    server.on_request = kill
    process.communicate(timeout=PATIENCE)
    assert killed.is_set()
    ended = command(*BATCH, "--resume", folder=folder)
    assert ended.code == 0, ended.err
    lines = results(folder)
    assert [one["execution_context"]["test_case"]["id"] for one in lines] == [f"c{at}" for at in range(CASES)]
    assert {one["status"] for one in lines} == {"completed"}
    assert sorted(server.paid) == sorted(f"Polite? text {at}" for at in range(CASES))
    assert list((folder / ".assay" / "batches").iterdir()) == [], "nothing is open"


def test_an_interrupted_run_cancels_its_batch(zygote, command, folder, server):
    server.script = ["hold", "ok"]
    configure(folder, server, "openai_compatible")
    process = zygote.start(*BATCH, folder=folder)
    assert server.submitted.wait(PATIENCE)
    looked = threading.Event()
    server.on_request = lambda when, method, path: looked.set() if "/batches/" in path else None
    assert looked.wait(PATIENCE)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert server.batches[0].cancelled
    assert command(*BATCH, "--resume", folder=folder).code == 0
    assert len(results(folder)) == CASES
    assert sorted(server.paid) == sorted(f"Polite? text {at}" for at in range(CASES))


def test_the_money_bounds_batches_and_a_higher_limit_continues(command, folder, server):
    """A call is 3 words: 1.5 dollars in a batch. An estimate is higher, so batches are smaller than the money."""
    configure(folder, server, "openai_compatible")
    ended = command(*BATCH, "--max-cost", "6", folder=folder)
    assert ended.code == 1
    assert "6" in ended.err
    assert len(server.paid) == len(results(folder)) == 4
    ended = command(*BATCH, "--max-cost", "100", "--resume", folder=folder)
    assert (ended.code, len(results(folder))) == (0, CASES), ended.err
    assert len(server.paid) == CASES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--batch-hours", "1"), "--batch-hours: expected --batch with it"),
        (("run", "s.yaml", "--agent", "m:f", "--batch", "--server", "http://127.0.0.1:1"), "--batch and --server: expected one of them"),
    ],
)  # fmt: skip
def test_options_that_contradict_batches_are_refused(command, folder, options, message):
    ended = command(*options, folder=folder)
    assert ended.code == 2
    assert message in ended.err


SUITE = {
    "suiteId": "local.evals.polite",
    "version": "1.0.0",
    "targetAgentId": "local.agents.echo",
    "modes": ["rubric"],
    "tasks": [
        {
            "taskId": f"t{at}",
            "input": f"question {at}",
            "expected": {"kind": "rubric", "rubric": [{"criterion": "is polite", "weight": 1}]},
        }
        for at in range(CASES)
    ],
}
AGENT = "def answer(question):\n    return question.upper()\n"


def run_options(folder, server, kind, **more: Any):
    configure(folder, server, kind, price=1, **more)
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "agent.py").write_text(AGENT)
    return ("run", "suite.json", "--agent", "agent:answer", "--any-agent", "--batch", "--concurrency", "2")


@pytest.mark.parametrize("kind", STEPS)
def test_rubrics_of_a_suite_are_asked_in_one_batch(command, folder, server, kind):
    ended = command(*run_options(folder, server, kind, **FULL), folder=folder)
    assert ended.code == 0, ended.err + ended.out
    assert [len(one.lines) for one in server.batches] == [CASES]
    assert not server.singles


CACHED = {  # the usage that the provider reports for an answer, what a result says of it, and the tokens of its price
    "openai_compatible": (
        {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}},
        {"input_tokens": 100, "cache_read_tokens": 60},
        40 + 60 * 0.1,
    ),
    "anthropic": (
        {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30},
        {"input_tokens": 100, "cache_read_tokens": 60, "cache_write_tokens": 30},
        10 + 60 * 0.1 + 30 * 1.25,
    ),
}


@pytest.mark.parametrize("verb", ["evaluate", "run"])
@pytest.mark.parametrize("kind", CACHED)
def test_what_the_provider_cached_is_shown_and_costs_half_its_price(command, folder, server, kind, verb):
    server.usage, shown, tokens = CACHED[kind]
    run = (*run_options(folder, server, kind, **FULL), "-o", "results.jsonl")
    ended = command(*(BATCH if verb == "evaluate" else run), folder=folder)
    assert ended.code == 0, ended.err
    found = [one["check_results"][0]["results"]["metadata"] for one in results(folder)]
    assert len(found) == CASES
    for metadata in found:
        assert {name: metadata.get(name) for name in shown} == shown
        assert ("cache_write_tokens" in metadata) == ("cache_write_tokens" in shown)
        assert metadata["cost_usd"] == pytest.approx(tokens / 1_000_000 / 2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", STEPS)
def test_a_suite_that_was_killed_continues_and_pays_once(zygote, command, folder, server, kind):
    server.script = ["hold", "ok"]
    process = zygote.start(*run_options(folder, server, kind), folder=folder)
    assert server.submitted.wait(PATIENCE)
    looked = threading.Event()
    server.on_request = lambda when, method, path: looked.set() if "batches/" in path else None
    assert looked.wait(PATIENCE)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    server.release.set()
    again = ("run", "--resume", "latest", "--agent", "agent:answer", "--batch")
    ended = command(*again, folder=folder)
    while "which another process runs" in ended.err:  # until the lease of the dead process is over
        time.sleep(1)
        ended = command(*again, folder=folder)
    assert ended.code == 0, ended.err + ended.out
    assert len(server.batches) == 1
    assert len(server.paid) == CASES
