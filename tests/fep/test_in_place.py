"""`evaluate_sync` scores without an event loop where no check waits. The results are those of `evaluate`, which has one."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay import Checker
from assay.checks.worker_tasks import WorkerTask

SEEN: ContextVar[str] = ContextVar("SEEN", default="nothing")


class InPlace(Checker):
    """Answers, fails, or gives its work to a worker process."""

    type = "in_place"
    waits = False
    how: assay.Text

    def run(self, services) -> Any:
        SEEN.set(self.how)
        match self.how:
            case "raise":
                raise RuntimeError("oops")
            case "number":
                return 3
            case "worker":
                return WorkerTask(
                    "support.checks.pool_program:task",
                    b">",
                    b"say a",
                    5.0,
                    lambda one: {"passed": one == b">a"},
                )
            case "interrupt":
                signal.raise_signal(signal.SIGINT)
            case "thread":
                return {"passed": True, "thread": threading.get_ident()}
            case "model":
                services.providers.model({"provider": "ollama"}, {"model_name": "m"})
            case _:
                pass
        return {"passed": self.how == "pass"}


class Waiting(Checker):
    type = "waiting"
    how: assay.Text

    async def run(self, services):
        await asyncio.sleep(0)
        if self.how == "raise":
            raise RuntimeError("oops")
        return {"passed": self.how == "pass"}


REGISTRY = assay.STANDARD.with_checks([InPlace, Waiting])
HOW = {"how": "$.output.value"}
IN_PLACE, WAITING = {"type": "in_place", "arguments": HOW}, {"type": "waiting", "arguments": HOW}
MISSING = {"type": "in_place", "arguments": {"how": "$.output.none"}}


def request(values):
    return [{"id": f"t{at}", "input": 1} for at in range(len(values))], [{"value": one} for one in values]


def plain(result) -> Any:
    """The result without its id and its times."""
    document = msgspec.to_builtins(result)

    def without(value):
        if isinstance(value, dict):
            times = ("evaluation_id", "started_at", "completed_at", "evaluated_at", "execution_time_ms")
            return {name: without(one) for name, one in value.items() if name not in times}
        return [without(one) for one in value] if isinstance(value, list) else value

    return without(document)


def both(values, checks, **options) -> tuple[Any, Any]:
    """What `evaluate_sync` and `evaluate` return, with the progress that each reports."""
    cases, outputs = request(values)
    found: list[Any] = []
    for call in (assay.evaluate_sync, lambda *a, **o: asyncio.run(assay.evaluate(*a, **o))):
        progress: list[Any] = []
        result = call(cases, outputs, checks, registry=REGISTRY, on_progress=progress.append, **options)
        found.append((plain(result), progress))
    return found[0], found[1]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_both_ways_give_the_same_results(data):
    values = data.draw(st.lists(st.sampled_from(["pass", "fail", "raise", "number"]), max_size=5))
    lists = st.lists(st.sampled_from([IN_PLACE, MISSING, WAITING]), min_size=1, max_size=3)
    checks = data.draw(st.one_of(lists, st.lists(lists, min_size=len(values), max_size=len(values))))
    fail_fast = data.draw(st.booleans())
    in_place, plain = both(values, checks, fail_fast=fail_fast, concurrency=1)
    assert in_place == plain


def test_a_case_for_worker_processes_and_those_after_it_get_an_event_loop():
    in_place, plain = both(["pass", "worker", "fail", "worker", "pass"], [IN_PLACE, MISSING])
    assert in_place == plain
    assert [one["check_results"][0]["results"]["passed"] for one in in_place[0]["results"]] == [
        True, True, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("values", [["pass", "pass"], ["worker", "pass"]])
def test_a_run_out_of_time_skips_the_rest(values, monkeypatch):
    monkeypatch.setenv("ASSAY_RUN_SECONDS", "0.000001")
    cases, outputs = request(values * 100)
    result = assay.evaluate_sync(cases, outputs, [IN_PLACE], registry=REGISTRY)
    assert result.status == "skip"
    assert result.summary.skipped_test_cases > 100


@pytest.mark.parametrize("checks", [[IN_PLACE], [IN_PLACE, WAITING]])
def test_ctrl_c_ends_it(checks):
    cases, outputs = request(["pass", "interrupt", "pass"])
    with pytest.raises(KeyboardInterrupt):
        assay.evaluate_sync(cases, outputs, checks, registry=REGISTRY)


def test_a_check_in_place_has_the_callers_thread_inside_a_running_loop_too():
    async def main():
        return assay.evaluate_sync(*request(["thread"]), [IN_PLACE], registry=REGISTRY)

    for result in (
        asyncio.run(main()),
        assay.evaluate_sync(*request(["thread"]), [IN_PLACE], registry=REGISTRY),
    ):
        assert result.results[0].check_results[0].results["thread"] == threading.get_ident()


def test_checks_set_no_context_variables_of_the_caller():
    assay.evaluate_sync(*request(["pass"]), [IN_PLACE], registry=REGISTRY)
    assert SEEN.get() == "nothing"


def test_an_exception_of_the_callers_progress_reaches_the_caller():
    def progress(_):
        raise ZeroDivisionError

    for checks in ([IN_PLACE], [WAITING]):
        with pytest.raises(ZeroDivisionError):
            assay.evaluate_sync(*request(["pass"]), checks, registry=REGISTRY, on_progress=progress)


def test_providers_that_a_check_opened_are_closed(monkeypatch):
    closed: list[int] = []

    async def close(self):
        closed.append(os.getpid())

    monkeypatch.setattr("assay.backends.providers.ConfiguredProviders.close", close)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    result = assay.evaluate_sync(*request(["model"]), [IN_PLACE], registry=REGISTRY)
    assert result.summary.total_test_cases == 1
    assert closed == [os.getpid()]


def test_threads_call_it_at_the_same_time():
    values = ["pass", "fail", "raise"] * 20

    def one(_):
        return plain(assay.evaluate_sync(*request(values), [IN_PLACE, MISSING], registry=REGISTRY))

    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(one, range(8))
    assert all(one == first for one in others)
