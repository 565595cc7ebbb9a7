"""OpenAI Evals: graders become checks and judges, items cases, output items recorded outputs."""

import json

import pytest

import assay
from assay.interchange import openai_evals
from assay.interchange.formats import recognise
from assay.interchange.imported import ImportReport
from assay.interchange.openai_graders import checks_of
from assay.ports import Limits

TEXT, LABEL = "{{ sample.output_text }}", "{{ item.label }}"
GRADERS = [
    {"type": "string_check", "name": "same", "input": TEXT, "reference": LABEL, "operation": "eq"},
    {"type": "text_similarity", "name": "near", "input": TEXT, "reference": LABEL, "evaluation_metric": "cosine", "pass_threshold": 0.8},
    {"type": "label_model", "name": "kind", "model": "gpt-4o", "labels": ["good", "bad"], "passing_labels": ["good"],
     "input": [{"role": "developer", "content": "Is it good?"}, {"role": "user", "content": "{{item.question}} {{sample.output_text}}"}]},
    {"type": "score_model", "name": "score", "input": [{"role": "user", "content": TEXT}], "range": [0, 10], "pass_threshold": 7},
    {"type": "python", "name": "code", "source": "def grade(sample, item): return 1"},
    {"type": "multi", "name": "both", "calculate_output": "a + b", "graders": {
        "a": {"type": "string_check", "input": TEXT, "reference": "x", "operation": "ilike"}}},
]  # fmt: skip
EVAL = {
    "object": "eval",
    "id": "eval_1",
    "name": "capitals",
    "data_source_config": {},
    "testing_criteria": GRADERS,
}


def output_item(number, text, passed):
    return {
        "object": "eval.run.output_item",
        "datasource_item_id": number,
        "datasource_item": {"question": f"Question {number}?", "label": "Paris"},
        "results": [{"name": "same", "passed": passed, "score": float(passed)}],
        "sample": {
            "input": [{"role": "user", "content": f"Question {number}?"}],
            "output": [{"role": "assistant", "content": text}],
            "model": "gpt-4o-mini",
            "finish_reason": "stop",
            "usage": {"total_tokens": 9, "prompt_tokens": 7, "completion_tokens": 2},
            "error": None,
        },
    }


def imported(*files):
    report = ImportReport()
    return list(openai_evals.read([str(one) for one in files], report, Limits())), report


@pytest.mark.parametrize(
    ("grader", "output", "passes"),
    [
        ({"operation": "eq", "reference": LABEL}, "Paris", True),
        ({"operation": "eq", "reference": "Rome"}, "Paris", False),
        ({"operation": "ne", "reference": LABEL}, "Rome", True),
        ({"operation": "like", "reference": LABEL}, "in Paris", True),
        ({"operation": "like", "reference": LABEL}, "in paris", False),
        ({"operation": "ilike", "reference": LABEL}, "in paris", True),
        ({"operation": "ilike", "reference": "PAR"}, "in paris", True),
    ],
)
def test_a_string_check_says_what_the_grader_says(grader, output, passes):
    checks, judges = checks_of([{"type": "string_check", "input": TEXT, **grader}], "here", ImportReport())
    case = {"id": "a", "input": "?", "metadata": {"item": {"label": "Paris"}}}
    result = assay.evaluate_sync([case], [{"value": output}], checks)
    assert (result.results[0].check_results[0].results["passed"], judges) == (passes, [])


@pytest.mark.parametrize(
    ("metric", "type"), [("fuzzy_match", "edit_distance"), ("rouge_l", "rouge"), ("bleu", "bleu")]
)
def test_a_similarity_becomes_a_measure_with_its_threshold(metric, type):
    grader = {
        "type": "text_similarity",
        "input": TEXT,
        "reference": LABEL,
        "evaluation_metric": metric,
        "pass_threshold": 0.5,
    }
    (made,), judges = checks_of([grader], "here", ImportReport())
    assert (made["type"], judges) == (type, [])
    case = {"id": "a", "input": "?", "metadata": {"item": {"label": "the capital is Paris"}}}
    result = assay.evaluate_sync(
        [case, case | {"id": "b"}], [{"value": "the capital is Paris"}, {"value": "zzz"}], [made]
    )
    assert [one.check_results[0].results["passed"] for one in result.results] == [True, False]


def test_graders_become_checks_and_judges_and_code_is_named():
    report = ImportReport()
    checks, judges = checks_of(GRADERS, "eval.json: testing_criteria", report)
    assert [one["name"] for one in checks] == ["same", "a"]
    assert [(one["name"], one["type"]) for one in judges] == [
        ("near", "semantic_similarity"),
        ("kind", "llm_judge"),
        ("score", "llm_judge"),
    ]
    assert "{{$.test_case.metadata.item.question}} {{$.output.value}}" in judges[1]["arguments"]["prompt"]
    assert judges[2]["arguments"]["panel"] == {"mean": "score", "bar": 7}
    assert [(one.place, one.what) for one in report.not_carried] == [
        ("eval.json: testing_criteria[2]", "model of a grader"),
        ("eval.json: testing_criteria[4]", "grader python"),
        ("eval.json: testing_criteria[5]", "expression of a multi grader"),
    ]


@pytest.mark.parametrize(
    ("grader", "why"),
    [
        ({"type": "string_check", "input": "{{ item.a | upper }}", "reference": "x", "operation": "eq"}, "templates are not run"),
        ({"type": "string_check", "input": "{{ sample.choices }}", "reference": "x", "operation": "eq"}, "output_text"),
        ({"type": "string_check", "input": TEXT, "reference": "a {{ item.b }}", "operation": "eq"}, "several parts"),
        ({"type": "string_check", "input": TEXT, "reference": "x", "operation": "near"}, "no operation"),
        ({"type": "text_similarity", "input": TEXT, "reference": "x", "evaluation_metric": "meteor"}, "no check"),
        ({"type": "score_model", "input": [{"role": "user", "content": "{% x %}"}]}, "templates are not run"),
        ({"type": "label_model", "input": [], "labels": []}, "no labels"),
        ({"type": "score_model", "input": "x", "range": [1]}, "no pair of numbers"),
        ({"type": "text_similarity", "input": TEXT, "reference": "x", "evaluation_metric": []}, "no check"),
        ({"type": "other"}, "no such grader"),
        ("x", "no type"),
    ],
)  # fmt: skip
def test_a_grader_that_cannot_be_carried_says_why(grader, why):
    report = ImportReport()
    assert checks_of([grader], "here", report) == ([], [])
    assert why in report.not_carried[0].why


@pytest.mark.parametrize("form", ["jsonl", "list", "page"])
def test_output_items_become_recorded_outputs(tmp_path, form):
    rows = [output_item(1, "Paris", True), output_item(2, "Rome", False)]
    name = tmp_path / ("run.jsonl" if form == "jsonl" else "run.json")
    page = {"object": "list", "data": rows, "has_more": False}
    name.write_text(
        "\n".join(map(json.dumps, rows)) if form == "jsonl" else json.dumps(rows if form == "list" else page)
    )
    (tmp_path / "eval.json").write_text(json.dumps(EVAL))
    assert recognise([str(name), str(tmp_path / "eval.json")], Limits()).name == "openai-evals"
    cases, _ = imported(tmp_path / "eval.json", name)
    assert [(one.case["id"], one.case["expected"], one.output["value"]) for one in cases] == [
        ("item-1", "Paris", "Paris"),
        ("item-2", "Paris", "Rome"),
    ]
    assert cases[0].case["input"] == [{"role": "user", "content": "Question 1?"}]
    assert cases[0].variant == "gpt-4o-mini"
    assert cases[1].output["metadata"]["recorded"] == {
        "tool": "openai-evals",
        "scores": {"same": 0},
        "other": {"object": "eval.run.output_item"},
    }
    assert cases[1].output["metadata"]["tokens"] == 9
    assert [one["name"] for one in cases[0].checks] == ["same", "a"]


def test_each_run_of_a_model_is_a_system_and_calls_of_tools_are_carried(tmp_path):
    calls = [{"id": "call_1", "function": {"name": "find", "arguments": "{}"}}]
    rows = [output_item(1, "Paris", True) | {"run_id": run} for run in ("run_a", "run_b")]
    rows[1]["sample"]["output"] = [{"role": "assistant", "content": None, "tool_calls": calls}]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    cases, _ = imported(tmp_path / "items.jsonl")
    assert [one.variant for one in cases] == ["gpt-4o-mini run_a", "gpt-4o-mini run_b"]
    assert [one.output["metadata"].get("tool_calls") for one in cases] == [None, calls]


def test_a_multi_grader_with_a_grader_that_is_no_object_is_named():
    report = ImportReport()
    assert checks_of([{"type": "multi", "graders": {"a": "x"}}], "here", report) == ([], [])
    assert [one.what for one in report.not_carried] == ["a grader", "expression of a multi grader"]


A = {"type": "string_check", "input": TEXT, "reference": "x", "operation": "ilike"}
B = {"type": "text_similarity", "input": TEXT, "reference": "xy", "evaluation_metric": "fuzzy_match"}


@pytest.mark.parametrize(
    ("expression", "score"),
    [("0.5 * a + 0.5 * b", 0.5 + 0.5 * 2 / 3), ("max(a, b) ^ 2", 1), ("min(a, b) - sqrt(a)", 2 / 3 - 1)],
)
def test_a_multi_grader_becomes_a_combination_with_its_expression(expression, score):
    report = ImportReport()
    multi = {"type": "multi", "name": "both", "calculate_output": expression, "graders": {"a": A, "b": B}}
    (check,), judges = checks_of([multi], "here", report)
    assert (check["name"], check["type"], judges, report.not_carried) == ("both", "combination", [], [])
    result = assay.evaluate_sync([{"id": "a", "input": "?"}], [{"value": "x"}], [check])
    assert result.results[0].check_results[0].results["score"] == pytest.approx(score)


@pytest.mark.parametrize(
    ("multi", "why"),
    [
        ({"calculate_output": "a + c", "graders": {"a": A, "b": B}}, "there is no part 'c'; there are a, b"),
        ({"calculate_output": "__import__(a)", "graders": {"a": A}}, "there is no function '__import__'"),
        (
            {"calculate_output": "a", "graders": {"a": A, "b": {"type": "python", "source": "x"}}},
            "not all of its graders",
        ),
        ({"graders": {"a": A}}, "there is no part 'None'"),
        ({"calculate_output": "a", "graders": {}}, "not all"),
    ],
)
def test_a_multi_grader_whose_expression_is_not_carried_leaves_its_graders(multi, why):
    report = ImportReport()
    checks, _ = checks_of([{"type": "multi", **multi}], "here", report)
    assert [one["name"] for one in checks] == [
        name for name, one in multi["graders"].items() if one in (A, B)
    ]
    assert why in report.not_carried[-1].why


def test_a_multi_grader_with_a_judge_is_a_judge():
    judge = {"type": "score_model", "input": "{{ sample.output_text }}", "range": [0, 1]}
    multi = {"type": "multi", "calculate_output": "a * b", "graders": {"a": A, "b": judge}}
    checks, (made,) = checks_of([multi], "here", ImportReport())
    assert (checks, made["type"]) == ([], "combination")


def test_a_python_grader_is_offered_as_a_function():
    report = ImportReport()
    code = "def grade(sample, item):\n    return 1.0 if item['label'] in sample['output_text'] else 0.0"
    checks_of([{"type": "python", "name": "code", "source": code}], "here", report)
    scope = {}
    exec(report.functions["assertion_1"], scope)  # a person has read it
    assert scope["assertion_1"]("It is Rome", {"metadata": {"item": {"label": "Rome"}}}) == 1.0


def test_items_without_outputs_are_cases(tmp_path):
    (tmp_path / "items.jsonl").write_text('{"item": {"question": "Q?", "label": "A"}}\n{"item": 1}\n')
    cases, report = imported(tmp_path / "items.jsonl")
    assert [(one.case["id"], one.case["input"], one.output) for one in cases] == [("item-1", "Q?", None)]
    assert [one.what for one in report.not_carried] == ["graders", "an item"]
