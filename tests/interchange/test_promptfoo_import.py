"""promptfoo: configurations and results become cases, checks and recorded outputs."""

import json

import pytest

import assay
from assay.errors import Refusal
from assay.interchange.imported import CannotCarry, ImportReport
from assay.interchange.js_regex import python_pattern
from assay.interchange.promptfoo import files as promptfoo
from assay.interchange.promptfoo.assertions import ASSERTIONS
from assay.interchange.promptfoo.table import assertion_of_text
from assay.interchange.promptfoo.test_checks import TestChecks
from assay.interchange.templates import render, resolved
from assay.ports import Limits
from support.documents import DOCS
from support.interchange.promptfoo_samples import (
    FILES,
    OF_METADATA,
    TYPES,
    VERDICTS,
    WEIGHTED,
    A,
    B,
    result_row,
    results_document,
)


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder / next(iter(files)))


def imported(name):
    report = ImportReport()
    return list(promptfoo.read([name], report, Limits())), report


def left(report):
    return {one.what: (one.place.rpartition("/")[2], one.why) for one in report.not_carried}


def made_of(assertion, variables=None):
    report = ImportReport()
    found = TestChecks(report, None).of({"city": "Rome"} | (variables or {}), ("here", [assertion]))
    return *found, report


@pytest.mark.parametrize(
    ("type", "more", "output", "passes"), VERDICTS, ids=[f"{one[0]} {one[2]!r}" for one in VERDICTS]
)
def test_a_check_says_what_the_assertion_says(type, more, output, passes):
    checks, judges, report = made_of({"type": type, **more})
    assert (len(checks), judges, report.not_carried) == (1, [], [])
    result = assay.evaluate_sync([{"id": "a", "input": "?"}], [{"value": output}], checks)
    assert result.results[0].check_results[0].results["passed"] is passes


@pytest.mark.parametrize(("type", "more", "passes"), OF_METADATA)
def test_a_check_of_what_a_provider_says_answers_as_the_assertion(tmp_path, type, more, passes):
    row = result_row(0, 0, response={"output": "Paris", "finishReason": "stop"})
    row["testCase"]["assert"] = [{"type": type, **more}]
    write(tmp_path, {"out.jsonl": json.dumps(row)})
    (one,), report = imported(str(tmp_path / "out.jsonl"))
    assert report.not_carried == []
    result = assay.evaluate_sync([one.case], [one.output], one.checks)
    assert result.results[0].check_results[0].results["passed"] is passes


def test_every_type_that_is_carried_exactly_is_tested_with_and_without_not():
    exact = {name for name, row in ASSERTIONS.items() if row.how == "exactly"}
    tested = {one[0] for one in (*VERDICTS, *OF_METADATA)}
    assert exact | {f"not-{name}" for name in exact} <= tested


@pytest.mark.parametrize(("test", "score", "passes"), WEIGHTED)
def test_a_test_with_weights_and_thresholds_has_the_score_and_verdict_of_promptfoo(test, score, passes):
    report = ImportReport()
    checks, judges = TestChecks(report, None).of(
        {}, ("here", test["assert"]), threshold=test.get("threshold")
    )
    assert (judges, report.not_carried) == ([], [])
    found = (
        assay.evaluate_sync([{"id": "a", "input": "?"}], [{"value": "abc"}], checks).results[0].check_results
    )
    assert all(one.results["passed"] for one in found) is passes
    if len(found) == 1:  # a set and a check beside it have a verdict each
        assert found[0].results["score"] == pytest.approx(score)


def nested_sets(depth):
    made = A
    for _ in range(depth):
        made = {"type": "assert-set", "assert": [made]}
    return made


JUDGED = {"type": "llm-rubric", "value": "is kind"}
LOST = {"type": "javascript", "value": "1"}


@pytest.mark.parametrize(
    ("test", "checks", "judges", "left"),
    [
        ({"assert": [A, JUDGED], "threshold": 0.5}, [], ["test"], []),  # one verdict, which needs the judge
        ({"assert": [A | {"weight": 2}, B, JUDGED]}, ["test"], ["llm-rubric"], ["score of a test"]),
        ({"assert": [A, LOST], "threshold": 0.5}, ["contains"], [], ["assertion javascript", "threshold of a test"]),
        ({"assert": [A | {"weight": 2}, LOST]}, ["contains"], [], ["assertion javascript", "weights"]),
        ({"assert": [A | {"weight": 0}]}, [], [], ["assertion contains"]),
        ({"assert": [A | {"metricOnly": True}, B]}, ["test"], [], []),
        ({"assert": [A], "threshold": "0.5"}, ["contains"], [], ["threshold of a test"]),
        ({"assert": [A | {"weight": -1}, B]}, ["contains"], [], ["assertion contains"]),
        ({"assert": [{"type": "assert-set", "assert": [A, LOST], "threshold": 0.5}, B]}, ["contains"], [], ["assertion javascript", "assertion assert-set"]),
        ({"assert": [{"type": "assert-set", "assert": [A, B]}, B]}, ["contains", "contains #2", "contains #3"], [], []),
        ({"assert": [{"type": "assert-set", "assert": 3}]}, [], [], ["assert"]),
        ({"assert": [B, nested_sets(200)]}, ["contains"], [], ["assertion assert-set"]),
        ({"assert": [B, nested_sets(200)], "threshold": 1}, ["contains"], [], ["assertion assert-set"] * 4 + ["threshold of a test"]),
        ({"assert": [A] * 101, "threshold": 1}, [f"contains{f' #{at}' if at > 1 else ''}" for at in range(1, 102)], [], ["threshold of a test"]),
    ],
)  # fmt: skip
def test_what_of_weights_and_thresholds_is_not_carried_is_named(test, checks, judges, left):
    report = ImportReport()
    found = TestChecks(report, None).of({}, ("here", test["assert"]), threshold=test.get("threshold"))
    assert [[one["name"] for one in group] for group in found] == [checks, judges]
    assert [one.what for one in report.not_carried] == left


def test_every_type_of_promptfoo_is_in_the_table_and_on_the_page():
    assert sorted(ASSERTIONS) == sorted(TYPES)
    page = (DOCS / "import.md").read_text()
    rows = [f"| `{name}` | {row.how} | {row.text} |\n" for name, row in ASSERTIONS.items()]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("type", [name for name, row in ASSERTIONS.items() if row.how == "as a judge"])
def test_an_assertion_for_a_model_becomes_a_judge(type):
    assertion = {"type": type, "value": "is {{city}}"}
    checks, judges, report = made_of(assertion, {"context": "Rome is in Italy."})
    assert (len(judges), checks) == (1, [])
    assert [one.what for one in report.not_carried] == ["the choice of select-best"] * (type == "select-best")
    assay.STANDARD.find(judges[0]["type"], None)


@pytest.mark.parametrize(
    ("type", "texts", "passes"),
    [
        ("similar", ["Bananas have potassium.", "It is Paris."], True),
        ("similar", ["Bananas have potassium.", "Rain falls."], False),
        ("not-similar", ["Bananas have potassium.", "It is Paris."], False),  # none of them
        ("not-similar", ["Bananas have potassium.", "Rain falls."], True),
    ],
)
def test_a_text_is_similar_to_one_of_several(type, texts, passes):
    _, judges, report = made_of({"type": type, "value": texts, "threshold": 0.9})
    assert report.not_carried == []
    result = assay.evaluate_sync([{"id": "a", "input": "?"}], [{"value": "It is Paris."}], judges)
    assert result.results[0].check_results[0].results["passed"] is passes


@pytest.mark.parametrize("type", [name for name, row in ASSERTIONS.items() if row.how == "not carried"])
@pytest.mark.parametrize("prefix", ["", "not-"])
def test_what_has_no_equal_is_named_with_its_place_and_reason(prefix, type):
    checks, judges, report = made_of({"type": prefix + type, "value": "x"})
    assert (checks, judges) == ([], [])
    assert report.not_carried == [("here.assert[0]", f"assertion {prefix}{type}", ASSERTIONS[type].text)]


@pytest.mark.parametrize(
    ("assertion", "why"),
    [
        ({"type": "contains", "value": "{{ city | upper }}"}, "is no plain variable"),
        ({"type": "contains", "value": "{% for x in y %}{% endfor %}"}, "{% … %} block"),
        ({"type": "contains", "value": "{{ range.constructor('x')() }}"}, "is no plain variable"),
        ({"type": "contains", "value": "{{ env.SECRET }}"}, "environment"),
        ({"type": "contains", "value": "file://secret.txt"}, "in a file"),
        ({"type": "contains", "value": "x", "transform": "output.x"}, "code is not run"),
        ({"type": "contains", "value": "x", "weight": 0}, "always passes"),
        ({"type": "contains", "value": {}}, "no text"),
        ({"type": "similar", "value": []}, "no list of 1 to 50 texts"),
        ({"type": "is-xml", "value": 5}, "no text, no list of texts and no object with requiredElements"),
        ({"type": "contains-xml", "value": {"elements": ["a"]}}, "no object with requiredElements"),
        ({"type": "is-xml", "value": ["a.constructor"]}, "no element, attribute or text of one"),
        ({"type": "contains-xml", "value": "#text"}, "no element, attribute or text of one"),
        ({"type": "latency"}, "no threshold"),
        ({"type": "latency", "threshold": "5"}, "no number"),
        ({"type": "regex", "value": "("}, "none of Python's"),
        ({"type": "regex", "value": r"\p{L}"}, r"\p"),
        ({"type": "word-count", "value": {"max": 10**9}}, "5,000"),
        ({"type": "promptfoo:redteam:pii"}, "suite attack"),
        ({"type": "made-up"}, "no such type"),
        ({"value": "x"}, "no type"),
        ("contains", "no type"),
    ],
)
def test_an_assertion_that_cannot_be_carried_says_why(assertion, why):
    checks, judges, report = made_of(assertion)
    assert (checks, judges) == ([], [])
    assert why in report.not_carried[0].why


def test_a_configuration_becomes_a_case_for_each_test_and_prompt(tmp_path):
    cases, report = imported(write(tmp_path, FILES))
    assert [(one.case["id"], one.case["input"]) for one in cases[:4]] == [
        ("test-1", "Capital of France?"),
        ("test-1", "Which city is the capital of France?"),
        ("test-2", "Capital of Italy?"),
        ("test-2", "Which city is the capital of Italy?"),
    ]
    countries = [one.case["metadata"]["vars"]["country"] for one in cases[::2]]
    assert countries == ["France", "Italy", "Spain", "Kenya", "Mali", "Peru", "Chile"]
    assert {one.variant for one in cases} == {
        "Capital of {{country}}?",
        "second.txt: Which city is the capital of {{ country }}?",
    }
    assert cases[0].case["metadata"] | {"vars": 0} == {
        "vars": 0,
        "prompt": "Capital of {{country}}?",
        "topic": "europe",
        "description": "first",
    }
    names = [[check["name"] for check in one.checks] for one in cases[::2]]
    assert names == [
        ["test"],
        ["polite", "contains", "contains #2"],
        ["polite", "contains", "contains #2"],
        ["polite", "contains"],
        ["polite", "equals"],
        ["polite", "regex"],
        ["polite", "regex"],
    ]
    assert [check["arguments"]["criteria"] for check in cases[0].judges] == [["is short"]]
    assert [check["type"] for check in cases[6].judges] == ["semantic_similarity"]
    assert left(report) == {
        "providers": ("promptfooconfig.yaml: providers", "name the system with --agent"),
        "score of a test": (
            "promptfooconfig.yaml: tests[0]",
            "checks and judges have scores of their own",
        ),
        "provider of a judge": (
            "promptfooconfig.yaml: tests[0].assert[1].provider",
            "the judge has a prompt and a model of its own",
        ),
        "assertion javascript": ("promptfooconfig.yaml: tests[1].assert[0]", "code is not run"),
        "assertion python": (
            "promptfooconfig.yaml: tests[1].assert[1]",
            "code is not run; it is offered as a function to accept by hand",
        ),
    }
    assert list(report.functions) == ["assertion_1"]


def test_an_offered_function_answers_as_the_assertion(tmp_path):
    _, report = imported(write(tmp_path, FILES))
    scope = {}
    exec(report.functions["assertion_1"], scope)  # a person has read it
    case = {"input": "?", "metadata": {"vars": {}}}
    assert [scope["assertion_1"](output, case) for output in ("Rome", "R")] == [True, False]


@pytest.mark.parametrize(
    "reference", ["../secret.txt", "/etc/passwd", "link.txt", "file://../secret.txt", "sub/../../secret.txt"]
)
@pytest.mark.parametrize("place", ["prompt", "tests", "vars", "value"])
def test_a_file_outside_the_folder_is_not_read(tmp_path, reference, place):
    (tmp_path / "secret.txt").write_text("SECRET")
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    reference = f"file://{reference.removeprefix('file://')}"
    document = {
        "prompt": {"prompts": [reference, "p"], "tests": [{}]},
        "tests": {"prompts": ["p"], "tests": [{}, reference]},
        "vars": {"prompts": ["p{{x}}"], "tests": [{}, {"vars": {"x": reference}}]},
        "value": {"prompts": ["p"], "tests": [{"assert": [{"type": "equals", "value": reference}]}]},
    }[place]
    (folder / "promptfooconfig.json").write_text(json.dumps(document))
    cases, report = imported(str(folder / "promptfooconfig.json"))
    assert len(cases) == 1
    assert "SECRET" not in repr((cases, report.document()))
    assert report.counts.total() == 1


@pytest.mark.parametrize(
    "prompt",
    [
        "{% for x in y %}x{% endfor %}",
        "{{ x() }}",
        "{{ x | dump }}",
        "{{ constructor.constructor('return 1')() }}",
    ],
)
def test_a_template_with_code_is_never_run(tmp_path, prompt):
    name = write(
        tmp_path, {"promptfooconfig.json": json.dumps({"prompts": [prompt], "tests": [{"vars": {"x": "1"}}]})}
    )
    (case,), report = imported(name)
    assert case.case["input"] == {"x": "1"}
    assert "templates are not run" in report.not_carried[0].why


def test_variables_with_too_many_combinations_are_named(tmp_path):
    variables = {f"v{at}": ["a"] * 10 for at in range(9)}
    name = write(
        tmp_path, {"promptfooconfig.json": json.dumps({"prompts": ["p"], "tests": [{"vars": variables}, {}]})}
    )
    cases, report = imported(name)
    assert [one.case["input"] for one in cases] == ["p"]
    assert "more than 10,000 combinations" in report.not_carried[0].why


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("prompts: !!python/object:os.system {}\n", "unknown tag"),
        ("prompts: [&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], " + "".join(
            f"&{chr(99 + at)} [*{chr(98 + at)},*{chr(98 + at)},*{chr(98 + at)},*{chr(98 + at)},*{chr(98 + at)},*{chr(98 + at)},*{chr(98 + at)},*{chr(98 + at)}], " for at in range(9)
        ) + "]\ntests: []\n", "aliases expand"),
        ("prompts: [a]\ntests: [{vars: {x: .nan}}]\n", "NaN and infinity"),
        ("prompts: [a]\ntests: [{assert: [{type: cost, threshold: .inf}]}]\n", "NaN and infinity"),
        ("prompts: " + "[" * 2000 + "\n", "nested more than"),
        ("[]", "an object with prompts"),
    ],
)  # fmt: skip
def test_a_hostile_configuration_is_refused(tmp_path, text, refusal):
    with pytest.raises(Refusal, match=refusal):
        imported(write(tmp_path, {"promptfooconfig.yaml": text}))


@pytest.mark.parametrize("lines", [False, True])
def test_results_become_recorded_outputs_with_recorded_scores(tmp_path, lines):
    rows = [
        result_row(0, 0),
        result_row(0, 1, system="other", output="Rome", passed=False),
        result_row(1, 0, response={}, error="429", success=False, failureReason=2),
    ]
    text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(results_document(rows))
    cases, report = imported(write(tmp_path, {"out.jsonl" if lines else "out.json": text}))
    assert [(one.case["id"], one.variant) for one in cases] == [
        ("test-1", "echo Capital of {{country}}? #1"),
        ("test-1", "other Capital of {{country}}? #2"),
        ("test-2", "echo Capital of {{country}}? #1"),
    ]
    assert [one.output["value"] for one in cases] == ["Paris", "Rome", None]
    assert cases[0].checks[0]["arguments"]["phrases"] == ["France"]
    metadata = cases[0].output["metadata"]
    assert metadata["recorded"] == {
        "tool": "promptfoo",
        "scores": {"pass": 1, "score": 1.0},
        "details": [{"type": "contains", "pass": True, "score": 1.0, "reason": "?"}],
        "other": {"response.tokenUsage.total": 7, "gradingResult.reason": "?"},
    }
    assert {name: metadata[name] for name in ("latency_ms", "cost_usd", "tokens")} == {
        "latency_ms": 27,
        "cost_usd": 0.01,
        "tokens": 7,
    }
    failed = cases[2].output["metadata"]
    assert (failed["outcome"], failed["error"], failed["recorded"]["scores"]) == ("failed", "429", {})
    assert report.not_carried == []


@pytest.mark.parametrize(
    ("cell", "assertion"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("contains: a b", {"type": "contains", "value": "a b"}),
        ("not-icontains-any: a,b", {"type": "not-icontains-any", "value": "a,b"}),
        ("similar(0.7): x", {"type": "similar", "value": "x", "threshold": 0.7}),
        ("similar: x", {"type": "similar", "value": "x", "threshold": 0.8}),
        ("latency(200)", {"type": "latency", "threshold": 200.0}),
        ("is-json", {"type": "is-json"}),
        ("fn: output == 1", {"type": "javascript", "value": "output == 1"}),
        ("python: 1", {"type": "python", "value": "1"}),
        ("grade: is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("contained: x", {"type": "equals", "value": "contained: x"}),
    ],
)
def test_a_cell_stands_for_an_assertion(cell, assertion):
    assert assertion_of_text(cell) == assertion


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{a}}", "1"),
        ("{{ b.c }} {{ b['c'] }}", "x x"),
        ("{{d[1]}}", "z"),
        ("{{none}}", ""),
        ("{{ b }}", '{"c":"x"}'),
    ],
)
def test_a_plain_variable_is_filled_in(template, text):
    assert render(template, {"a": 1.0, "b": {"c": "x"}, "d": ["y", "z"]}) == text


def test_a_variable_in_a_variable_is_filled_in_and_a_circle_ends():
    assert resolved({"a": "{{b}}!", "b": "x"}) == {"a": "x!", "b": "x"}
    with pytest.raises(CannotCarry, match="more than"):
        resolved({"a": "{{a}}{{a}}"})
    with pytest.raises(CannotCarry, match="more than"):
        render("{{x}}" * 100, {"x": "y" * 1_000_000})


def test_a_pattern_that_python_has_not_is_named():
    with pytest.raises(CannotCarry, match="none of Python's"):
        python_pattern("(?<=a+)b")
