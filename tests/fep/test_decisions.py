"""One short test for each decision about FEP that can be shown today; the table is docs/fep-decisions.md."""

import asyncio
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec import UNSET

import assay
from assay import Checker, InvalidRequest
from assay.backends.provider_config import ProviderPolicy
from assay.backends.providers import ConfiguredProviders
from assay.checks.standard.semantic_similarity import similarity
from assay.errors import BadLine
from assay.fep.planning.plan import Plan
from assay.inputs.files import read_items
from assay.ports import Provider
from support.documents import cells, section, table
from support.models.judges import CANARY, configure, evaluate, judge, near
from support.models.provider_server import ProviderServer
from support.runner import forkserver
from support.waiting import PATIENCE, until

PAGE = Path(__file__).parents[2] / "docs" / "fep-decisions.md"
CASE: Any = {"id": "a", "input": "?", "expected": "Paris", "nothing": None}
OUTPUT: Any = {
    "id": "o",
    "value": {"text": "Paris", "list": ["a", "b"], "of": [{"n": 1}, {"n": 2}], "none": []},
}


class Given(Checker):
    """Answers with what it was given."""

    type = "given"
    waits = False

    one: Any = None
    several: list[Any] | msgspec.UnsetType = UNSET
    config: assay.Opaque | msgspec.UnsetType = UNSET
    text: assay.Text | msgspec.UnsetType = UNSET

    def run(self, services):
        if self.text == "raise":
            raise RuntimeError("oops")
        shown: Any = msgspec.to_builtins(self)
        return {name: str(value) if name == "text" else value for name, value in shown.items()}


class Sleepy(Checker):
    type = "sleepy"
    started: ClassVar = threading.Event()
    seconds: float = 5.0

    def run(self, services):
        Sleepy.started.set()
        time.sleep(self.seconds)
        return {"passed": True}


class Killable(Checker):
    type = "killable"
    isolate = True
    seconds: float = 60.0

    def run(self, services):
        time.sleep(self.seconds)
        return {"process": os.getpid()}


class Newer(Given):
    version = "1.4.0"


class Newest(Given):
    version = "2.0.0"


class Next(Given):
    version = "2.1.0-beta.1"


class Later(Given):
    version = "3.0.0-rc.1"


REGISTRY = assay.STANDARD.with_checks([Given, Sleepy, Killable])


def check(type, version=None, **arguments) -> Any:
    return {"type": type, "arguments": arguments} | ({"version": version} if version else {})


def run(*checks, cases=(CASE,), outputs=(OUTPUT,), **options) -> Any:
    return assay.evaluate_sync(
        list(cases), list(outputs), list(checks), **{"registry": REGISTRY, "timeout": 0.2, **options}
    )


def answers(*checks, **options) -> Any:
    return run(*checks, **options).results[0].check_results


def answer(type, **arguments) -> Any:
    """The one answer, or the error's type."""
    (one,) = answers(check(type, **arguments))
    return one.results if one.status == "completed" else one.error.type


def passed(type, **arguments):
    return answer(type, **arguments) == {"passed": True}


def refused(*checks, **options):
    with pytest.raises(InvalidRequest) as refusal:
        run(*checks, **options)
    return {problem.place for problem in refusal.value.problems}


def command(*arguments, folder):
    return subprocess.run(
        [forkserver.python(), "-m", "assay", "evaluate", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


ANY = check("exists", path="$.output")


# shapes


@pytest.mark.parametrize("value", ["text", 1, None, True, [1, "a"], {"a": 1}])
def test_decision_01_any_json_value(value):
    result = run(ANY, cases=[{"id": "a", "input": value, "expected": value}], outputs=[{"value": value}])
    assert result.results[0].execution_context.output == {"value": value}
    assert refused(ANY, cases=[{"id": "a"}], outputs=[{}]) == {"test_cases[0].input", "outputs[0].value"}


def test_decision_05_every_registered_type():
    assert answer("given", one=1) == {"one": 1}
    assert passed("has_items", items=[1], required_items=[1])


def test_decision_07_no_test_case_id_in_a_check_result():
    (one,) = answers(ANY)
    assert "test_case_id" not in msgspec.to_builtins(one)


def test_decision_08_different_texts_fail_and_an_errored_case_is_an_errored_run():
    assert answer("exact_match", actual="The capital is Paris", expected="Paris") == {"passed": False}
    assert run(ANY, check("exact_match", actual="$.nowhere", expected="")).status == "error"


def test_decision_09_check_counts_are_always_there():
    summary = run(ANY).summary
    assert (summary.total_checks, summary.completed_checks) == (1, 1)
    assert (summary.error_checks, summary.skipped_checks) == (0, 0)


def test_decision_10_unknown_members_are_kept_and_unknown_members_of_a_check_refused():
    case, output = {**CASE, "context": {"lang": "fr"}}, {**OUTPUT, "confidence_score": 0.9}
    (result,) = run(
        check("exact_match", actual="$.test_case.context.lang", expected="fr"),
        check("threshold", value="$.output.confidence_score", min_value=0.5),
        check("exact_match", actual="$.output.id", expected="o"),
        cases=[case], outputs=[output],
    ).results  # fmt: skip
    assert [one.results for one in result.check_results] == [{"passed": True}] * 3
    assert result.execution_context.test_case == case
    assert refused({**ANY, "weight": 2}) == {"checks[0].weight"}


def test_decision_11_inline_checks_run_alone_and_are_not_echoed():
    case = {**CASE, "checks": [ANY]}
    (result,) = assay.evaluate_sync([case], [OUTPUT]).results
    assert result.check_results[0].results == {"passed": True}
    assert result.execution_context.test_case == CASE
    assert refused(ANY, cases=[case]) == {"test_cases[0].checks"}


# arguments and paths


def test_decision_12_only_a_top_level_string_is_a_path():
    assert answer("given", one="$.test_case.id") == {"one": "a"}
    assert answer("given", one=["$.test_case.id"]) == {"one": ["$.test_case.id"]}
    assert answer("given", one="$") == {"one": "$"}
    assert refused(check("given", config="$.output.value")) == {"checks[0].arguments.config"}  # opaque


def test_decision_13_a_backslash_makes_it_text():
    assert answer("given", one="\\$.test_case.id") == {"one": "$.test_case.id"}
    assert answer("given", one="\\$5") == {"one": "\\$5"}
    assert passed("regex", text="\\$.99", pattern="[$].99")


@pytest.mark.parametrize(
    ("argument", "path", "found"),
    [
        ("one", "$.output.value.text", "Paris"),
        ("one", "$.output.value.list", ["a", "b"]),
        ("one", "$.output.value.absent", "jsonpath_error"),
        ("one", "$.output.value.list[*]", "jsonpath_error"),
        ("several", "$.output.value.of[*].n", [1, 2]),
        ("several", "$.output.value.list", ["a", "b"]),  # one node, and it is a list
        ("several", "$.output.value.text", ["Paris"]),
        ("several", "$.output.value.none[*]", []),
        ("several", "$.output.value.absent", "jsonpath_error"),
    ],
)
def test_decision_14_what_a_path_yields(argument, path, found):
    given = answer("given", **{argument: path})
    assert (given if isinstance(given, str) else given[argument]) == found


def test_decision_15_null_is_a_value_and_absent_is_an_error():
    assert answer("given", one="$.test_case.nothing") == {"one": None}
    assert answer("given", one="$.test_case.absent") == "jsonpath_error"


def test_decision_16_a_malformed_path_is_that_checks_error():
    wrong, right = answers(check("given", one="$.a[?"), ANY)
    assert wrong.error.type == "jsonpath_error"
    assert "at position 5" in wrong.error.message
    assert right.results == {"passed": True}


def test_decision_17_resolved_arguments_are_all_of_them_or_none(tmp_path):
    (one,) = answers(check("threshold", value="$.output.value.of[0].n", min_value=0))
    assert msgspec.to_builtins(one.resolved_arguments) == {
        "value": {"jsonpath": "$.output.value.of[0].n", "value": 1},
        "min_value": {"value": 0},  # and no max_value: it was not given, and has no default
        "min_inclusive": {"value": True},
        "max_inclusive": {"value": True},
        "negate": {"value": False},
    }
    (tmp_path / "request.json").write_text(
        json.dumps({"test_cases": [CASE], "outputs": [OUTPUT], "checks": [ANY]})
    )
    done = command("request.json", "--no-resolved-arguments", "-o", "-", folder=tmp_path)
    assert "resolved_arguments" not in json.loads(done.stdout)["check_results"][0]
    (one,) = answers(ANY, resolved_arguments=False)
    assert (one.results, one.resolved_arguments) == ({"passed": True}, UNSET)


# checks


@pytest.mark.parametrize(
    ("type", "arguments", "found"),
    [
        ("exact_match", {"actual": {"jsonpath_expression": "$.output.value.text"}, "expected": {"literal_string": "Paris"}}, True),
        ("exact_match", {"actual": {"jsonpathExpression": "$.test_case.id"}, "expected": {"literalString": "$.a"}}, False),
        ("exact_match", {"actual": {"literal_string": "\\$.a"}, "expected": "[$].a"}, False),  # exactly these characters
        ("exact_match", {"actual": {"literal_object": {"a": 1}}, "expected": '{"a":1}'}, True),
        ("exact_match", {"actual": {"literal_bool": True}, "expected": "true"}, True),
        ("contains", {"text": {"jsonpath_expression": "$.output.value.text"}, "phrases": ["ari"]}, True),
        ("regex", {"text": {"literal_string": "$.a"}, "pattern": "^[$][.]a$"}, True),
        ("threshold", {"value": {"literal_number": 0.5}, "min_value": 0.4}, True),
        ("exact_match", {"actual": {"literal_string": 1}, "expected": "1"}, None),
        ("exact_match", {"actual": {"jsonpath_expression": "Paris"}, "expected": "1"}, None),
        ("exact_match", {"actual": {"literal_string": "a", "literal_number": 1}, "expected": "1"}, None),
        ("exact_match", {"actual": {"literal_string": "a", "more": 1}, "expected": '{"literal_string":"a","more":1}'}, True),
        ("json_match", {"actual": {"literal_string": "a"}, "expected": {"literal_string": "a"}}, True),  # the text has none there
    ],
)  # fmt: skip
def test_typed_arguments_of_the_proto_are_understood_or_refused(type, arguments, found):
    if found is None:
        assert refused(check(type, **arguments)) == {"checks[0].arguments.actual"}
    else:
        assert passed(type, **arguments) is found


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (1.0, "1"), (True, "true"), ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'), ([1, "x"], '[1,"x"]')],
)
def test_decision_19_the_text_of_a_value(value, text):
    assert passed("exact_match", actual=value, expected=text)
    assert answer("exact_match", actual="$.test_case.nothing", expected="") == "validation_error"
    assert refused(check("exact_match", actual=None, expected="")) == {"checks[0].arguments.actual"}


def test_decision_20_casefold_and_no_normalisation():
    assert passed("exact_match", actual="STRASSE", expected="straße", case_sensitive=False)
    assert not passed("exact_match", actual="e\u0301", expected="\u00e9", case_sensitive=False)


def test_decision_21_negate_is_none_of_the_phrases():
    assert not passed("contains", text="a b", phrases=["a", "c"], negate=True)
    assert passed("contains", text="a b", phrases=["c", "d"], negate=True)
    assert refused(check("contains", text="a", phrases=[""])) == {"checks[0].arguments.phrases[0]"}


def test_decision_22_regex_searches_in_pythons_dialect_for_a_second():
    assert passed("regex", text="say: Paris!", pattern=r"(?P<city>Paris)")
    assert answer("regex", text="a" * 60 + "!", pattern=r"^(\w|\w\w|\w\w\w)*$") == "timeout_error"
    assert refused(check("regex", text="a", pattern="a", flags={"verbose": True})) == {
        "checks[0].arguments.flags.verbose"
    }


def test_decision_23_threshold_takes_json_numbers():
    assert answer("threshold", value="$.output.value.text", min_value=0) == "validation_error"
    assert refused(check("threshold", value=True, min_value=0)) == {"checks[0].arguments.value"}
    assert refused(check("threshold", value=1)) == {"checks[0].arguments"}
    assert refused(check("threshold", value=1, min_value=2, max_value=1)) == {"checks[0].arguments"}


@pytest.mark.parametrize(
    ("asked", "type", "recoverable"),
    [
        (check("given", one="$.absent"), "jsonpath_error", False),
        (check("given", text="$.test_case.nothing"), "validation_error", False),
        (check("regex", text="a", pattern="$.output.value.bad"), "validation_error", False),
        (check("sleepy"), "timeout_error", True),
        (check("given", text="raise"), "unknown_error", False),
    ],
)
def test_decision_26_errors_by_kind(asked, type, recoverable):
    (one,) = answers(asked, outputs=[{"value": {"bad": "("}}])
    assert (one.error.type, one.error.recoverable) == (type, recoverable)


def test_decision_27_no_answer_is_no_result():
    (one,) = answers(check("exact_match", actual="$.absent", expected=""))
    assert (one.status, one.results) == ("error", {})


def test_decision_28_skip_is_what_was_not_executed():
    wrong = check("given", one="$.absent")
    first, second = run(ANY, wrong, ANY, cases=[CASE, CASE], outputs=[OUTPUT, OUTPUT], fail_fast=True).results
    assert [one.status for one in first.check_results] == ["completed", "error", "skip"]
    assert {one.status for one in second.check_results} == {"skip"}

    async def cancelled():
        Sleepy.started.clear()
        task = asyncio.create_task(
            assay.evaluate([CASE], [OUTPUT], [ANY, check("sleepy")], registry=REGISTRY)
        )
        await until(Sleepy.started.is_set)
        task.cancel()
        return await task

    result = asyncio.run(cancelled())
    assert [one.status for one in result.results[0].check_results] == ["completed", "skip"]
    assert result.status == "skip"


@pytest.mark.parametrize(
    ("checks", "fail_fast", "status"),
    [
        ([], False, "completed"),
        ([ANY], False, "completed"),
        ([ANY, check("given", one="$.absent"), ANY], True, "error"),  # error above skip
    ],
)
def test_decision_29_status_is_the_worst(checks, fail_fast, status):
    result = run(*checks, fail_fast=fail_fast)
    assert (result.results[0].status, result.status) == (status, status)


def test_decision_30_what_counts_as_passed():
    from assay.results.tally import Tally

    tally = Tally()
    answers = tally.answers(("one",))
    for results in (
        {"passed": True},
        {"response": {"passed": False}},
        {"passed": True, "response": {"passed": False}},
        {"score": 3},
        {"response": {"tone": "calm"}},
    ):
        answers.close("a", answers.record(0, "completed", results, "a"))
    row = tally.rows["one"]
    assert (row.passed, row.failed, row.other) == (2, 1, 2)
    assert (row.numbers, row.categories) == ({"score": (1, 3.0)}, {"tone": {"calm": 1}})


def test_decision_31_versions_always_and_times_where_it_waits():
    quick, slow = answers(ANY, check("sleepy", seconds=0.01))
    assert quick.metadata == {"check_version": "1.0.0"}
    assert slow.metadata["check_version"] == "1.0.0"
    assert slow.metadata["execution_time_ms"] >= 10


def test_decision_32_a_thread_is_abandoned_and_a_process_killed():
    began = time.perf_counter()
    (thread,) = answers(check("sleepy", seconds=PATIENCE), timeout=0.2)
    assert time.perf_counter() - began < PATIENCE
    assert thread.error.type == "timeout_error"
    (first,) = answers(
        check("killable", seconds=0), timeout=60
    )  # to start a process takes as long as it takes
    assert first.results["process"] != os.getpid()
    hung, after = answers(check("killable"), check("sleepy", seconds=0.1), timeout=2, concurrency=1)
    assert hung.error.type == "timeout_error"
    assert after.results == {"passed": True}


# requests


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"checks": [ANY], "outputs": [OUTPUT] * 2}, {"outputs"}),
        ({"checks": [[ANY], [ANY]]}, {"checks"}),  # one list a case, and there is one case
        ({"checks": [ANY, [ANY]]}, {"checks"}),
        (
            {"checks": [check("vibes"), check("exists", version="9.0.0"), check("exists", version="new")]},
            {
                "checks[0].type",
                "checks[1].version",
                "checks[1].arguments.path",
                "checks[2].version",
                "checks[2].arguments.path",
            },
        ),
        (
            {"checks": [check("regex", pattern="(", text=1), check("threshold", value="1", least=1)]},
            {
                "checks[0].arguments.pattern",
                "checks[1].arguments",  # no bound was given
                "checks[1].arguments.value",
                "checks[1].arguments.least",
            },
        ),
        (
            {"checks": [ANY], "cases": [CASE, {**CASE, "input": 2}], "outputs": [OUTPUT] * 2},
            {"test_cases[1].id"},
        ),
        (  # none of them hides another
            {
                "checks": [{"type": 1, "weight": 2}, check("vibes"), check("exists", "9.0.0", path="$.output")],
                "cases": [{"id": ""}, {**CASE, "input": [1.5, float("nan")]}, {**CASE, "checks": [check("regex", text="a")]}],
                "outputs": [{"id": "", "metadata": 1}, {"value": {"a": object()}}, OUTPUT, {"val": 1}],
                "experiment_metadata": {"name": 1, "nom": 2},
            },
            {
                "outputs", "checks[0].type", "checks[0].weight", "checks[0].arguments", "checks[1].type", "checks[2].version",
                "test_cases[0].id", "test_cases[0].input", "test_cases[1].input[1]", "test_cases[2].checks[0].arguments.pattern",
                "outputs[0].id", "outputs[0].value", "outputs[0].metadata", "outputs[1].value.a", "outputs[3].value",
                "experiment_metadata.name", "experiment_metadata.nom",
            },
        ),
    ],
)  # fmt: skip
def test_decision_33_what_refuses_a_request_all_at_once(options, places):
    assert refused(*options.pop("checks"), **options) == places
    assert run(ANY, cases=[CASE] * 2, outputs=[OUTPUT] * 2).status == "completed"  # repeated sampling


async def each_later(items):
    for item in items:
        yield item


def test_decision_34_a_stream_stops_at_a_bad_line_and_keeps_what_came_before(tmp_path):
    line = json.dumps({"test_case": CASE, "output": OUTPUT})
    (tmp_path / "c.jsonl").write_text(f"{line}\n{line}\nno\n{line}\n")
    (tmp_path / "k.json").write_text(json.dumps([ANY]))
    files = ("--contexts", "c.jsonl", "--checks", "k.json", "-o", "-")
    stopped = command(*files, folder=tmp_path)
    assert (stopped.returncode, len(stopped.stdout.splitlines())) == (1, 2)
    assert "c.jsonl:3: not JSON" in stopped.stderr
    went_on = command(*files, "--skip-bad-lines", folder=tmp_path)
    assert (went_on.returncode, len(went_on.stdout.splitlines())) == (1, 3)
    assert "1 line skipped and not measured" in went_on.stderr


@pytest.mark.parametrize("options", [{}, {"agent": lambda question: "Rome"}], ids=["outputs", "agent"])
@pytest.mark.parametrize("each", [iter, each_later], ids=["sync", "async"])
def test_decision_53_another_input_under_one_id_ends_a_stream(options, each):
    """In the library; `tests/cli/evaluate/test_one_input_an_id.py` has the other ways in."""
    cases = [CASE, {**CASE, "metadata": {"trial": 2}}, {**CASE, "id": "b"}, {**CASE, "input": "!"}, CASE]
    contexts = cases if options else [(case, OUTPUT) for case in cases]
    kept = []

    async def read():
        async for result in assay.evaluate_stream(each(contexts), [ANY], **options):
            kept.append(result.execution_context.test_case["id"])  # noqa: PERF401  # kept before the refusal

    with pytest.raises(InvalidRequest) as refusal:
        asyncio.run(read())
    assert str(refusal.value) == (
        "contexts[3]: test_case.id: 'a' is already the id of a test case with another input: contexts[0]"
    )
    assert kept == ["a", "a", "b"]


def test_decision_35_what_is_known_per_case_is_an_errored_check():
    typed = check("threshold", value="$.output.value", min_value=0)
    result = run(typed, cases=[CASE] * 3, outputs=[{"value": "1"}, {"value": 1}, {"value": None}])
    assert [one.status for one in result.results] == ["error", "completed", "error"]


def test_decision_36_no_test_cases_is_completed_and_the_command_exits_1(tmp_path):
    result = run(ANY, cases=[], outputs=[])
    assert (result.status, result.results) == ("completed", [])
    (tmp_path / "c.jsonl").touch()
    (tmp_path / "k.json").write_text(json.dumps([ANY]))
    done = command("--contexts", "c.jsonl", "--checks", "k.json", folder=tmp_path)
    assert done.returncode == 1
    assert "nothing to evaluate" in done.stderr


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, "2.0.0"),  # the newest release; a pre-release is only ever asked for
        ("1.0.0", "1.4.0"),
        ("1.4.0", "1.4.0"),
        ("1.5.0", None),
        ("2.0.0", "2.0.0"),
        ("2.1.0-beta.1", "2.1.0-beta.1"),
        ("3.0.0-rc.1", "3.0.0-rc.1"),
    ],
)
def test_decision_37_a_version_pins_its_major(asked, found):
    registry = assay.STANDARD.with_checks([Given, Newer, Newest, Next, Later])
    if found is None:
        assert refused(check("given", asked), registry=registry) == {"checks[0].version"}
    else:
        assert answers(check("given", asked), registry=registry)[0].metadata == {"check_version": found}


def test_decision_38_a_custom_check_is_registered_by_the_operator_only():
    assert refused(check("given"), registry=assay.STANDARD) == {"checks[0].type"}
    assert refused(check("test_decisions:Given")) == {"checks[0].type"}  # a request brings no code


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("ASSAY_MAX_CASES", "the limit is 1 (raise it with ASSAY_MAX_CASES)"),
        ("ASSAY_MAX_CHECKS", "the limit is 1 (raise it with ASSAY_MAX_CHECKS)"),
        ("ASSAY_MAX_DEPTH", "more than 1 deep, which is the limit (raise it with ASSAY_MAX_DEPTH)"),
    ],
)
def test_decision_40_a_limit_is_a_setting_and_says_so(setting, words, monkeypatch):
    monkeypatch.setenv(setting, "1")
    with pytest.raises(InvalidRequest, match=re.escape(words)):
        run(ANY, ANY, cases=[CASE] * 2, outputs=[OUTPUT] * 2)


EXPORTED = {  # in the shape in which the reference implementation writes what it was given
    "test_cases": [
        {"id": "a", "input": "?", "expected": None, "metadata": None, "checks": None},
        {"id": "b", "input": {"q": "?"}, "expected": "x", "metadata": {"k": None}, "checks": None},
    ],
    "outputs": [{"value": "x", "metadata": None, "id": None}, {"value": None, "metadata": None, "id": None}],
    "checks": [
        {"type": "exists", "arguments": {"path": "$.output.id", "negate": True}, "version": None, "metadata": None},
        {"type": "exists", "arguments": {"path": "$.test_case.expected"}, "version": None, "metadata": None},
    ],
    "experiment_metadata": None,
}  # fmt: skip
READ = [
    {"test_case": {"id": "a", "input": "?", "expected": None}, "output": {"value": "x"}},
    {"test_case": {"id": "b", "input": {"q": "?"}, "expected": "x", "metadata": {"k": None}}, "output": {"value": None}},
]  # fmt: skip


@pytest.mark.parametrize("way", ["library", "structs", "request", "contexts"])
def test_decision_44_null_is_as_if_absent(way, tmp_path):
    if way in ("library", "structs"):
        request: Any = dict(EXPORTED)
        if way == "structs":
            request["checks"] = [
                assay.Check(type="exists", arguments={"path": "$.test_case.expected"}, version=None)
            ]
            request = msgspec.convert(request, assay.EvaluationRequest)
            assert (
                request.experiment_metadata is request.test_cases[0].checks is request.outputs[0].id is UNSET
            )
            request = {name: getattr(request, name) for name in ("test_cases", "outputs", "checks")}
        result = assay.evaluate_sync(*request.values())
        lines = [msgspec.to_builtins(one) for one in result.results]
        assert result.experiment is UNSET
    else:
        pairs = zip(EXPORTED["test_cases"], EXPORTED["outputs"], strict=True)
        contexts = [json.dumps({"test_case": case, "output": output}) for case, output in pairs]
        (tmp_path / "r.json").write_text(json.dumps(EXPORTED))
        (tmp_path / "c.jsonl").write_text("\n".join(contexts))
        (tmp_path / "k.yaml").write_text(json.dumps(EXPORTED["checks"]))
        given = ("r.json",) if way == "request" else ("--contexts", "c.jsonl", "--checks", "k.yaml")
        lines = [json.loads(line) for line in command(*given, "-o", "-", folder=tmp_path).stdout.splitlines()]
    assert [one["execution_context"] for one in lines] == READ
    assert all(check["results"] == {"passed": True} for one in lines for check in one["check_results"])
    for case, output in (({"id": None}, {}), ({}, {"metadata": []}), ({"checks": 1}, {})):
        assert refused(ANY, cases=[{**CASE, **case}], outputs=[{**OUTPUT, **output}])


def test_decision_45_a_check_has_a_name(tmp_path):
    one, two, three = (check("contains", text="$.output.value.text", phrases=["Paris"]) for _ in range(3))
    named = [one | {"name": "says Paris"}, two, three | {"name": "contains"}, ANY | {"name": None}]
    result = run(*named)
    found = [one.metadata.get("check_name") for one in result.results[0].check_results]
    assert found == ["says Paris", None, "contains", None]
    assert list(result.metadata["statistics"]["checks"]) == [
        "says Paris",
        "contains #1",
        "contains",
        "exists",
    ]
    (tmp_path / "r.json").write_text(
        json.dumps({"test_cases": [CASE], "outputs": [OUTPUT], "checks": [named]})
    )
    document = json.loads(command("r.json", "--json", folder=tmp_path).stdout)
    assert list(document["checks"]) == [
        "says Paris",
        "contains",
        "exists",
    ]  # one list a case: rows by name or type
    for names, places in (
        (["a", "a"], {"checks[1].name"}),
        (["", "x" * 129], {"checks[0].name", "checks[1].name"}),
        (["x" * 128, 5], {"checks[1].name"}),
    ):
        assert refused(*(ANY | {"name": name} for name in names)) == places
    assert refused([ANY | {"name": "a"}, {**ANY, "name": "a", "type": "vibes"}]) == {
        "checks[0][1].type", "checks[0][1].name",
    }  # fmt: skip


def holds(text: Any, type: str, parse: str | None, **arguments: Any):
    """What a check says of an output that is this text: passed, an error's type, or the reason why it was not parsed."""
    name = {"json_match": "actual", "has_items": "items"}.get(type, "value")
    how = {"parse": parse} if parse else {}
    one = check(type, **{name: "$.output.value"}, **arguments, **how)
    (found,) = answers(one, outputs=[{"value": text}], cases=[CASE | {"expected": '{"a": 1.0}'}])
    if found.status == "error":
        return found.error.type
    assert ("parse_error" in found.metadata) <= (found.results == {"passed": False})
    return found.metadata.get("parse_error", found.results["passed"])


A_NUMBER: dict[str, Any] = {"min_value": 1}
AN_OBJECT: dict[str, Any] = {"schema": {"type": "object"}}
FROM_CASE = {"expected": "$.test_case.expected"}


@pytest.mark.parametrize(
    ("text", "type", "parse", "arguments", "found"),
    [
        ("2", "threshold", None, A_NUMBER, "validation_error"),
        ("2", "threshold", "number", A_NUMBER, True),
        (" +2.5e0\n", "threshold", "number", A_NUMBER, True),
        (".5", "threshold", "number", A_NUMBER, False),
        ("2", "threshold", "json", A_NUMBER, True),
        (2, "threshold", "number", A_NUMBER, True),
        ("~~~\n3\n~~~", "threshold", "number", A_NUMBER, True),
        ("", "threshold", "number", A_NUMBER, "expected a number, got an empty text"),
        ("two", "threshold", "number", A_NUMBER | {"negate": True}, "the text is not a number"),
        ("1,234", "threshold", "number", A_NUMBER, "the text is not a number"),
        ("٣", "threshold", "number", A_NUMBER, "the text is not a number"),
        ("1e999", "threshold", "number", A_NUMBER, "the number is too large"),
        ("9" * 5_000, "threshold", "number", A_NUMBER, "the number has too many digits"),
        ("{}", "threshold", "json", A_NUMBER, "expected a number, got JSON that is an object"),
        (None, "threshold", "json", A_NUMBER, "validation_error"),
        (True, "threshold", "number", A_NUMBER, "validation_error"),
        ("{}", "json_schema", None, AN_OBJECT, False),
        ("{}", "json_schema", "json", AN_OBJECT, True),
        ({}, "json_schema", "json", AN_OBJECT, True),
        ("So:\n````json\n{}\n````\nand so on", "json_schema", "json", AN_OBJECT, True),
        ("```\nno\n```\n```json\n{}", "json_schema", "json", AN_OBJECT, True),
        ("`{}`", "json_schema", "json", AN_OBJECT, "not JSON: invalid character (byte 0)"),
        ("", "json_schema", "json", AN_OBJECT | {"negate": True}, "expected JSON, got an empty text"),
        ("[" * 600 + "]" * 600, "json_schema", "json", AN_OBJECT, "the JSON is nested more than 500 deep, which is the limit"),
        ("[" * 90_000, "json_schema", "json", AN_OBJECT, "the JSON is nested too deeply to be read"),
        ('{"a": 1}', "json_match", "json", FROM_CASE, True),  # a text in expected is read too
        ('{"a": 1}', "json_match", None, FROM_CASE, False),
        ('"x"', "json_match", "json", {"expected": "x"}, True),
        ("5", "json_match", "number", {"expected": 5.0}, True),
        ("5", "json_match", "number", {"expected": 5, "negate": True}, False),
        ('["a", "b"]', "has_items", "json", {"required_items": ["b"]}, True),
        (["a", "b"], "has_items", "json", {"required_items": ["b"]}, True),
        ('["a"]', "has_items", None, {"required_items": ["a"]}, False),
        ('{"a": 1}', "has_items", "json", {"required_items": ["a"]}, "expected a JSON list, got an object"),
        (["1", 2], "has_items", "number", {"required_items": [1, 2]}, True),
    ],
)  # fmt: skip
def test_decision_49_texts_are_parsed(text, type, parse, arguments, found):
    assert holds(text, type, parse, **arguments) == found


def test_decision_49_what_parse_may_be():
    value = {"value": "$.output.value", "min_value": 1}
    assert refused(check("threshold", **value, parse="xml")) == {"checks[0].arguments.parse"}
    assert refused(check("contains", text="x", phrases=["x"], parse="json")) == {"checks[0].arguments.parse"}
    assert refused(check("threshold", value="5", min_value=1)) == {"checks[0].arguments.value"}
    assert answer("threshold", value="5", min_value=1, parse="number") == {"passed": True}


def test_decision_50_yaml_is_the_core_schema_and_the_docs_say_so(tmp_path):
    rows = table(section(PAGE.parent / "evaluate.md", "### YAML"), "in YAML", "is")
    shown = {text for row in rows for text in re.findall("`([^`]+)`", row[0])}
    assert shown >= {"no", "12:30", "01234", "1e3", "0o14", ".nan", "~", "2026-11-16"}
    for written, meaning in rows:
        for text in re.findall("`([^`]+)`", written):
            (tmp_path / "file.yaml").write_text(f"- input: {text}\n  {text.replace('.', 'a')}x: 1\n")
            (piece,) = read_items(str(tmp_path / "file.yaml"), assay.ports.Limits())
            if meaning.startswith("refused"):
                assert "NaN and infinity" in piece.problems[0].message
            else:
                value = msgspec.json.decode(piece.raw)["input"]
                assert value == (text if meaning == "the text" else json.loads(meaning)), text
    (tmp_path / "file.yaml").write_text("- {1: a}\n")
    with pytest.raises(BadLine, match=r"a key must be text, got 1"):
        list(read_items(str(tmp_path / "file.yaml"), assay.ports.Limits()))


@pytest.mark.parametrize("type", ["exact_match", "json_match"])
@pytest.mark.parametrize("around", [lambda n: n, lambda n: [{"a": n}]], ids=["alone", "inside"])
def test_decision_51_numbers_are_equal_by_their_value(type, around):
    rows = [(10**21, 1e21, True), (1, 1.0, True), (2**53 + 1, 2**53, False), (2**53 + 1, 2.0**53, False)]
    rows += [(10**22, 1e22, True), (10**25, 1e25, False)]  # no double is 10^25
    for one, two, same in rows:
        assert passed(type, actual=around(one), expected=around(two)) is same


# judges: against a provider on this machine, whose models do what their names say


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Results of these checks on an output, in a folder where the local provider is configured."""
    monkeypatch.chdir(tmp_path)
    with ProviderServer() as server:
        configure(tmp_path, server)
        yield evaluate


def test_decision_06_response_and_metadata(judged):
    for result in judged(judge(), near()):
        assert set(result.results) == {"response", "metadata"}


def test_decision_17_secrets_are_not_shown(judged):
    (result,) = judged(judge(provider_config={"provider_name": "local", "api_key": CANARY}, model="ok"))
    assert result.status == "completed"
    assert result.resolved_arguments["provider_config"].value["api_key"] == "[REDACTED]"
    assert CANARY not in msgspec.json.encode(result).decode()


def test_decision_18_a_prompt_is_filled_once(judged):
    (result,) = judged(judge(prompt="{{$.output.value}} and {{$.test_case}}"), value="{{$.test_case.id}}")
    shown = result.resolved_arguments["prompt"].value
    assert shown == '{{$.test_case.id}} and {"id":"t","input":"Capital of France?","expected":"Paris"}'


def test_decision_23_the_same_for_the_threshold_of_similarity():
    for threshold in ({}, {"min_value": 0.9, "max_value": 0.1}):
        assert refused(near(threshold=threshold)) == {"checks[0].arguments.threshold"}
    for value in ("0.5", True):
        assert refused(near(threshold={"min_value": value})) == {"checks[0].arguments.threshold.min_value"}


@pytest.mark.parametrize(
    ("metric", "opposite", "across"),
    [("cosine", 0.0, 0.0), ("dot", 0.0, 0.0), ("euclidean", 1 / 3, 1 / (1 + 2**0.5))],
)
def test_decision_24_a_score_is_from_0_to_1(metric, opposite, across):
    assert similarity([1, 0], [2, 0], metric) == 1.0
    assert similarity([1, 0], [-3, 0], metric) == pytest.approx(opposite)
    assert similarity([1, 0], [0, 2], metric) == pytest.approx(across)
    assert refused(near(similarity_metric="manhattan")) == {"checks[0].arguments.similarity_metric"}


def test_decision_25_a_judge_answers_what_was_asked_or_not_at_all(judged):
    good, repaired, bad = judged(judge(), judge(model="wrong,ok"), judge(model="wrong"))
    assert good.results["response"] == repaired.results["response"] == {"passed": True}
    assert good.results["metadata"]["reasoning"]
    assert repaired.results["metadata"]["repaired"]
    assert (bad.status, bad.error.type, bad.error.recoverable) == ("error", "unknown_error", False)


def test_decision_26_providers_fail_by_kind(judged):
    scripts = {"429": True, "500": True, "drop": True, "401": False, "403": False, "404": False, "hang": True}
    for (script, recoverable), result in zip(
        scripts.items(), judged(*(judge(model=script) for script in scripts)), strict=True
    ):
        kind = "timeout_error" if script == "hang" else "unknown_error"
        assert (result.error.type, result.error.recoverable) == (kind, recoverable), script


@pytest.mark.parametrize(
    ("models", "recoverable"),
    [
        (["500"] * 3, True),
        (["ok", "500", "429"], True),
        (["401", "500", "500"], True),
        (["401"] * 3, False),
        (["404", "403", "ok"], False),
    ],
)
def test_decision_26_a_panel_fails_as_its_answers_do(judged, models, recoverable):
    (result,) = judged(judge(panel={"models": [f"local:{model}" for model in models]}))
    assert (result.status, result.error.type, result.error.recoverable) == (
        "error",
        "unknown_error",
        recoverable,
    )
    (near_result,) = judged(near(model_config={"model": "local:500"}))
    assert near_result.error.recoverable


def test_decision_31_cost_and_tokens_and_their_totals(judged, tmp_path):
    case, output = {"id": "a", "input": "?"}, {"value": "x"}
    done = assay.evaluate_sync([case] * 2, [output] * 2, [judge()])
    one = done.results[0]
    details = one.check_results[0].results["metadata"]
    assert details["cost_usd"] > 0
    assert one.metadata["cost_usd"] == details["cost_usd"]
    assert done.metadata["cost_usd"] == pytest.approx(2 * details["cost_usd"])
    assert done.metadata["tokens"] == 2 * details["tokens_used"]


def test_decision_39_a_request_to_a_server_may_only_name_a_provider():
    known = {"mine": Provider(name="mine", base_url="http://127.0.0.1:9/v1")}
    providers = ConfiguredProviders(known, {"judge": "mine:m"}, policy=ProviderPolicy(trusted=False))
    services = assay.Services(providers=providers)
    named = msgspec.convert(judge(provider_config={"provider_name": "mine"}), assay.Check)
    Plan([named], assay.STANDARD, services)
    for config in ({"base_url": "http://evil"}, {"api_key": "x"}, {"api_key": "${HOME}"}):
        described = msgspec.convert(judge(provider_config=config), assay.Check)
        with pytest.raises(InvalidRequest, match="may only name a provider"):
            Plan([described], assay.STANDARD, services)


# the table


def test_the_table_and_the_tests_agree():
    rows = table(PAGE.read_text("utf-8"), "#", "question", "decision", "test")
    numbers = [int(row[0].removeprefix("FEP-")) for row in rows]
    assert numbers[:43] == list(range(1, 44))
    assert numbers == sorted(set(numbers))
    named = set[str]()
    for number, (name, _, text, shown) in zip(numbers, rows, strict=True):
        assert name == f"FEP-{number}"
        assert text
        tests = re.findall(r"`tests/fep/test_decisions\.py::(\w+)`", shown)
        others = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", shown)
        assert others, f"{name} has no test"
        for file, test in others:
            assert f"def {test}(" in (PAGE.parents[1] / file).read_text("utf-8"), test
        assert all(test.startswith(f"test_decision_{number:02}_") for test in tests)
        named.update(tests)
    assert named == {name for name in globals() if name.startswith("test_decision_")}


def test_a_row_is_split_into_its_cells():
    assert cells(r"| a | b \| c | |") == ["a", "b | c", ""]
