"""`assay init`: every combination writes a folder that runs, and nothing is overwritten or asked without reason."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.commands.command import run_on_terminal
from support.servers.thread_server import Handler, HandlerServer

CI = ".github/workflows/evals.yml"
TABLES = {  # a table that exists already: its next command, and what the gate of its workflow says
    "question,expected,model_a,model_b\nA?,a,a,a\nB?,b,x,b\n": ("--map output=model_a -o model_a.jsonl", 0),
    "prompt,gold,response,topic\nA?,a,a,t\nB?,b,b,u\n": ("-o results.jsonl", 0),
    "question,gold,gpt_4_answer\nA?,a,x\nB?,b,x\n": ("--map output=gpt_4_answer -o gpt_4_answer.jsonl", 3),
    "input,output\nA?,a\n": ("-o results.jsonl", 0),
}


class Endpoint(Handler):
    def do_POST(self):
        self.body()
        self.send(200, json.dumps({"result": "Paris"}).encode(), {"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def endpoint():
    with HandlerServer(Endpoint) as server:
        yield f"{server.url}/answer"


def one_line(out):
    """The text with each command in one line."""
    return re.sub(r" \\\n *", " ", out)


def next_words(out):
    (line,) = re.findall(r"^next: (?:cd \S+ && )?assay (.*)$", one_line(out), re.MULTILINE)
    return shlex.split(line)


def workflow_steps(folder):
    (job,) = yaml.safe_load((folder / CI).read_text("utf-8"))["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


def run_folder(command, out, folder):
    """The exit codes of the next command, and of the steps of the workflow without a base branch."""
    codes = [command(*next_words(out), folder=folder).code]
    steps = workflow_steps(folder)
    assert [name for name in steps if "base" not in name] == ["Install", "Measure", "Decide"]
    _, *measures = steps["Measure"].splitlines()
    decide = steps["Decide"].splitlines()[-1].replace('"$@"', "--policy gate.yaml")
    lines = [shlex.split(line.removesuffix(" || goes_on")) for line in measures] + [shlex.split(decide)]
    assert all(line[0] == "assay" for line in lines)
    printed = [
        shlex.split(words) for words in re.findall(r"^(?:next|then): (?:cd .* && )?(.*)$", out, re.MULTILINE)
    ]
    assert printed == [*lines[:-1], lines[-1][: -len(["--markdown", "report.md"])]]
    assert ("Measure the base branch" in steps) == (
        len(measures) == 1
    )  # two models are compared with each other
    return codes + [command(*line[1:], folder=folder).code for line in lines]


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "file", "worse"),
    [
        (["--function", "bot:answer"], "bot.py", ('"Peru": "Lima"', '"Peru": "Cuzco"')),
        (["--agent", "agent:act"], "agent.py", ("Hello, {task['name']}!", "Go away!")),
    ],
)
def test_the_workflow_compares_with_the_base_branch(words, file, worse, command, zygote, tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "empty")
    git(folder, "remote", "add", "origin", ".")
    git(folder, "fetch", "-q", "origin")
    assert command("init", *words, folder=folder).code == 0
    (folder / "gate.yaml").write_text("min_mean: 0\nrequire: not-regressed\npreset: strict\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "GITHUB_"))}
    path = os.pathsep.join([str(zygote.bin), str(Path(sys.executable).parent), os.environ["PATH"]])

    def run_steps():
        """The codes of the steps, and what the last one printed."""
        ended = [
            subprocess.run(
                ["bash", "-e", "-c", step], cwd=folder, env=kept | {"PATH": path, "GITHUB_BASE_REF": "main"},
                capture_output=True, text=True, timeout=60, check=False,
            )
            for name, step in workflow_steps(folder).items()
            if name != "Install"
        ]  # fmt: skip
        return [one.returncode for one in ended], " ".join(ended[-1].stdout.split())

    codes, output = run_steps()  # the pull request that adds the files
    assert codes == [0, 0, 0]
    assert "::notice title=assay::the base branch has no results, so nothing is compared passed: " in output
    git(folder, "worktree", "remove", "--force", "base")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "evals")
    git(folder, "fetch", "-q", "origin")
    before, after = worse
    (folder / file).write_text((folder / file).read_text().replace(before, after))
    (folder / "gate.yaml").write_text("min_mean: 0\npreset: lenient\n")  # the rules of the base count
    codes, output = run_steps()
    assert codes[:2] == [0, 0]
    assert codes[2] != 0
    assert "worse than in base-branch.jsonl by" in output
    assert re.search(r"1 (case|task) got worse \(\w+\)", output), output


@pytest.mark.parametrize("must", ["contain", "equal"])
@pytest.mark.parametrize(
    ("words", "files", "codes"),
    [
        (
            ["--table", "eval.csv"],
            ["eval.csv", "checks.yaml"],
            {"contain": [0, 0, 0, 0], "equal": [0, 0, 0, 3]},
        ),
        (["--function", "bot:answer"], ["bot.py", "cases.jsonl", "checks.yaml"], [0, 0, 0]),
        (["--function", "my_bot.py:reply"], ["my_bot.py", "cases.jsonl", "checks.yaml"], [0, 0, 0]),
        (["--agent", "agent:act"], ["agent.py", "suite.yaml"], [0, 0, 0]),
        (["--endpoint", "URL"], ["cases.jsonl", "checks.yaml"], [0, 0, 3]),
        (["--yes"], ["bot.py", "cases.jsonl", "checks.yaml"], [0, 0, 0]),
    ],
)
def test_a_folder_that_was_written_runs(words, files, codes, must, endpoint, command, tmp_path):
    words = [endpoint if word == "URL" else word for word in words]
    done = command("init", *words, "--must", must, folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    written = [*files, "assay.toml", "gate.yaml", CI]
    assert done.out.splitlines()[0] == f"wrote {', '.join(written)}"
    assert sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    ) == sorted(written)
    assert {line.partition(":")[0] for line in done.out.splitlines()[1:]} == {"next", "then"}
    assert run_folder(command, done.out, tmp_path) == (codes if isinstance(codes, list) else codes[must])


@pytest.mark.parametrize(("text", "expected"), TABLES.items())
def test_a_table_that_exists_is_kept_and_its_columns_are_found(text, expected, command, tmp_path):
    (tmp_path / "mine.csv").write_text(text)
    done = command("init", "--table", "mine.csv", folder=tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "mine.csv").read_text() == text
    ending, gate = expected
    assert f"next: assay evaluate mine.csv --checks checks.yaml {ending}\n" in done.out
    *measured, decided = run_folder(command, done.out, tmp_path)
    assert (set(measured), decided) == ({0}, gate)


def test_a_function_that_exists_is_kept(command, tmp_path):
    (tmp_path / "shop.py").write_text("def reply(question):\n    raise ValueError\n")
    done = command("init", "--function", "shop:reply", folder=tmp_path)
    assert "shop.py" not in done.out.splitlines()[0]
    assert run_folder(command, done.out, tmp_path) == [0, 0, 3]


def test_a_folder_of_its_own_is_made_and_named_in_the_next_command(command, tmp_path):
    done = command("init", "my evals", "--function", "bot:answer", folder=tmp_path)
    assert "next: cd 'my evals' && assay evaluate --cases cases.jsonl" in done.out
    assert (tmp_path / "my evals" / "assay.toml").exists()


REFUSED = [
    ([], "expected --table, --function, --agent or --endpoint, because there is no terminal to ask"),
    (["--table", "a.csv", "--function", "b:c"], "expected one of --table, --function, --agent and --endpoint; got --table and --function"),
    (["--function", "bot"], "--function bot: expected module:function or file.py:function"),
    (["--function", "far.away:answer"], "--function far.away:answer: there is no far/away.py in ."),
    (["--endpoint", "localhost"], "--endpoint localhost: expected an address such as http://"),
    (["--table", "a.json"], "--table a.json: expected a file that exists, or a new one that ends in .csv"),
    (["--table", "odd.csv"], "odd.csv: no column for input and output; its columns are 'x', 'y'; say --map input=COLUMN --map output=COLUMN"),
    (["--table", "unclear.csv"], "unclear.csv: 'answer' may be the output or the expected value; its columns are"),
    (["--table", "empty.csv"], "--table empty.csv: expected a table with a header and rows"),
    (["--table", "two.csv", "--must", "equal"], "two.csv: --must equal needs a column with the expected value, and none is recognised; its columns are 'question', 'notes', 'gpt_answer', 'claude_answer'; say --map expected=COLUMN"),
    (["--yes", "--must", "fly"], "--must fly: expected one of contain, equal"),
]  # fmt: skip


def test_a_refusal_writes_nothing(command, tmp_path):
    (tmp_path / "odd.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "unclear.csv").write_text("question,answer,model_a\nA?,a,x\n")
    (tmp_path / "two.csv").write_text("question,notes,gpt_answer,claude_answer\nA?,a,x,a\n")
    results = command.each([["init", *words] for words, _ in REFUSED], folder=tmp_path)
    for (words, message), done in zip(REFUSED, results, strict=True):
        assert (done.code, done.out) == (2, ""), words
        assert message in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "empty.csv",
        "odd.csv",
        "two.csv",
        "unclear.csv",
    ]
    assert "next: assay init --table empty.csv" in results[0].err


def test_a_map_names_the_columns_of_a_table(command, tmp_path):
    (tmp_path / "odd.csv").write_text("frage,antwort\nA?,a\n")
    done = command(
        "init", "--table", "odd.csv", "--map", "input=frage", "--map", "output=antwort", folder=tmp_path
    )
    assert "--map input=frage --map output=antwort -o results.jsonl" in done.out
    assert run_folder(command, done.out, tmp_path) == [0, 0, 0]


def test_files_that_exist_are_overwritten_only_with_force(command, tmp_path):
    (tmp_path / "checks.yaml").write_text("mine")
    (tmp_path / "assay.toml").write_text("mine")
    done = command("init", "--yes", folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "cases.jsonl" not in done.err
    assert "checks.yaml, assay.toml: expected a folder without these files; nothing was written" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["assay.toml", "checks.yaml"]
    assert command("init", "--yes", "--force", folder=tmp_path).code == 0
    assert (tmp_path / "checks.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("\n\n\n", ["evaluate", "eval.csv"]),
        ("function\nmine:go\nequal\n", ["evaluate", "--cases"]),
        ("9\n3\n\n2\n", ["run", "suite.yaml"]),
    ],
)
def test_three_questions_on_a_terminal(typed, words, command, tmp_path):
    shown = run_on_terminal("init", folder=tmp_path, typed=typed, code=0)
    asked = ["What do you have?", "Which ", "What must its answer do?"]
    assert all(question in shown for question in asked)
    line = shown.replace("\r", "")
    assert next_words(line)[:2] == words
    assert command(*next_words(line), folder=tmp_path).code == 0


TWO = "id,question,topic,gold answer,gpt_answer,claude_answer\n1,A?,t,a,a,a\n2,B?,t,,x,b\n3,C?,u,c,x,c\n"


@pytest.mark.parametrize("must", ["contain", "equal"])
def test_a_table_of_two_models_is_checked_against_its_expected_column(must, command, tmp_path):
    (tmp_path / "two.csv").write_text(TWO)
    done = command("init", "demo", "--table", "two.csv", "--must", must, folder=tmp_path)
    assert done.code == 0, done.err
    checks = yaml.safe_load((tmp_path / "demo" / "checks.yaml").read_text("utf-8"))
    assert checks == [{{"contain": "contains", "equal": "exact_match"}[must]: "$.test_case.expected"}]


def test_init_says_that_a_table_without_expected_values_is_checked_for_any_text(command, tmp_path):
    (tmp_path / "plain.csv").write_text("input,output\nA?,a\n")
    done = command("init", "--table", "plain.csv", folder=tmp_path)
    assert "no column is recognised as the expected value, so checks.yaml asks only for any text" in done.out


def test_the_steps_of_the_workflow_reach_the_gate_after_a_case_that_was_not_measured(
    zygote, command, tmp_path
):
    (tmp_path / "two.csv").write_text(TWO)  # the second case has no expected value: evaluate exits with 1
    assert command("init", "demo", "--table", "two.csv", folder=tmp_path).code == 0
    (tmp_path / "two.csv").unlink()  # the folder is a repository: it needs nothing beside it
    (job,) = yaml.safe_load((tmp_path / "demo" / CI).read_text("utf-8"))["jobs"].values()
    steps = {step["name"]: step for step in job["steps"] if "run" in step}
    assert not any("continue-on-error" in step for step in job["steps"])
    environ = os.environ | {"PATH": os.pathsep.join([str(zygote.bin), os.environ["PATH"]])}

    def run(name):
        words = ["bash", "-e", "-c", steps[name]["run"]]
        return subprocess.run(
            words, cwd=tmp_path / "demo", env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    measured, decided = run("Measure"), run("Decide")
    assert measured.returncode == 0, measured.stderr
    assert measured.stdout.count("not measured: 1 errored of 3 checks") == 2
    assert decided.returncode == 1, decided.stdout  # undecided: a case was not measured
    assert (tmp_path / "demo" / "report.md").exists()
    (tmp_path / "demo" / "checks.yaml").unlink()
    assert run("Measure").returncode == 1  # a command that is refused ends the job


def test_the_only_table_is_the_default_and_its_expected_column_is_asked_for(command, tmp_path):
    (tmp_path / "mine.csv").write_text("question,solution,answer\nA?,a,a\nB?,b,x\n")
    shown = run_on_terminal("init", folder=tmp_path, typed="1\n\nequal\nsolution\n", code=0).replace("\r", "")
    assert "Which file? [mine.csv]" in shown
    assert "Which column has the expected value?" in shown
    done = command(*next_words(shown), folder=tmp_path)
    assert "exact_match       1       1" in done.out
