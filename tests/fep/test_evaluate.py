"""The library: shared, per-case and inline checks, concurrency, deadlines, cancelling (FEP 3.1; FEP-27 to FEP-36)."""

import asyncio
import re
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import msgspec
import pytest
import yaml

import assay
from assay import Checker, InvalidRequest, Output, TestCase
from assay.checks import STANDARD
from assay.errors import UsageError
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import COMPILED, INTERPRETED
from assay.fep.records import run_header
from assay.fep.records.run_header import LARGE
from assay.inputs.context import stored_context
from assay.ports import Services
from assay.protocol.evaluation import Check
from support.spec_files import SHARED, needs_shared
from support.waiting import PATIENCE, until, wait_until


class Meeting:
    """Counts checks that run at the same time. None ends before `wanted` of them have met."""

    def __init__(self):
        self._lock, self.wanted, self.running, self.most = threading.Lock(), 0, 0, 0

    def __enter__(self):
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def __exit__(self, *_):
        with self._lock:
            self.running -= 1

    def is_over(self):
        return self.most >= self.wanted


MEETING = Meeting()


class Slow(Checker):
    type = "slow"
    seconds: float

    async def run(self, services):
        with MEETING:
            await asyncio.sleep(self.seconds)
            await until(MEETING.is_over)
        return {"passed": True}


class Blocking(Checker):
    type = "blocking"
    seconds: float

    def run(self, services):
        with MEETING:
            time.sleep(self.seconds)
            wait_until(MEETING.is_over)
        return {"passed": True}


class Buggy(Checker):
    type = "buggy"
    how: str

    def run(self, services) -> Any:
        if self.how == "raise":
            raise RuntimeError("oops")
        if self.how == "exit":
            sys.exit(3)
        return {
            "nothing": None,
            "text": "yes",
            "nan": {"score": float("nan")},
            "passed": {"passed": "yes"},
            "inner": {"response": {"passed": 1}},
            "object": {"passed": True, "what": object()},
            "fine": {"passed": True},
        }[self.how]


class Isolated(Checker):
    type = "isolated"
    isolate = True
    how: str

    def run(self, services):
        import os

        if self.how == "hang":
            time.sleep(3600)
        if self.how == "die":
            os.kill(os.getpid(), 9)
        if self.how == "raise":
            raise RuntimeError("oops")
        os.write(1, b"noise that must not disturb the protocol")
        return {"passed": os.getppid() > 0, "pid": os.getpid()}


class Quick(Checker):
    type = "quick"
    waits = False
    text: assay.Text

    def run(self, services):
        return {"passed": "a" in self.text}


class Share(float):
    pass


class Many(int):
    pass


class Whole(Checker):
    type = "whole"
    text: assay.Text

    def run(self, services):
        return {"passed": True, "saw": [self.text], "share": Share(0.5), "many": Many(3)}


class Apart(Whole):
    isolate = True


class Nested(Checker):
    type = "nested"
    deep: int

    def run(self, services):
        value: list[Any] = []
        for _ in range(self.deep - 1):
            value = [value]
        return {"value": value}


class NestedApart(Nested):
    isolate = True


REGISTRY = assay.STANDARD.with_checks([Slow, Blocking, Buggy, Isolated, Quick])
EQUAL = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}


def cases(*expected):
    return [{"id": f"t{at}", "input": "?", "expected": one} for at, one in enumerate(expected)]


def outputs(*values):
    return [{"value": value} for value in values]


def run(checks, many=1, **how):
    return assay.evaluate_sync(cases(*"a" * many), outputs(*"a" * many), checks, registry=REGISTRY, **how)


def statuses(result):
    return [[one.status for one in case.check_results] for case in result.results]


def check(type, **arguments):
    return {"type": type, "arguments": arguments}


def test_three_lines_evaluate():
    result = assay.evaluate_sync(cases("a", "b"), outputs("a", "x"), [EQUAL], {"name": "mine"})
    assert [case.check_results[0].results for case in result.results] == [{"passed": True}, {"passed": False}]
    assert result.status == "completed"
    assert result.experiment.name == "mine"
    assert msgspec.to_builtins(result.summary) == {
        "total_test_cases": 2,
        "completed_test_cases": 2,
        "error_test_cases": 0,
        "skipped_test_cases": 0,
        "total_checks": 2,
        "completed_checks": 2,
        "error_checks": 0,
        "skipped_checks": 0,
    }
    assert result.started_at <= result.results[0].check_results[0].evaluated_at <= result.completed_at


def test_structs_and_dicts_are_the_same():
    structs = assay.evaluate_sync(
        [TestCase(id="t0", input="?", expected="a")],
        [Output(value="a")],
        [assay.Check(type="exact_match", arguments=EQUAL["arguments"])],
    )
    dicts = assay.evaluate_sync(cases("a"), outputs("a"), [EQUAL])
    assert structs.results[0].execution_context == dicts.results[0].execution_context
    assert structs.results[0].check_results[0].results == dicts.results[0].check_results[0].results


def test_unknown_members_are_kept_addressable_and_echoed():
    case = {"id": "t", "input": 1, "context": {"latency": 3}}
    output = {"id": "o-7", "value": None, "confidence_score": 0.9}
    result = assay.evaluate_sync(
        [case],
        [output],
        [
            check("threshold", value="$.test_case.context.latency", max_value=5),
            check("threshold", value="$.output.confidence_score", min_value=0.8),
            check("exact_match", actual="$.output.id", expected="o-7"),
        ],
    )
    assert all(one.results == {"passed": True} for one in result.results[0].check_results)
    assert result.results[0].execution_context.test_case == case
    assert result.results[0].execution_context.output == output


@pytest.mark.parametrize(
    ("checks", "answers"),
    [
        ([EQUAL, EQUAL], [[True, True], [False, False]]),
        ([[EQUAL], []], [[True], []]),
        ([[], [EQUAL, EQUAL]], [[], [False, False]]),
        ([], [[], []]),
    ],
)
def test_shared_and_per_case_checks(checks, answers):
    result = assay.evaluate_sync(cases("a", "b"), outputs("a", "x"), checks)
    passed = [[one.results["passed"] for one in case.check_results] for case in result.results]
    assert passed == answers
    assert result.status == "completed"  # no checks: completed (FEP-29)


def test_inline_checks_are_run_and_not_echoed():
    mine = [{**case, "checks": [EQUAL]} for case in cases("a", "b")]
    result = assay.evaluate_sync(mine, outputs("a", "x"))
    assert [case.check_results[0].results["passed"] for case in result.results] == [True, False]
    assert "checks" not in result.results[0].execution_context.test_case


@needs_shared
def test_the_two_patterns_of_the_text_run():
    text = (SHARED / "spec" / "fep-0.0.1.md").read_text()
    block = text[text.index("# Pattern 1: Shared Checks (1-to-many") :].partition("```")[0]
    first, _, second = block.partition("# Pattern 2")
    first, second = yaml.safe_load(first), yaml.safe_load("#" + second)
    shared = assay.evaluate_sync(first["test_cases"], outputs("Paris", "5"), first["checks"])
    assert [case.check_results[0].results["passed"] for case in shared.results] == [True, False]
    own = assay.evaluate_sync(second["test_cases"], outputs("def fibonacci(n):", "x"))
    assert [case.check_results[0].results["passed"] for case in own.results] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((cases("a"), outputs("a", "b"), [EQUAL]), "outputs: 2 outputs for 1 test cases"),
        ((cases("a"), outputs("a"), [[EQUAL], [EQUAL]]), "checks: 2 lists of checks for 1 test cases"),
        (
            (cases("a"), outputs("a"), [EQUAL, [EQUAL]]),
            "checks: expected one list of checks for all cases, or one",
        ),
        ((cases("a"), outputs("a"), "contains"), "checks: expected a list of checks, got a string"),
        ((cases("a"), outputs("a"), EQUAL), "checks: expected a list of checks, got an object"),
        (
            (cases("a"), outputs("a"), [{"type": "x"}]),
            r"checks\[0\].arguments: expected an object, got nothing",
        ),
        (
            (cases("a"), outputs("a"), [{**EQUAL, "weight": 1}]),
            r"checks\[0\].weight: no such member; there are type, arguments, version",
        ),
        ((cases("a"), outputs("a")), r"test_cases\[0\].checks: there are no checks"),
        (
            ([{**cases("a")[0], "checks": [EQUAL]}], outputs("a"), [EQUAL]),
            "expected checks in this case or in the request, got both",
        ),
        (
            ([{**cases("a")[0], "checks": [check("vibes")]}], outputs("a")),
            r"test_cases\[0\].checks\[0\].type: there is no check",
        ),
        (
            ([{"id": "a"}], outputs("a"), [EQUAL]),
            r"test_cases\[0\].input: expected any JSON value, got nothing",
        ),
        (
            ([{"id": 7, "input": 1}], outputs("a"), [EQUAL]),
            r"test_cases\[0\].id: expected a string, got a number",
        ),
        (
            (["a"], outputs("a"), [EQUAL]),
            r"test_cases\[0\]: expected an object with id and input, got a string",
        ),
        ((cases("a"), [{"val": 1}], [EQUAL]), r"outputs\[0\].value"),
        (
            (cases("a"), [{"value": 1, "metadata": []}], [EQUAL]),
            r"outputs\[0\].metadata: expected an object, got a list",
        ),
        ((cases(float("nan")), outputs("a"), [EQUAL]), r"test_cases\[0\].expected: NaN and infinity"),
        ((cases([1, object()]), outputs("a"), [EQUAL]), r"test_cases\[0\].expected\[1\]: not JSON"),
        ((cases("\ud800"), outputs("a"), [EQUAL]), r"test_cases\[0\].expected: not JSON"),
        (
            ([{"id": "a", "input": 1}, {"id": "a", "input": 2}], outputs("a", "b"), [EQUAL]),
            r"test_cases\[1\].id: 'a' is already",
        ),
        (
            (cases("a"), outputs("a"), [EQUAL], {"nom": "x"}),
            "experiment_metadata.nom: no such member; there are name, metadata",
        ),
        ((cases("a"), outputs("a"), [EQUAL] * 2000), "the limit is 1000 .*ASSAY_MAX_CHECKS"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_anything_runs(arguments, problem):
    with pytest.raises(InvalidRequest, match=problem):
        assay.evaluate_sync(*arguments)


def test_all_problems_are_reported_at_once():
    with pytest.raises(InvalidRequest) as refusal:
        assay.evaluate_sync([{"id": 1}, {"input": 2}], [{}, {"value": 1}], [EQUAL])
    assert [problem.place for problem in refusal.value.problems] == [
        "test_cases[0].id",
        "test_cases[0].input",
        "outputs[0].value",
        "test_cases[1].id",
    ]


def deep(levels):
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(("levels", "fits"), [(400, True), (600, False), (5_000, False)])
def test_nesting_is_bounded(levels, fits):
    if fits:
        assert assay.evaluate_sync(cases(deep(levels)), outputs(1), [EQUAL]).status in ("completed", "error")
    else:
        with pytest.raises(InvalidRequest, match="deep"):
            assay.evaluate_sync(cases(deep(levels)), outputs(1), [EQUAL])


def test_repeats_of_one_case_are_repeated_sampling():
    same = cases("a") * 3
    result = assay.evaluate_sync(same, outputs("a", "b", "a"), [EQUAL])
    assert [case.check_results[0].results["passed"] for case in result.results] == [True, False, True]


def test_no_test_cases_is_a_completed_run_with_nothing_in_it():
    result = assay.evaluate_sync([], [], [EQUAL])
    assert (result.status, result.results, result.summary.total_test_cases) == ("completed", [], 0)


@pytest.mark.parametrize("type", ["slow", "blocking"])
def test_one_slow_check_among_a_thousand_keeps_no_other_from_its_end(type):
    checks = [[check("quick", text="$.output.value")] for _ in range(1000)]
    checks[3] = [check(type, seconds=1)]
    result = run(checks, many=1000)
    assert statuses(result) == [["completed"]] * 1000


@pytest.mark.parametrize("type", ["slow", "blocking"])
def test_checks_wait_at_the_same_time_up_to_the_limit(type):
    many = [check(type, seconds=0.02) for _ in range(16)]
    for limit in (16, 2):
        MEETING.__init__()
        MEETING.wanted = limit
        assert statuses(run(many, concurrency=limit)) == [["completed"] * 16]
        assert MEETING.most == limit
    MEETING.__init__()


@pytest.mark.parametrize("type", ["slow", "blocking"])
def test_a_deadline_ends_one_check_and_no_other(type):
    result = run([check(type, seconds=30), check("slow", seconds=0), EQUAL], timeout=0.2)
    (late, fine, equal) = result.results[0].check_results
    assert (late.status, late.error.type, late.error.recoverable) == ("error", "timeout_error", True)
    assert (fine.status, equal.status) == ("completed", "completed")
    assert result.results[0].status == result.status == "error"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "buggy failed with RuntimeError: oops"),
        ("exit", "buggy failed with SystemExit"),
        ("nothing", "answered nothing; expected an object"),
        ("text", "answered str"),
        ("nan", "NaN"),
        ("passed", "passed: 'yes'"),
        ("inner", "passed: 1"),
        ("object", "not JSON"),
    ],
)
def test_a_bug_in_one_check_is_its_own_error_and_nothing_more(how, words):
    result = run([check("buggy", how=how), check("buggy", how="fine"), EQUAL])
    (bug, fine, equal) = result.results[0].check_results
    assert (bug.status, bug.error.type, bug.error.recoverable, bug.results) == (
        "error",
        "unknown_error",
        False,
        {},
    )
    assert words in bug.error.message
    assert (fine.status, equal.status) == ("completed", "completed")


def test_an_isolated_check_can_be_killed_and_can_die():
    checks = [check("isolated", how=how) for how in ("fine", "die", "raise", "fine")]
    answers = run(checks, timeout=60, concurrency=4).results[0].check_results
    assert [one.status for one in answers] == ["completed", "error", "error", "completed"]
    assert "killed by signal 9" in answers[1].error.message
    assert "RuntimeError: oops" in answers[2].error.message
    (hanging,) = run([check("isolated", how="hang")], timeout=1).results[0].check_results
    assert hanging.error.type == "timeout_error"


def test_results_have_the_version_and_the_time_of_waiting_checks():
    (slow, equal) = run([check("slow", seconds=0.05), EQUAL]).results[0].check_results
    assert 40 < slow.metadata["execution_time_ms"] < 1000 * PATIENCE
    assert slow.metadata["check_version"] == "1.0.0"
    assert equal.metadata == {"check_version": "1.0.0"}


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (
            [check("threshold", value="$.none", min_value=0), EQUAL],
            [["error", "skip"], ["skip", "skip"], ["skip", "skip"]],
        ),
        ([EQUAL, EQUAL], [["completed", "completed"]] * 3),  # a failed check is no error
    ],
)
def test_fail_fast_stops_at_the_first_errored_check(checks, expected):
    result = assay.evaluate_sync(
        cases("a", "b", "c"), outputs("x", "x", "x"), checks, registry=REGISTRY, fail_fast=True, concurrency=1
    )
    assert statuses(result) == expected
    assert all(
        one.results == {} for case in result.results for one in case.check_results if one.status == "skip"
    )


def test_fail_fast_stops_waiting_checks_too():
    result = run(
        [check("buggy", how="raise"), check("slow", seconds=5)], many=20, fail_fast=True, concurrency=1
    )
    flat = [status for case in statuses(result) for status in case]
    assert (flat[0], flat.count("skip")) == ("error", 39)


def test_cancelling_keeps_what_is_done_and_marks_the_rest_skip():
    async def main():
        checks = [[check("slow", seconds=0)], [check("slow", seconds=60), EQUAL], [EQUAL]]
        progress: list = []
        three = cases("a", "a", "a"), outputs("a", "a", "a")
        task = asyncio.create_task(
            assay.evaluate(*three, checks, registry=REGISTRY, on_progress=progress.append)
        )
        await until(lambda: progress)  # the first is done, and the others have begun
        await asyncio.sleep(0.2)
        task.cancel()
        return await task

    result = asyncio.run(main())
    assert statuses(result) == [["completed"], ["skip", "completed"], ["completed"]]
    assert result.status == "skip"
    assert result.summary.skipped_checks == 1


def test_on_progress_gets_every_case():
    seen = []
    assay.evaluate_sync(cases("a", "b"), outputs("a", None), [EQUAL], on_progress=seen.append)
    assert [(one.done, one.total, one.errors) for one in seen] == [(1, 2, 0), (2, 2, 1)]


def test_evaluate_sync_works_inside_a_running_loop():
    async def main():
        return assay.evaluate_sync(cases("a"), outputs("a"), [EQUAL])

    assert asyncio.run(main()).status == "completed"


@pytest.mark.parametrize("kind", ["list", "generator", "async"])
def test_a_stream_gives_results_in_order_and_holds_what_is_in_flight(kind):
    drawn = 0

    def contexts():
        nonlocal drawn
        for at in range(5_000):
            drawn += 1
            yield {"test_case": {"id": str(at), "input": 0}, "output": {"value": at % 2}}

    async def contexts_async():
        for one in contexts():
            yield one

    async def main():
        source: Any = {"list": lambda: list(contexts()), "generator": contexts, "async": contexts_async}[
            kind
        ]()
        seen = []
        mixed = [check("exact_match", actual="$.output.value", expected=1), check("slow", seconds=0.001)]
        async for result in assay.evaluate_stream(source, mixed, registry=REGISTRY, concurrency=64):
            seen.append(result.execution_context.test_case["id"])
            if len(seen) == 1 and kind != "list":
                assert drawn < 2_000
            if len(seen) == 1_500:
                break
        return seen

    assert asyncio.run(main()) == [str(at) for at in range(1_500)]


def test_a_stream_ends_at_an_invalid_context_and_names_it():
    async def main():
        seen = []
        source = [({"id": "a", "input": 1}, {"value": 1}), {"test_case": {"id": "b"}, "output": {"value": 1}}]
        try:
            async for result in assay.evaluate_stream(source, [check("exists", path="$.output")]):
                seen.append(result.status)  # noqa: PERF401  # what came before the refusal is kept
        except InvalidRequest as refusal:
            seen.append(str(refusal))
        return seen

    expected = ["completed", "contexts[1].test_case.input: expected any JSON value, got nothing"]
    assert asyncio.run(main()) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("concurrency", 0, "expected a whole number above 0, got 0"),
        ("concurrency", 1.5, "expected a whole number above 0, got 1.5"),
        ("concurrency", True, "expected a whole number above 0, got True"),
        ("timeout", -1, "expected a number above 0, got -1"),
        ("timeout", "3", "expected a number above 0, got '3'"),
        ("timeout", float("inf"), "expected a number above 0, got inf"),
        ("max_cost", float("nan"), "expected a number above 0, got nan"),
        ("registry", [], "expected a registry, such as assay.STANDARD.with_checks([Mine]), got a list"),
    ],
)
def test_impossible_limits_are_refused(name, value, message):
    with pytest.raises(InvalidRequest, match=re.escape(f"{name}: {message}")):
        assay.evaluate_sync([], [], [EQUAL], **{name: value})


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (iter([]), "list_iterator"),
        (None, "null"),
        ("ab", "the name of a file"),
        ({"id": "a", "input": 1}, "an object"),
    ],
    ids=["iterator", "none", "text", "one"],
)
def test_cases_that_are_no_list_are_refused(given, got):
    with pytest.raises(InvalidRequest, match=rf"test_cases: expected a list.*, got {got}"):
        assay.evaluate_sync(given, [], [EQUAL])


def test_whatever_has_a_length_is_a_list():
    cases, outputs = {"a": {"id": "a", "input": 1}}, {"a": {"value": 1}}
    result = assay.evaluate_sync(cases.values(), outputs.values(), [check("exists", path="$.output.value")])  # pyright: ignore[reportArgumentType]
    assert result.results[0].check_results[0].results == {"passed": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Whole, "with_checks(): expected a list of checks, such as [Whole]"),
        ([int], "int is not a check: expected a subclass of assay.Checker"),
        ([Whole(text=assay.Text("a"))], "is not a check: expected a subclass of assay.Checker"),
    ],
    ids=["one", "another class", "an instance"],
)
def test_a_registry_refuses_what_is_not_a_check(given, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        assay.STANDARD.with_checks(given)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("deep", "status"), [(490, "completed"), (500, "error"), (980, "error"), (5_000, "error")]
)
@pytest.mark.parametrize("kind", [Nested, NestedApart], ids=["here", "apart"])
def test_an_answer_nested_too_deeply_is_that_checks_error(kind, deep, status):
    asked = [check(kind.type, deep=deep), check("exists", path="$.output")]
    result = assay.evaluate_sync(
        cases("a"), outputs("a"), asked, registry=assay.STANDARD.with_checks([kind]), timeout=60
    )
    assert statuses(result) == [[status, "completed"]]


@pytest.mark.parametrize("kind", [Whole, Apart], ids=["here", "apart"])
def test_an_answer_may_hold_its_arguments_and_other_kinds_of_text_and_number(kind):
    cases, outputs = [{"id": "a", "input": 1}], [{"value": "hi"}]
    asked = [check(kind.type, text="$.output.value")]
    result = assay.evaluate_sync(cases, outputs, asked, registry=assay.STANDARD.with_checks([kind]))
    (answer,) = result.results[0].check_results
    assert answer.results == {"passed": True, "saw": ["hi"], "share": 0.5, "many": 3}


def test_a_hanging_check_does_not_keep_the_program_from_ending():
    program = """
        import assay, time
        class Hang(assay.Checker):
            type = "hang"
            def run(self, services):
                while True:
                    pass
        result = assay.evaluate_sync([{"id": "a", "input": 1}], [{"value": 1}], [{"type": "hang", "arguments": {}}],
            registry=assay.STANDARD.with_checks([Hang]), timeout=0.3)
        print(result.results[0].check_results[0].error.type)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.strip() == "timeout_error", done.stderr


BUILT: list[str] = []


class Built(Checker):
    """Notes the thread in which its arguments were found."""

    type = "built"
    value: Any

    def __post_init__(self):
        BUILT.append(threading.current_thread().name)

    async def run(self, services):
        return {"passed": True}


@pytest.mark.parametrize(
    ("checks", "size", "elsewhere"),
    [
        (["built"], 1, False),
        (["built"], 50_000, True),  # a large context
        (["built", "exact_match"], 50_000, True),
        (["built search"], 1, True),  # a path that may search for a second
    ],
)
def test_a_check_that_waits_is_prepared_in_a_thread_where_that_may_take_long(checks, size, elsewhere):
    of = {
        "built": check("built", value="$.output.value"),
        "built search": check("built", value="$.output[?search(@, '[x]+')]"),
        "exact_match": check("exact_match", actual="$.output.value", expected="x" * size),
    }
    BUILT.clear()
    registry = assay.STANDARD.with_checks([Built])
    result = asyncio.run(
        assay.evaluate(
            cases("a", "b"), outputs(*["x" * size] * 2), [of[one] for one in checks], registry=registry
        )
    )
    answers = [one.results for case in result.results for one in case.check_results]
    assert answers == [{"passed": True}] * 2 * len(checks)
    assert [name.startswith("assay-calls") for name in BUILT] == [elsewhere] * 2


@pytest.mark.parametrize("count", [COMPILED, COMPILED + 1])
def test_a_plan_of_many_checks_is_interpreted_with_the_same_results(count):
    """Compiling a thousand checks held the GIL for 0.4 s."""
    checks = [
        Check(type="contains", arguments={"text": "$.output.value", "phrases": [str(at % 3)]})
        for at in range(count)
    ]
    scorer = Plan(checks, STANDARD).shared
    assert scorer is not None
    assert (scorer._compiled is None) == (count > COMPILED)
    assert scorer.steps == count * (1 if count <= COMPILED else INTERPRETED)
    done = assay.evaluate_sync(cases("a"), outputs("1"), checks)
    assert [one.results["passed"] for one in done.results[0].check_results] == [
        at % 3 == 1 for at in range(count)
    ]


@pytest.mark.parametrize(("size", "in_thread"), [(10, False), (LARGE, True)])
def test_a_large_unit_is_read_in_a_thread(size, in_thread, monkeypatch):
    readers = []

    def reading(line, limits):
        readers.append(threading.current_thread())
        return stored_context(line, limits)

    monkeypatch.setattr(run_header, "stored_context", reading)
    planned = run_header.PlannedRequest(run_header.StoredRequest(checks=[]), STANDARD, Services())
    line = b'{"test_case":{"id":"a","input":1},"output":{"value":"%b"}}' % (b"x" * size)
    asyncio.run(planned._contexts([line]))
    assert [one is not threading.main_thread() for one in readers] == [in_thread]


def test_too_many_checks_of_a_refused_case_are_counted_and_not_read():
    case = {"id": "", "input": 1, "checks": [{"type": "nope"}] * 2_000}
    with pytest.raises(InvalidRequest) as refusal:
        assay.evaluate_sync([case], outputs("a"))
    messages = {problem.place: problem.message for problem in refusal.value.problems}
    assert messages["test_cases[0].checks"].startswith("2000 checks; the limit is 1000")
    assert not any(place.endswith(".type") for place in messages)
