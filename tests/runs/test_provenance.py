"""What tells runs apart: the commit of the folder, tags, models, and the command line, which never has a secret."""

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.runs.provenance import about_lines, check_tags, commit_text, read_commit
from assay.runs.safe_command import MAX_COMMAND, safe_command
from support.report_file import report_text

SECRET = "hunter2canary"
KEY = "7d1f9b3e5a0c4428bd6f9e1c2a73508f64b1de90"  # as `secrets.token_hex` makes it
ENVIRONMENT = {
    "SHOP_API_KEY": "a plain sentence",
    "DB_PASSWORD": SECRET,
    "HOME": "/home/me",
    "SHORT_TOKEN": "ab",
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate", "cases.csv", "--tag", "prompt=v3"], "assay evaluate cases.csv --tag prompt=v3"),
        (["compare", "run-01ab-22", "eval_4f2c9a"], "assay compare run-01ab-22 eval_4f2c9a"),
        (["evaluate", "out-2026-11-18T1022.jsonl"], "assay evaluate out-2026-11-18T1022.jsonl"),
        (["run", "a b.yaml"], "assay run 'a b.yaml'"),
        (["run", "--experiment", "password resets"], "assay run --experiment 'password resets'"),
    ],
)
def test_a_command_line_without_secrets_is_recorded_as_it_is(arguments, expected):
    assert safe_command(arguments, ENVIRONMENT) == expected


@pytest.mark.parametrize(
    "argument",
    [
        ["--api-key", SECRET],
        [f"--password={SECRET}"],
        [f"OPENAI_API_KEY={SECRET}"],
        ["--tag", f"token={SECRET}"],
        ["--header", f"Authorization: Bearer {SECRET}"],
        ["--header", f"X-Api-Key:{SECRET}"],
        ["--agent", f"https://user:{SECRET}@agents.example/run"],
        ["--agent", f"https://{SECRET}@agents.example/run"],
        ["--agent", f"https://agents.example/run?key={SECRET}&x=1"],
        ["--agent", f"https://agents.example/{KEY}/run"],
        ["--to", f"otlp=https://user:{SECRET}@traces.example/v1"],
        ["--agent", f"cmd:python agent.py --token {SECRET} --fast"],
        ["--agent", f"cmd:env API_TOKEN={SECRET} ./agent"],
        ["--agent", f"postgresql://me:{SECRET}@db/x"],
        ["--model", KEY],
        ["--map", f"input={KEY}"],
        ["sk-0123456789abcdefghijkl"],
        ["--name", "a plain sentence"],  # the value of SHOP_API_KEY
        ["--name", f"x{SECRET}y"],  # that of DB_PASSWORD
    ],
)
def test_a_secret_in_an_argument_is_not_recorded(argument):
    text = safe_command(["run", "suite.yaml", *argument, "--json"], ENVIRONMENT)
    for secret in (SECRET, KEY, "0123456789abcdef", "a plain sentence"):
        assert secret not in text
    assert text.startswith("assay run suite.yaml ")
    assert text.endswith(" --json")
    assert "REDACTED" in text


@given(st.lists(st.text(max_size=60), max_size=20), st.text(alphabet="abcdefgh0123456789", min_size=12))
def test_the_value_of_a_secret_variable_is_never_recorded(arguments, secret):
    text = safe_command([*arguments, f"before{secret}after", secret], {"SERVICE_TOKEN": secret})
    assert secret not in text
    assert len(text) <= MAX_COMMAND


@pytest.mark.parametrize("tag", ["branch=main", "prompt=v3", "sha=4f2c9a", f"commit={KEY}", "name=x"])
def test_a_tag_is_a_name_and_a_value(tag):
    check_tags([tag])


@pytest.mark.parametrize(
    "tag", ["main", "", f"token={SECRET}", f"api_key={SECRET}", "x=sk-0123456789abcdefghijkl"]
)
def test_a_tag_without_a_value_or_with_a_secret_is_refused(tag):
    with pytest.raises(UsageError) as refusal:
        check_tags([tag])
    assert SECRET not in str(refusal.value)
    assert "0123456789abcdefghijkl" not in str(refusal.value)


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_commit_and_whether_it_was_clean(tmp_path):
    assert read_commit(tmp_path) == ("", None)
    git(tmp_path, "init", "-q")
    assert read_commit(tmp_path) == ("", None)  # there is no commit yet
    (tmp_path / "inner").mkdir()
    (tmp_path / "prompt.txt").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit, clean = read_commit(tmp_path / "inner")
    assert (len(commit), clean) == (40, True)
    (tmp_path / "other.txt").write_text("not tracked")
    assert read_commit(tmp_path) == (commit, True)
    (tmp_path / "prompt.txt").write_text("2")
    assert read_commit(tmp_path) == (commit, False)
    assert (
        commit_text({"commit": {"id": commit, "clean": False}}) == f"commit {commit[:10]} and changed files"
    )


def test_a_run_without_a_commit_says_nothing_of_one():
    assert (commit_text({}), commit_text({"commit": {}}), about_lines({}, "")) == ("", "", [])


def test_a_stored_run_shows_its_tags_model_commit_and_command(command, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    rows = [
        {"test_case": {"id": str(at), "input": "x"}, "output": {"value": "yes", "metadata": {"model": "m-1"}}}
        for at in range(2)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    checks = [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["yes"]}}]
    (tmp_path / "checks.json").write_text(json.dumps(checks))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = read_commit(tmp_path)[0]

    def assay(*arguments):
        ended = command(*arguments, folder=tmp_path)
        assert SECRET not in ended.out + ended.err
        return ended

    options = ("evaluate", "rows.jsonl", "--checks", "checks.json", "--tag")
    ended = command(*options, "prompt=v3", "--min-pass-rate", f"tag:{SECRET}=0.1", folder=tmp_path)
    assert "stored; details: assay show eval_" in ended.out
    (tmp_path / "checks.json").write_text(json.dumps(checks) + "\n")
    assert assay(*options, "prompt=v4").code == 0
    line = f"prompt=v4 · model m-1 · commit {commit[:10]} and changed files"
    shown = assay("show", "latest").out
    assert line in shown
    assert "command: assay evaluate rows.jsonl --checks checks.json --tag prompt=v4" in shown
    document = json.loads(assay("show", "previous", "--json").out)
    assert (document["tags"], document["models"]) == (["prompt=v3"], ["m-1"])
    assert document["commit"] == {"id": commit, "clean": True}
    assert document["command"].endswith("--min-pass-rate 'tag:[REDACTED]=0.1'")
    assert f"  {line}" in assay("list").out.splitlines()
    listed = json.loads(assay("list", "--json").out)
    assert [row["commit"]["clean"] for row in listed] == [False, True]
    for file in tmp_path.rglob("*.db*"):
        assert SECRET.encode() not in file.read_bytes()
    compared = " ".join(assay("compare", "previous", "latest").out.split())
    assert "the runs differ: commit" in compared
    assert "tag prompt v3 → v4" in compared
    assert "command assay evaluate rows.jsonl --checks checks.json --tag prompt=v3" in compared
    assert "→ assay evaluate rows.jsonl --checks checks.json --tag prompt=v4" in compared
    for option, is_shown in (((), True), (("--redact",), False)):
        assert assay("report", "previous", "latest", *option, "-o", "report.html").code == 0
        text = report_text(tmp_path / "report.html")
        assert ("prompt" in text, commit in text, "assay evaluate" in text) == (is_shown, is_shown, is_shown)
        (pair,) = json.loads(text)["comparison"]["view"]["comparison"]["comparisons"]
        assert [one["metric"] for one in pair["metrics"]] == ["passed", "score", "contains"]
    refused = assay(*options, f"token={SECRET}x")
    assert refused.code == 2
    assert "expected a tag without a secret" in refused.err
