"""Tables become contexts, cases and outputs: by `map`, or by the usual names of columns."""

import json
from importlib import import_module

import pytest

import assay
from assay.errors import InvalidRequest, UsageError
from assay.inputs.column_presets import PRESETS
from assay.inputs.row_files import has_rows
from assay.inputs.rows import read_map
from assay.ports import Limits
from support.documents import DOCS

PARIS = {"id": "1", "input": "Capital?", "expected": "Paris"}


def context(case, value, **members):
    return {**PARIS, **case}, {"value": value, **members}


@pytest.mark.parametrize(
    ("name", "text", "columns", "found"),
    [
        ("a.csv", "question,answer,gold\nCapital?,Rome,Paris\n", None, context({}, "Rome")),
        ("a.csv", "Prompt,Response,Ground_Truth\nCapital?,Rome,Paris\n", None, context({}, "Rome")),
        ("a.csv", "\ufeffquery;completion;label\r\nCapital?;Rome;Paris\r\n;;\r\n\r\n", None, context({}, "Rome")),
        ("a.tsv", "query\tcompletion\tlabel\nCapital?\tRome\tParis\n", None, context({}, "Rome")),
        ("a.csv", 'input,output,target\nCapital?,"a\n""b"", c",Paris\n', None, context({}, 'a\n"b", c')),
        ("a.csv", "question,answer,gold\nCapital?,,Paris\n", None, context({}, "")),  # an empty answer is a text
        ("a.csv", "question,answer\n,Rome\n", None, ({"id": "1", "input": ""}, {"value": "Rome"})),
        ("a.csv", "Frage ß,väl,z\nCapital?,Rome,Paris\n", {"input": "Frage ß", "output": "väl", "expected": "z"}, context({}, "Rome")),
        ("a.csv", "id,input,prompt,output,expected\nx,Capital?,p,Rome,Paris\n", None, context({"id": "x", "prompt": "p"}, "Rome")),
        ("a.csv", "question,answer,gold,category\nCapital?,Rome,Paris,a; b\n", None, context({"category": "a; b", "metadata": {"tags": ["a; b"]}}, "Rome")),
        ("a.csv", "question,answer,gold,topic\nCapital?,Rome,Paris,a\n", {"tags": "topic"}, context({"topic": "a", "metadata": {"tags": ["a"]}}, "Rome")),
        ("a.csv", "question,answer,Gold answer\nCapital?,Rome,Paris\n", {"expected": "gold_answer"}, context({}, "Rome")),
        ("a.csv", "question,answer,gold,tags\nCapital?,Rome,Paris,a; b\n", None, context({"tags": ["a", "b"]}, "Rome")),
        (
            "a.csv", "q,answer,gold,src,metadata.k\nCapital?,Rome,Paris,web,v\n", {"input": "q", "metadata.source": "src"},
            context({"metadata": {"k": "v", "source": "web"}}, "Rome"),
        ),
        ("a.csv", "input,expected,output.value,output.metadata.ms:json\nCapital?,Paris,,12\n", None, context({}, "", metadata={"ms": 12})),
        ("a.csv", "test_case.id,test_case.input,output,expected\nx,Capital?,Rome,Paris\n", None, context({"id": "x"}, "Rome")),
        ("a.csv", "question,answer:json,gold\nCapital?,[1],Paris\n", None, context({}, [1])),
        ("a.jsonl", '{"question": "Capital?", "response": {"text": "Rome"}, "gold": "Paris"}', None, context({}, {"text": "Rome"})),
        ("a.jsonl", '{"id": 7, "question": "Capital?", "response": null, "gold": "Paris", "n": 1}', None, context({"id": "7", "n": 1}, None)),
        ("a.jsonl", '{"a": {"q": "Capital?"}, "o": "Rome", "gold": "Paris"}', {"input": "a.q", "output": "o"}, context({"a": {}}, "Rome")),
        ("a.csv", "input,actual_output,expected_output,k\nCapital?,Rome,Paris,v\n", {"preset": "deepeval"}, context({"k": "v"}, "Rome")),
        ("a.csv", "question,answer,ground_truth,other\nCapital?,Rome,p,Paris\n", {"preset": "ragas", "expected": "other"}, context({"ground_truth": "p"}, "Rome")),
        ("a.jsonl", '{"inputs": "Capital?", "outputs": "Paris", "output": "Rome"}', {"preset": "langsmith"}, context({}, "Rome")),
        # the map wins over a column with the name of its target, which is kept under another name
        (
            "a.csv", "q,input,expected,id,gold_v2,key,answer\nCapital?,i,old,7,Paris,k,Rome\n",
            {"input": "q", "expected": "gold_v2", "id": "key"},
            context({"id": "k", "case_input": "i", "case_expected": "old", "case_id": "7"}, "Rome"),
        ),
        (
            "a.jsonl", '{"q": "Capital?", "expected": "old", "case_expected": "older", "gold_v2": "Paris", "answer": "Rome"}',
            {"input": "q", "expected": "gold_v2"}, context({"case_expected": "older", "case_case_expected": "old"}, "Rome"),
        ),
        ("a.csv", "input,expected,gold_v2,answer\nCapital?,old,,Rome\n", {"expected": "gold_v2"}, ({"id": "1", "input": "Capital?", "case_expected": "old"}, {"value": "Rome"})),
        ("a.csv", "test_case.input,test_case.expected,gold,answer\nCapital?,old,Paris,Rome\n", {"expected": "gold"}, context({"case_expected": "old"}, "Rome")),
        ("a.csv", "input,expected,metadata.k,k,answer\nCapital?,Paris,old,new,Rome\n", {"metadata.k": "k"}, context({"metadata": {"k": "new", "metadata_k": "old"}}, "Rome")),
        ("a.csv", "input,expected,output,model_a\nCapital?,Paris,old,Rome\n", {"output": "model_a"}, context({"output": "old"}, "Rome")),
        # one column for two targets
        ("a.csv", "q,a\nCapital?,Paris\n", {"input": "q", "output": "a", "expected": "a"}, context({}, "Paris")),
        ("a.jsonl", '{"q": "Capital?", "a": {"b": "Paris"}}', {"input": "q", "output": "a", "expected": "a.b"}, context({}, {"b": "Paris"})),
        ("a.json", '[{"prompt": "Capital?", "prediction": "Rome", "reference": "Paris"}]', None, context({}, "Rome")),
        ("a.jsonl", '{"test_case": {"id": "1", "input": "?"}, "output": {"value": 1}}', None, ({"id": "1", "input": "?"}, {"value": 1})),
    ],
)  # fmt: skip
def test_a_row_is_a_case_with_its_output(name, text, columns, found, tmp_path):
    (tmp_path / name).write_text(text, "utf-8", newline="")
    assert assay.load_contexts(tmp_path / name, map=columns) == ([found[0]], [found[1]])


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("frage,antwort\na,b\n", {}, "no column for input and output; its columns are 'frage', 'antwort'; say map={'input': 'COLUMN', 'output': 'COLUMN'}"),
        ("question,x y\na,b\n", {}, "no column for output; its columns are 'question', 'x y'; say map={'output': 'COLUMN'}"),
        ("question,prompt,answer\na,b,c\n", {}, "several columns may be the input: say map={'input': 'question'} or map={'input': 'prompt'}; its columns are"),
        ("question,expected,model_a,model b\na,b,c,d\n", {}, "no column for output; its columns are 'question', 'expected', 'model_a', 'model b'; say map={'output': 'model_a'} or map={'output': 'model b'}"),
        ("question,gold,gpt_4_answer,notes,answer_length,model_name\na,b,c,d,e,f\n", {}, "no column for output; its columns are 'question', 'gold', 'gpt_4_answer', 'notes', 'answer_length', 'model_name'; say map={'output': 'gpt_4_answer'}"),
        ("question,answer,model_a,model_b\na,b,c,d\n", {}, "'answer' may be the output or the expected value; its columns are 'question', 'answer', 'model_a', 'model_b'; say map={'output': 'COLUMN'}, and map={'expected': 'COLUMN'} if there is one"),
        ("question,model,response_time_ms,correct_answer\na,b,c,d\n", {}, "no column for output; its columns are 'question', 'model', 'response_time_ms', 'correct_answer'; say map={'output': 'COLUMN'}"),
        ("question,gold,answer,correct_answer\na,b,c,d\n", {}, "several columns may be the expected: say map={'expected': 'gold'} or map={'expected': 'correct_answer'}; its columns are"),
        ("question,gpt_answer,claude_answer\na,b,c\n", {"output": "gpt"}, "there is no column 'gpt' (did you mean gpt_answer?); its columns are"),
        ("question,gold answer,Gold_answer,answer\na,b,c,d\n", {"expected": "gold-answer"}, "there is no column 'gold-answer' (did you mean"),
        ("question,answer\na,b\n", {"expected": "gold"}, "there is no column 'gold'; its columns are 'question', 'answer'"),
        ("question,answer\na,b\n", {"score": "answer"}, "expected one of id, input, output, expected, tags, metadata.NAME, preset as the target, got 'score'"),
    ],
)  # fmt: skip
def test_a_refusal_shows_the_columns_and_the_line_to_type(text, columns, message, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError) as refusal:
        has_rows(str(tmp_path / "a.csv"), Limits(), "context", columns)
    assert f"a.csv: {message}" in str(refusal.value)


@pytest.mark.parametrize(
    "column",
    [
        *(
            "gold answer",
            "gold_answer",
            "gold",
            "correct_answer",
            "reference_answer",
            "Expected-Answer",
            "expected_output",
        ),
        *(
            "ideal",
            "ideal_answer",
            "answer_key",
            "Correct",
            "target",
            "label",
            "ground_truth",
            "truth",
            "reference",
        ),
    ],
)
def test_the_usual_names_of_the_expected_value_are_recognised_beside_two_models(column, tmp_path):
    (tmp_path / "a.csv").write_text(
        f"id,question,topic,{column},gpt_answer,claude_answer\n1,Capital?,t,Paris,Rome,x\n"
    )
    with pytest.raises(
        UsageError, match=r"say map=\{'output': 'gpt_answer'\} or map=\{'output': 'claude_answer'\}$"
    ):
        assay.load_contexts(tmp_path / "a.csv")
    cases, _ = assay.load_contexts(tmp_path / "a.csv", map={"output": "gpt_answer"})
    assert cases == [{**PARIS, "topic": "t", "claude_answer": "x"}]


@pytest.mark.parametrize("text", ["input", "=x", "input=", "score=x"])
def test_a_map_is_a_target_and_a_column(text):
    with pytest.raises(UsageError, match="--map: expected"):
        read_map([text])
    with pytest.raises(UsageError, match="--map: input is given twice"):
        read_map(["input=a", "input=b"])


def test_a_preset_is_known_and_on_the_page():
    with pytest.raises(UsageError, match=r"preset: expected one of flex-evals, .*, got 'mine'"):
        read_map(["preset=mine"])
    rows = [
        " | ".join(", ".join(f"`{one}`" for one in names) for names in ((name,), *preset))
        for name, preset in PRESETS.items()
    ]
    page = (DOCS / "evaluate.md").read_text()
    assert [row for row in rows if f"| {row} |" not in page] == []


def test_cases_without_outputs_take_an_answer_for_the_expected_one(tmp_path):
    (tmp_path / "a.csv").write_text("question,answer\nCapital?,Paris\n")
    assert assay.load_cases(tmp_path / "a.csv") == [PARIS]
    (tmp_path / "b.jsonl").write_text('{"question": "Capital?"}\n{"prompt": "?"}\n')
    with pytest.raises(
        InvalidRequest, match=r"b\.jsonl:2: question: the row has no such member, which is the input"
    ):
        assay.load_cases(tmp_path / "b.jsonl")


def test_parquet_rows(tmp_path):
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")  # slow to import
    rows = [
        {"question": "Capital?", "answer": None, "gold": "Paris", "n": 1.5},
        {"question": "?", "answer": "x", "gold": None, "n": None},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    cases, outputs = assay.load_contexts(tmp_path / "a.parquet")
    assert cases == [{**PARIS, "n": 1.5}, {"id": "2", "input": "?"}]
    assert outputs == [{"value": None}, {"value": "x"}]  # a null is not an empty text
    result = assay.evaluate_sync(
        cases, outputs, [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": ""}}]
    )
    assert [one.check_results[0].status for one in result.results] == ["error", "completed"]
    (tmp_path / "b.parquet").write_text(json.dumps(rows))
    with pytest.raises(assay.Refusal, match=r"b\.parquet: expected a Parquet file"):
        assay.load_contexts(tmp_path / "b.parquet")
