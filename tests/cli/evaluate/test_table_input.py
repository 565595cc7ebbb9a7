"""`assay evaluate eval.csv`: it evaluates, or it prints a command that works for this file."""

import shlex

import pytest

MODELS = "question,expected,model_a,model_b\nCapital?,Paris,Paris,Rome\nOther?,Rome,x,Rome\n"
CHECKS = "- contains: $.test_case.expected\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checks.yaml").write_text(CHECKS)
    (tmp_path / "models.csv").write_text(MODELS)
    return tmp_path


def proposed(done):
    """The commands of a refusal, after `next:` and `then:`."""
    assert (done.code, done.out) == (2, "")
    lines = [line.removeprefix("assay: ").partition(": assay ") for line in done.messages]
    return [shlex.split(words) for mark, _, words in lines if mark in ("next", "then")]


def test_two_models_are_two_commands_and_a_comparison_that_run_as_printed(folder, command):
    commands = proposed(command("evaluate", "models.csv", "--checks", "checks.yaml", folder=folder))
    assert [words[0] for words in commands] == ["evaluate", "evaluate", "compare"]
    results = [command(*words, folder=folder) for words in commands]
    assert [done.code for done in results] == [0, 0, 0]
    assert "1 worse, 1 better" in results[2].out


def test_a_table_without_checks_leads_to_a_folder_that_runs(folder, command):
    (folder / "checks.yaml").unlink()
    (words,) = proposed(command("evaluate", "models.csv", folder=folder))
    written = command(*words, folder=folder)
    following = written.out.partition("next: assay ")[2]
    assert command(*shlex.split(following), folder=folder).code == 0


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("one.csv", "question,expected,answer\nCapital?,Paris,Paris\n", []),
        ("one.tsv", "prompt\treference\tresponse\nCapital?\tParis\tParis\n", []),
        ("one.csv", MODELS, ["--map", "output=model_a", "--limit", "1"]),
        ("one.jsonl", '{"question": "Capital?", "gold": "Paris", "response": "Paris"}', []),
        (
            "one.jsonl",
            '{"test_case": {"id": "a", "input": "?", "expected": "x"}, "output": {"value": "x"}}',
            [],
        ),
        ("one.csv", "question,expected\nCapital?,Paris\n", ["--agent", "bot.py:answer"]),
    ],
)
def test_a_table_with_usual_columns_is_evaluated(name, text, options, folder, command):
    (folder / name).write_text(text)
    (folder / "bot.py").write_text("def answer(question):\n    return 'Paris'\n")
    done = command("evaluate", name, "--checks", "checks.yaml", *options, folder=folder)
    assert (done.code, "contains       1       0" in done.out) == (0, True), done.out + done.err


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ("question,answer,model_a", "--map output=COLUMN, and --map expected=COLUMN if there is one"),
        ("question,notes,topic", "say --map output=COLUMN"),
        ("text,gold,notes", "say --map input=COLUMN --map output=COLUMN"),
        ("question,gold,model_name,response_time_ms", "say --map output=COLUMN"),
    ],
)
def test_a_column_that_may_be_wrong_is_not_proposed(columns, asked, folder, command):
    (folder / "odd.csv").write_text(f"{columns}\n{columns}\n")
    done = command("evaluate", "odd.csv", "--checks", "checks.yaml", folder=folder)
    assert proposed(done) == []
    shown = " ".join(line.removeprefix("assay: ").strip() for line in done.messages)
    assert shown.endswith(asked)
    assert all(repr(column) in shown for column in columns.split(","))


def test_methods_of_intervals_are_named_once_and_only_with_verbose(folder, command):
    words = ("evaluate", "models.csv", "--checks", "checks.yaml", "--map", "output=model_a")
    plain, verbose = command(*words, folder=folder).out, command(*words, "--verbose", folder=folder).out
    assert ("Wilson" in plain, verbose.count("Wilson")) == (False, 1)
    assert "95% intervals: Wilson\n" in verbose
    assert '"method":"wilson"' in command(*words, "--json", folder=folder).out


def test_cases_that_have_outputs_lead_to_the_table(folder, command):
    done = command("evaluate", "--cases", "models.csv", "--checks", "checks.yaml", folder=folder)
    assert done.messages == [
        "assay: --cases models.csv: expected --outputs or --agent with it",
        "assay: if it has the outputs too: assay evaluate models.csv --checks checks.yaml",
    ]
