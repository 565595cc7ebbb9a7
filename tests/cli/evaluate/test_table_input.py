"""`assay evaluate eval.csv`: it evaluates, or it prints a command that works for this file."""

import json
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
    following = written.out.partition("next: assay ")[2].splitlines()[0]
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


ODD = "question,solution,gpt_answer,claude_answer\nCapital?,Paris,Paris,Rome\nOther?,Rome,x,Rome\n"


def test_checks_of_the_expected_value_are_refused_before_anything_runs_if_no_column_is_it(folder, command):
    (folder / "odd.csv").write_text(ODD)
    words = ["evaluate", "odd.csv", "--checks", "checks.yaml", "--map", "output=gpt_answer"]
    done = command(*words, folder=folder)
    assert (done.code, done.out) == (2, "")
    assert "odd.csv: the checks read $.test_case.expected, and no column is recognised" in done.err
    assert "its columns are 'question', 'solution', 'gpt_answer'" in done.err
    assert command(*words, "--map", "expected=Solution", folder=folder).code == 0
    (folder / "checks.yaml").write_text(CHECKS + "- regex: .\n")
    mixed = command(*words, folder=folder)
    assert (mixed.code, mixed.err.count("say --map expected=COLUMN")) == (1, 1)
    assert "regex          2       0" in mixed.out


def test_proposed_commands_have_the_map_of_an_expected_value_that_is_not_recognised(folder, command):
    (folder / "odd.csv").write_text(ODD)
    commands = proposed(command("evaluate", "odd.csv", "--checks", "checks.yaml", folder=folder))
    assert all("expected=COLUMN" in words for words in commands[:2])
    (folder / "gold.csv").write_text(ODD.replace("solution", "gold answer"))
    commands = proposed(command("evaluate", "gold.csv", "--checks", "checks.yaml", folder=folder))
    assert [command(*words, folder=folder).code for words in commands] == [0, 0, 0]


REPEATED = "id,question,expected,answer\n1,A?,a,a\n2,B?,b,b\n2,C?,c,c\n3,D?,d,d\n"


def test_a_run_that_stops_at_an_id_says_first_that_it_is_a_part_and_reaches_no_bar(folder, command):
    (folder / "twice.csv").write_text(REPEATED)
    words = ["evaluate", "twice.csv", "--checks", "checks.yaml", "--min-pass-rate", "0.5"]
    words += ["--min-pass-rate", "contains=0.5"]
    done, document = command(*words, folder=folder), command(*words, "--json", folder=folder)
    first = "only a part: stopped after 2 cases; the others were not measured, and no bar is decided"
    assert (done.code, done.out.splitlines()[0]) == (1, first)
    assert "bar of" not in done.out
    assert "give every case its own id" in done.err
    found = json.loads(document.out)
    assert next(iter(found)) == "partial"
    assert [bar["passed"] for bar in found["bars"]] == [False, False]
    skipped = command(*words, "--skip-bad-lines", folder=folder)
    assert "3 cases, 3 checks" in skipped.out
    (folder / "twice.csv").write_text(REPEATED.replace("id,", "key,"))
    assert "4 cases, 4 checks" in command(*words, folder=folder).out


@pytest.mark.parametrize(
    ("second", "warning"),
    [
        ("2,B?,b,b", "1 line with the id and input of an earlier one: trials of one case"),
        ("2,B?,x,b", "trials of one case; 1 line with another expected value: give other cases other ids"),
    ],
)
def test_lines_that_count_as_trials_are_named_once(second, warning, folder, command):
    (folder / "twice.csv").write_text(REPEATED.replace("2,C?,c,c", second))
    done = command("evaluate", "twice.csv", "--checks", "checks.yaml", folder=folder)
    assert (done.code, len(done.messages)) == (0, 1)
    assert done.err.rstrip().endswith(warning)


def test_a_file_of_another_program_is_refused_with_a_way_out(folder, command):
    (folder / "a.xlsx").write_bytes(b"PK")
    done = command("evaluate", "a.xlsx", "--checks", "checks.yaml", folder=folder)
    assert (done.code, "save the sheet as CSV (UTF-8), or read it with pandas" in done.err) == (2, True)
    (folder / "old.csv").write_bytes("question,expected,answer\nA?,a,a\nB?,é,é\n".encode("cp1252"))
    done = command("evaluate", "old.csv", "--checks", "checks.yaml", folder=folder)
    assert (done.code, done.out) == (2, "")
    assert "old.csv:3: not UTF-8" in done.err
    assert "next: iconv -f CP1252 -t UTF-8 old.csv > utf8.csv" in done.err
