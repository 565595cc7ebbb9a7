"""`assay import`: a folder of files that `assay evaluate` takes as they are."""

import json
import shlex

import pytest

from support.interchange.promptfoo_samples import FILES, result_row, results_document


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def results_of(tmp_path, *systems):
    rows = [
        result_row(test, at, system=system, output=f"{system} says France {test}", passed=test % 2 == 0)
        for test in range(4)
        for at, system in enumerate(systems)
    ]
    (tmp_path / "out.json").write_text(json.dumps(results_document(rows)))


def printed(result):
    """The commands that it printed."""
    lines = result.wrapped_out.replace("\\\n ", "").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.startswith("next: assay ")]


def test_a_configuration_is_written_and_the_printed_command_works(command, tmp_path):
    write(tmp_path / "capitals", FILES)
    (tmp_path / "bot.py").write_text("def answer(question):\n    return f'Lima is in {question}'\n")
    result = command("import", "capitals", "-o", "new", folder=tmp_path)
    assert result.code == 0
    assert result.out.startswith("promptfoo: 14 cases in new\n")
    assert (
        "not carried: assertion javascript (2 times): code is not run; at capitals/promptfooconfig.yaml: tests[1].assert[0]"
        in result.err
    )
    document = json.loads((tmp_path / "new" / "import.json").read_text())
    assert (document["from"], document["cases"], document["outputs"]) == ("promptfoo", 14, 0)
    assert document["not_carried"]["count"] == len(document["not_carried"]["items"])
    assert document["carried"]["assertion not-contains: contains"] == 7
    (line,) = printed(result)
    ran = command(*line[:-1], "bot:answer", folder=tmp_path)
    assert ran.code == 0, ran.err
    assert "7 cases, 15 checks" in ran.out


def test_results_of_two_systems_are_compared_by_the_printed_commands(command, tmp_path):
    results_of(tmp_path, "one", "two")
    result = command("import", "out.json", folder=tmp_path)
    assert result.code == 0
    assert result.err == ""
    ran = [command(*line, folder=tmp_path) for line in printed(result)[:3]]
    assert [one.code for one in ran] == [0, 0, 0], [one.err for one in ran]
    assert "4 cases" in ran[2].out
    recorded = command(
        "evaluate",
        "--contexts",
        "imported/contexts-1-one-capital-of-country-1.jsonl",
        "--checks",
        "imported/recorded.yaml",
        folder=tmp_path,
    )
    assert "recorded pass" in recorded.out
    assert "50.0%" in recorded.out


def test_save_stores_a_run_for_each_system(command, tmp_path):
    results_of(tmp_path, "one", "two")
    result = command("import", "out.json", "-o", "new", "--save", folder=tmp_path)
    assert result.code == 0, result.err
    compared = command("compare", "new-1", "new-2", folder=tmp_path)
    assert compared.code == 0
    shown = command("show", "new-1", "--case", "test-2", "--json", folder=tmp_path)
    assert '"recorded"' in shown.out


def test_strict_exits_with_3_for_what_was_not_carried(command, tmp_path):
    write(tmp_path / "capitals", FILES)
    results_of(tmp_path, "one")
    assert command("import", "capitals", "-o", "a", "--strict", folder=tmp_path).code == 3
    assert command("import", "out.json", "-o", "b", "--strict", folder=tmp_path).code == 0


def test_members_without_a_place_are_one_line(command, tmp_path):
    rows = [result_row(0, 0, traces=[1], notes={"a": 1})]
    write(tmp_path, {"out.json": json.dumps(results_document(rows))})
    result = command("import", "out.json", "-o", "new", folder=tmp_path)
    assert result.err == "assay: not carried: 2 members (traces, notes); reasons in new/import.json\n"
    kinds = json.loads((tmp_path / "new" / "import.json").read_text())["not_carried"]["kinds"]
    assert [(one["what"], one["first"]) for one in kinds] == [
        (name, f"out.json: results.results[0].{name}") for name in ("traces", "notes")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected a file or a folder of another tool"),
        (("none.json",), "none.json: there is no such file"),
        (("empty",), "expected a file, or a folder with promptfooconfig.yaml"),
        (("other.json",), "other.json: expected a file of promptfoo, openai-evals"),
        (
            ("out.json", "--from", "nothing"),
            "--from 'nothing': there is no such format; there are promptfoo, openai-evals, inspect",
        ),
        (("out.json", "-o", "full"), "-o full: expected a new or empty folder"),
        (("broken.json", "--from", "promptfoo"), "broken.json:1"),
        (("wide.jsonl",), "wide.jsonl:1: not UTF-8"),
        (("none.yaml", "--from", "promptfoo"), "none.yaml: there is no such file"),
        (("out.json", "--save", "--name", "latest"), "--name: expected a word of your own"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_nothing_is_written(command, tmp_path, arguments, message):
    results_of(tmp_path, "one")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "full", {"x": "y"})
    write(tmp_path, {"other.json": '{"x": 1}', "broken.json": '{"results": {"results": [}'})
    (tmp_path / "wide.jsonl").write_bytes('{"item": {"question": "?"}}'.encode("utf-16"))
    before = sorted(tmp_path.rglob("*"))
    result = command("import", *arguments, folder=tmp_path)
    assert result.code == 2, result
    assert message in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_list_names_the_formats(command, tmp_path):
    result = command("import", "--list", folder=tmp_path)
    assert result.code == 0
    assert result.out.startswith("promptfoo")
