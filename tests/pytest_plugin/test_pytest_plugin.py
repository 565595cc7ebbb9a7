"""The pytest plugin, in sessions of its own: in this process, and once under xdist."""

import asyncio
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.cli.main import app
from assay.pytest_plugin.case_verdict import Bar, decide
from assay.pytest_plugin.marks import read_options

pytest_plugins = ["pytester"]
LOADED = (
    []
    if any(one.name == "assay" for one in entry_points(group="pytest11"))
    else ["-p", "assay.pytest_plugin"]
)
QUIET = ["-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:anyio", *LOADED]
CHECKS = (
    "checks:\n  - {type: exact_match, arguments: {actual: $.output.value, expected: $.test_case.expected}}\n"
)
SUITE = """\
suiteId: local.mine.evals.first
version: 1.0.0
modes: [golden]
thresholds: {passScore: 0.5LIMITS}
tasks:
  - {taskId: ada, input: {name: Ada}, expected: {kind: golden, match: {strategy: contains, value: Ada}}}
  - {taskId: bob, input: {name: Bob}, expected: {kind: golden, match: {strategy: contains, value: Bob}}}
  - {taskId: eve, input: {name: Eve}, expected: {kind: golden, match: {strategy: contains, value: Eve}}}
"""
MARKED = """
import pytest
import assay

CASES = [
    {"id": "paris", "input": "France?", "expected": "Paris"},
    {"id": "rome", "input": "Italy?\\x1b[31m", "expected": "Rome"},
    {"id": "raises", "input": "x", "expected": "y"},
    {"id": "asserts", "input": "x", "expected": "y"},
]
EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
CALLS = []

@pytest.fixture
def city():
    return "Paris"

@pytest.mark.assay(test_cases=CASES, checks=[EXACT])
def test_agent(test_case, city):
    if test_case.id == "raises":
        raise RuntimeError("no model")
    assert test_case.id != "asserts", "never ask this"
    return city

@pytest.mark.assay(test_cases=CASES[:2], checks=[EXACT], samples=4, success_threshold=0.5)
async def test_async(input):
    return assay.Output(value="Paris", metadata={"model": "m"})

def flaky():
    CALLS.append(1)
    if len(CALLS) == 4:
        raise RuntimeError("once")
    return "Paris"

@pytest.mark.assay(test_cases=CASES[:1], checks=[EXACT], samples=4, min_pass_rate=0.75)
def test_the_verdict_holds_without_the_sample_that_raised():
    return flaky()

class TestClass:
    @pytest.mark.assay(test_cases=[CASES[0] | {"checks": [EXACT, EXACT | {"arguments": {"actual": 1, "expected": 2}}]}],
                       check_mode="any")
    def test_own_checks(self, input):
        return "Paris"

    @pytest.mark.xfail
    @pytest.mark.assay(test_cases=CASES[1:2], checks=[{"exact_match": "$.test_case.expected"}])
    def test_xfail(self, input):
        return "Paris"

@pytest.mark.assay(test_cases=CASES[:1], checks=[EXACT])
def test_skip(input):
    pytest.skip("not today")

def test_fixture(evaluate):
    measured = evaluate(CASES[:2], [{"value": "Paris"}] * 2, [EXACT], min_pass_rate=None)
    assert measured.pass_rate == 0.5
    with pytest.raises(Exception, match="min_pass_rate: expected a number from 0 to 1, got 80"):
        evaluate(CASES[:2], [{"value": "Paris"}] * 2, [EXACT], min_pass_rate=80)
    evaluate(CASES[:2], agent=lambda question: "Paris", checks=[EXACT], samples=3, min_pass_rate=0.8)

SAMPLES = {"paris": ["no", "Paris"], "rome": ["Rome", "no"], "one": ["Paris", "no"], "two": ["Rome", "no"]}
OTHER = [CASES[0] | {"id": "one"}, CASES[1] | {"id": "two"}]

@pytest.mark.assay(test_cases=CASES[:2], checks=[EXACT], samples=2, pass_threshold=0.5, pass_mode="sample")
def test_each_sample_has_a_failure(test_case, input):
    assert test_case.input == input
    return SAMPLES[test_case.id].pop()

@pytest.mark.assay(test_cases=OTHER, checks=[EXACT], samples=2, pass_threshold=0.5, pass_mode="sample")
def test_one_sample_passes(test_case):
    return SAMPLES[test_case.id].pop()

def test_plain():
    pass
"""


@pytest.fixture(scope="module")
def _loaded(tmp_path_factory):
    """pytester forgets what a session imports: what is loaded here is loaded once."""
    for name in (
        "yaml",
        "jsonschema_rs",
        *(f"assay.pytest_plugin.{one}" for one in ("fixture", "save", "suites")),
    ):
        import_module(name)

    suite = yaml.safe_load(SUITE.replace("LIMITS", ""))
    asyncio.run(assay.run_suite(suite, str, store=f"sqlite:///{tmp_path_factory.mktemp('loaded')}/runs.db"))


@pytest.fixture
def session(pytester, monkeypatch, _loaded):
    """`session("-k", "x")` runs pytest in the folder of the test."""
    monkeypatch.setenv("ASSAY_HOME", str(pytester.path / "home"))
    return lambda *arguments: pytester.runpytest_inprocess(*QUIET, *arguments)


def stored(capsys):
    """The names of the runs in the store."""
    capsys.readouterr()
    app(["list", "--json"], standalone_mode=False)
    return capsys.readouterr().out


def test_marked_functions_and_the_fixture(pytester, session, capsys):
    pytester.makepyfile(test_bot=MARKED)
    done = session("--junitxml=junit.xml")
    done.assert_outcomes(passed=6, failed=5, errors=1, skipped=1, xfailed=1)
    done.stdout.fnmatch_lines_random(
        [
            "exact_match not measured: the function raised RuntimeError: no model (test_bot.py:*",
            "exact_match failed: expected 'Rome', got 'Paris'",
            "  input    Italy?\\x1b[[]31m",
            "  expected Rome",
            "  output   Paris",
            "exact_match failed: the agent failed: AssertionError: never ask this",
            "0 of 4 samples passed; expected 0.5",
            "3 of 6 results passed; expected 0.8",
            "0 of 2 samples passed; expected 0.5; a sample passes if all 2 cases pass in it",
            "FAILED test_bot.py::test_each_sample_has_a_failure[[]samples[]] - 0 of 2 samples*",
            "test_bot.py::test_one_sample_passes: 4 results; details: assay show eval_*",
            "test_bot.py::test_agent: 4 results, 1 not measured; details: assay show eval_*",
            "test_bot.py::test_async: 8 results; details: assay show eval_*",
            "test_bot.py::test_fixture: 8 results; details: assay show eval_*",
            "FAILED test_bot.py::test_agent[[]rome[]] - exact_match failed: expected 'Rome'*",
        ]
    )
    assert "Traceback" not in done.stdout.str()
    assert "\x1b[31m" not in done.stdout.str()
    cases = {
        one.get("name"): [part.tag for part in one] for one in ElementTree.parse("junit.xml").iter("testcase")
    }
    assert cases["test_agent[raises]"] == ["error"]
    assert cases["test_agent[rome]"] == ["failure"]
    assert cases["test_agent[paris]"] == []
    names = stored(capsys)
    assert names.count('"test_bot.py::') == 8
    again = session("--lf", "-k", "test_agent", "--assay-no-save")
    again.assert_outcomes(failed=2, errors=1, deselected=5)
    assert stored(capsys) == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cases": "a", "case": 1}, "no argument 'case'; there are cases, "),
        (
            {"cases": "a", "test_cases": []},
            "expected one of cases, test_cases and suite, got cases and test_cases",
        ),
        ({"cases": "a", "samples": 0}, "samples: expected a whole number from 1 to 100, got 0"),
        ({"cases": "a", "samples": True}, "got True"),
        ({"cases": "a", "min_pass_rate": 80}, "min_pass_rate: expected a number from 0 to 1, got 80"),
        (
            {"cases": "a", "min_pass_rate": 1, "success_threshold": 1},
            "min_pass_rate and success_threshold are names of one number",
        ),
        ({"cases": "a", "decide_by": "luck"}, "decide_by: expected 'estimate' or 'lower_bound', got 'luck'"),
        ({"cases": "a", "pass_mode": "all"}, "pass_mode: expected 'per_test_case' or 'sample', got 'all'"),
        ({"cases": "a", "check_mode": "most"}, "check_mode: expected 'all' or 'any', got 'most'"),
        ({"cases": "a", "pass_threshold": 2}, "pass_threshold: expected a number from 0 to 1, got 2"),
        ({"cases": "a", "decide_by": "lower_bound", "samples": 10}, "no case can pass"),
        ({"cases": "a", "judge": "m"}, "judge is an argument of suite"),
        ({"suite": "a", "checks": [], "decide_by": "estimate"}, "leave out checks, decide_by"),
        ({"suite": {"suiteId": "a"}}, "suite: expected the name of a file with a suite, got dict"),
        ({"suite": "a", "judge": 5}, "judge: expected the name of a model, PROVIDER:MODEL, got int"),
        ({}, "or a file cases.jsonl beside the test"),
    ],
)
def test_a_wrong_mark_says_what_is_possible(tmp_path, arguments, message):
    with pytest.raises(pytest.UsageError) as refused:
        read_options(arguments, tmp_path)
    assert message in str(refused.value)


def test_a_problem_of_a_mark_or_a_file_ends_the_collection(pytester, session):
    for name, mark in (
        ("one", "sample=3"),
        ("two", "cases='none.jsonl', checks=[]"),
        ("three", "test_cases=[{'id': 'a', 'input': 1}]"),
        ("four", "test_cases=[{'id': 'a', 'input': 1}], checks=[{'type': 'vibes', 'arguments': {}}]"),
        ("five", "suite='cases.jsonl'"),
    ):
        pytester.makepyfile(
            **{f"test_{name}": f"import pytest\n@pytest.mark.assay({mark})\ndef test_it(input): pass\n"}
        )
    pytester.path.joinpath("cases.jsonl").write_text("not JSON\n")
    pytester.path.joinpath("checks.yaml").write_text(CHECKS)
    pytester.makepyfile(
        test_unit="""
        import pytest, unittest

        class TestUnit(unittest.TestCase):
            @pytest.mark.assay(test_cases=[])
            def test_it(self): pass
        """
    )
    refused = session("test_unit.py")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(
        ["ERROR: test_unit.py::TestUnit::test_it: @pytest.mark.assay needs a function*"]
    )
    pytester.path.joinpath("test_unit.py").unlink()
    done = session()
    done.assert_outcomes(errors=6)
    done.stdout.fnmatch_lines_random(
        [
            "@pytest.mark.assay on test_one.py::test_it: no argument 'sample'; there are *",
            "*test_two.py::test_it: *none.jsonl*",
            "*test_three.py::test_it: checks: case 'a' has no checks: name them in the mark or in the case",
            "*test_four.py::test_it: *no check 'vibes'*",
            "*cases.jsonl:1*",
        ]
    )
    assert "Traceback" not in done.stdout.str()


def test_a_suite_runs_once_and_its_items_report_their_tasks(pytester, session, capsys):
    pytester.path.joinpath("suite.yaml").write_text(SUITE.replace("LIMITS", ""))
    pytester.makepyfile(
        test_greeting_suite="""
        import pytest
        TASKS = []

        @pytest.fixture
        def greeting():
            return "Hello"

        @pytest.mark.assay(suite="suite.yaml")
        def test_agent(task, ctx, greeting):
            TASKS.append(ctx.task_id)
            return f"{greeting} {task['name'].replace('Eve', 'you')}"

        def test_calls():
            print("tasks", sorted(TASKS))
        """
    )
    done = session("-s")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines_random(
        [
            "*tasks [[]'ada', 'bob', 'eve'[]]*",
            "contains failed: expected a text that contains 'Eve', got 'Hello you'",
            '  input    {"name":"Eve"}',
            "test_greeting_suite.py::test_agent: passed, score 0.667; details: assay show run-*",
        ]
    )
    assert stored(capsys).count('"run-') == 1
    part = session("-s", "-k", "ada or bob or calls")
    part.assert_outcomes(passed=3, deselected=1)
    part.stdout.fnmatch_lines_random(
        [
            "*tasks [[]'ada', 'bob'[]]*",
            "test_greeting_suite.py::test_agent: 2 of 3 tasks selected; not stored as a run of the suite",
        ]
    )
    assert stored(capsys).count('"run-') == 1


UNSTEADY = """
        import assay, itertools, pytest
        TURN = itertools.count()

        @pytest.mark.assay(suite="suite.yaml", samples=3ARGUMENTS)
        def test_agent(task):
            name = task["name"]
            if name == "Eve" and next(TURN) == 0:
                FIRST
            return f"Hello {name}"
        """


@pytest.mark.parametrize(
    ("bar", "arguments", "first", "outcomes", "line"),
    [
        ("0.7", "", "return 'no'", {"passed": 2, "failed": 1}, "2 of 3 trials passed; expected 0.7"),
        ("0.6", "", "return 'no'", {"passed": 3}, "*test_agent: passed, score 0.889*"),
        ("0.7", ", min_pass_rate=0.5", "return 'no'", {"passed": 3}, "*test_agent: passed, score 0.889*"),
        ("0.95", ", min_pass_rate=0.5", "return 'no'", {"passed": 3}, "*test_agent: not passed*"),
        (
            "0.7",
            ", min_pass_rate=1.0",
            "return 'no'",
            {"passed": 2, "failed": 1},
            "2 of 3 trials passed; expected 1",
        ),
        (
            "0.7",
            "",
            "raise assay.ForeignFault('away')",
            {"passed": 2, "errors": 1},
            "2 of 3 trials passed, 1 not measured; expected 0.7",
        ),
    ],
)
def test_a_task_of_a_suite_passes_by_the_bar_over_its_trials(
    pytester, session, bar, arguments, first, outcomes, line
):
    pytester.path.joinpath("suite.yaml").write_text(SUITE.replace("0.5LIMITS", bar))
    source = UNSTEADY.replace("ARGUMENTS", arguments).replace("FIRST", first)
    pytester.makepyfile(test_unsteady=source)
    done = session("-s")
    done.assert_outcomes(**outcomes)
    done.stdout.fnmatch_lines_random([line])
    assert (done.ret == 0) == (set(outcomes) == {"passed"})


def test_a_mark_takes_an_agent_and_does_not_call_the_function(pytester, session):
    pytester.path.joinpath("suite.yaml").write_text(SUITE.replace("LIMITS", ""))
    pytester.makepyfile(
        my_bot="""
        class Bot:
            def run(self, task):
                return f"Hello {task['name']}"
        bot = Bot()
        """,
        test_bot="""
        import pytest
        from my_bot import Bot, bot

        CASES = [{"id": "one", "input": {"name": "Ada"}}, {"id": "two", "input": {"name": "Bob"}}]
        CHECKS = [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Ada"]}}]

        @pytest.mark.assay(suite="suite.yaml", agent=bot)
        def test_suite(): assert False

        @pytest.mark.assay(test_cases=CASES, checks=CHECKS, agent="my_bot:bot", samples=2)
        def test_cases(): assert False

        @pytest.mark.assay(test_cases=CASES[:1], checks=CHECKS, agent=bot, pass_mode="sample")
        def test_samples(): assert False

        @pytest.mark.assay(test_cases=CASES[:1], checks=CHECKS, agent=7)
        def test_wrong(): assert False
        """,
    )
    done = session("-q")
    done.assert_outcomes(passed=5, failed=1, errors=1)  # an agent that cannot be one was not measured
    done.stdout.fnmatch_lines_random(
        ["*test_cases*two*", "*agent: expected a function of the task, *, got int*"]
    )


def test_data_files_beside_tests(pytester, session, monkeypatch):
    beside = pytester.mkdir("beside")
    alone = pytester.mkdir("alone")
    foreign = pytester.mkdir("foreign")
    for folder in (beside, alone):
        folder.joinpath("cases.jsonl").write_text(
            '{"id": "a", "input": {"name": "Ada"}, "expected": "Hello Ada"}\n{"id": "b", "input": {"name": "Bob"}, "expected": 1}\n'
        )
        folder.joinpath("checks.yaml").write_text(CHECKS)
    limited = SUITE.replace("LIMITS", ", maxCostUsd: 0.5")
    beside.joinpath("names.suite.yaml").write_text(limited)
    beside.joinpath("conftest.py").write_text("")
    foreign.joinpath("conftest.py").write_text("")
    foreign.joinpath("suite.yaml").write_text("of: another tool\n")
    pytester.makepyfile(bot="def answer(task): return f'Hello {task[\"name\"]}'\n")
    monkeypatch.syspath_prepend(pytester.path)
    done = session()
    done.assert_outcomes(errors=5)
    done.stdout.fnmatch_lines(
        ["cases.jsonl has no outputs and no agent answers it. Name an agent with --assay-agent*"]
    )
    done = session("--assay-agent", "bot:answer")
    done.assert_outcomes(passed=4, failed=1)
    done.stdout.fnmatch_lines_random(
        [
            "*cases.jsonl: 2 results; details: *",
            "*names.suite.yaml: not passed, score 1.000; its cost is unknown; the suite allows $0.50*; details: assay show run-*",
        ]
    )
    assert (
        session("--assay-agent", "bot:answer", "-k", "names", "--assay-no-save").ret
        == pytest.ExitCode.TESTS_FAILED
    )  # its cost is unknown
    beside.joinpath("outputs.jsonl").write_text('{"value": "Hello Ada"}\n{"value": 1}\n')
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{pytester.path}/none/runs.db")
    done = session("-k", "cases.jsonl")
    done.assert_outcomes(passed=2, deselected=3)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["the results are not stored: *"])
    assert session("-o", "assay_files=false").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_workers_of_xdist_share_one_run(pytester, monkeypatch, capsys):
    """In processes: two workers, one run for each function, and the suite runs once."""
    monkeypatch.setenv("ASSAY_HOME", str(pytester.path / "home"))
    pytester.path.joinpath("suite.yaml").write_text(SUITE.replace("LIMITS", ""))
    pytester.path.joinpath("cases.jsonl").write_text(
        "".join(f'{{"id": "c{at}", "input": {at}, "expected": {at % 3}}}\n' for at in range(6))
    )
    pytester.path.joinpath("checks.yaml").write_text(CHECKS)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.assay
        async def test_cases(input):
            return input

        @pytest.mark.parametrize("model", ["small", "large"])
        @pytest.mark.assay(suite="suite.yaml")
        def test_suite(input, model):
            with open("calls", "a") as file:
                file.write(f"{model}-{input['name']} ")
            return input["name"]
        """
    )
    command = [sys.executable, "-m", "pytest", *QUIET, "-q", "-n", "2", "-k", "not eve"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "3 failed, 7 passed" in done.stdout, done.stdout + done.stderr
    assert "exact_match failed: expected 0, got 3" in done.stdout
    assert sorted(pytester.path.joinpath("calls").read_text().split()) == [
        f"{model}-{name}" for model in ("large", "small") for name in ("Ada", "Bob")
    ]
    names = stored(capsys)
    assert names.count("::test_cases") == 1
    assert names.count('"run-') == 0
    assert (
        "test_workers_of_xdist_share_one_run.py::test_suite[model=small]: 2 of 3 tasks selected"
        in done.stdout
    )


def test_a_session_without_marks_loads_only_the_hooks(pytester):
    pytester.makepyfile("def test_plain(): pass")
    code = f"import sys, pytest; pytest.main({[*QUIET, '-q']}); print(*[one for one in sys.modules if one.startswith('assay')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    names = {"assay", "assay.version", "assay.pytest_plugin", "assay.pytest_plugin.outcome"}
    assert set(done.stdout.splitlines()[-1].split()) == names


OUTCOMES = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=8)
BARS = st.builds(
    Bar,
    min_pass_rate=st.sampled_from([0, 0.5, 0.8, 1]),
    decide_by=st.sampled_from(["estimate", "lower_bound"]),
)


def test_an_interval_counts_cases():
    """Ten samples of each of four cases say less about other cases than forty cases."""
    bar = Bar(min_pass_rate=0.5, decide_by="lower_bound")
    outcomes = [True] * 30 + [False] * 10
    assert decide(outcomes, bar).passed
    assert not decide(outcomes, bar, cases=[str(at // 10) for at in range(40)]).passed


@given(OUTCOMES, BARS, st.booleans())
def test_a_verdict_holds_whatever_was_not_measured(outcomes, bar, other):
    verdict = decide(outcomes, bar).passed
    completed = decide([other if one is None else one for one in outcomes], bar).passed
    assert completed is not None
    if verdict is not None:
        assert verdict == completed
    if set(outcomes) == {None}:
        assert verdict is None or (verdict is False and not completed)
