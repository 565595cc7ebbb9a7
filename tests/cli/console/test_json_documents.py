"""Every verb with `--json` has a schema, its document on real data fits it, and no document has a colour."""

import json
import re
import shutil
from pathlib import Path

import click
import pytest
import typer

from assay.cli.admin.document_schemas import DOCUMENTS
from assay.cli.main import app
from support.commands.json_documents import problems_of
from support.evals import golden, suite_of

COLOURS = {
    "FORCE_COLOR": "1",
    "CLICOLOR_FORCE": "1",
    "PY_COLORS": "1",
    "TTY_COMPATIBLE": "1",
    "TERM": "xterm-256color",
}
CHECKS = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]
AGENT = """
from pathlib import Path

def answer(task):
    return "?" if task in Path("broken").read_text() else task.upper()

def write(task):
    return {"text": "a haiku"}
"""
EXAMPLES = Path(__file__).parents[3] / "examples"
SUITE = suite_of(*(golden(id, id.upper(), id) for id in "abc"), modes=["golden"])


def verbs():
    """Every verb with --json, by its words."""
    root = typer.main.get_command(app)

    def walk(command, words, context):
        if not hasattr(command, "list_commands"):
            yield " ".join(words), any("--json" in getattr(one, "opts", ()) for one in command.params)
            return
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from walk(inner, [*words, name], click.Context(inner, parent=context))

    return [words for words, has_json in walk(root, [], click.Context(root)) if has_json]


def test_every_verb_with_json_has_a_schema():
    found = verbs()
    assert len(found) > 30
    assert [verb for verb in found if verb not in DOCUMENTS] == []
    assert [name for name in DOCUMENTS if name.partition(" --")[0] not in found] == []


def test_every_document_is_compared_with_its_schema():
    assert {*COMMANDS, *ELSEWHERE} == {*DOCUMENTS}
    for name, file in ELSEWHERE.items():
        text = (Path(__file__).parents[2] / file).read_text("utf-8")
        words = re.findall(r"[a-z]+", name.partition(" --")[0])
        assert all(re.search(rf"\b{word}\b", text) for word in (*words, "json")), name


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("documents")
    (folder / "mine.py").write_text(AGENT)
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "bad.json").write_text(json.dumps({"suiteId": "x", "taks": []}))
    (folder / "assay.toml").write_text("[retention]\nevidence_days = 30\n")
    shutil.copytree(EXAMPLES / "pack", folder / "pack", dirs_exist_ok=True)
    for name, broken in (("before", "a"), ("after", "bc")):
        (folder / "broken").write_text(broken)
        lines = [
            {
                "test_case": {"id": id, "input": id, "expected": id.upper(), "human": "pass", "tags": ["t"]},
                "output": {"value": "?" if id in broken else id.upper()},
            }
            for id in "abc"
        ]
        (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        evaluate = ("evaluate", "--contexts", "data.jsonl", "--checks", "checks.json")
        ended = command.each(
            [
                (*evaluate, "--name", f"eval-{name}", "-o", f"{name}.jsonl"),
                ("run", "suite.json", "--agent", "mine:answer", "--name", f"suite-{name}"),
            ],
            folder=folder,
        )
        assert [one.code for one in ended] == [0, 3], ended[0].err + ended[1].err
    shards = [(*evaluate, "--shard", f"{at}/2", "-o", f"part-{at}.jsonl") for at in (1, 2)]
    assert [one.code for one in command.each(shards, folder=folder)] == [0, 0]
    return folder


EVALUATE = ("evaluate", "--contexts", "data.jsonl", "--checks", "checks.json")
RUN = ("run", "suite.json", "--agent", "mine:answer")
COMMANDS = {
    "evaluate": [
        (*EVALUATE, "--json", "--by", "tag", "--min-pass-rate", "0.1", "--baseline", "before.jsonl"),
        (*EVALUATE, "--json", "--only", "failing:before.jsonl"),
        ("evaluate", "--cases", "cases.jsonl", "--checks", "checks.json", "--agent", "mine:answer", "--trials", "2", "--json"),
    ],
    "merge": [("merge", "part-1.jsonl", "part-2.jsonl", "-o", "merged.jsonl", "--json")],
    "run": [
        (*RUN, "--json", "--baseline", "suite-before", "--checks", "checks.json"),
        (*RUN, "--json", "--only", "failing"),
        (*RUN, "--json", "--trials", "2"),
    ],
    "verify": [("verify", "--actor", "mine:write", "--task", "a haiku", "--json")],
    "judge sample": [("judge", "sample", "after.jsonl", "--check", "exact_match", "-n", "2", "--json")],
    "judge check": [("judge", "check", "after.jsonl", "--check", "exact_match", "--labels", "human", "--json")],
    "try": [
        ("try", "contains: [x]", "--output", "x", "--json"),
        ("try", "contains: [x]", "--output", "y", "--json"),
    ],
    "list": [("list", "--json")],
    "show": [("show", name, "--json") for name in ("eval-after", "suite-after", "latest")],
    "show --failing": [("show", name, "--failing", "--json") for name in ("eval-after", "suite-after")],
    "diff": [("diff", f"{kind}-before", f"{kind}-after", "--json") for kind in ("suite", "eval")],
    "history": [("history", "suite.json", "--json")],
    "compare": [("compare", f"{kind}-before", f"{kind}-after", "--json") for kind in ("suite", "eval")],
    "compare --regressed": [
        ("compare", f"{kind}-before", f"{kind}-after", "--regressed", "--json") for kind in ("suite", "eval")
    ],
    "gate": [("gate", "eval-after", "--baseline", "eval-before", "--json")],
    "deploy list": [("deploy", "list", "--json")],
    "validate": [("validate", "suite.json", "bad.json", "data.jsonl", "checks.json", "--json")],
    "conform": [("conform", "http://127.0.0.1:9", "--key", "x", "--only", "fep.rest", "--json")],
    "conform --list": [("conform", "--list", "--json")],
    "suite show": [("suite", "show", "suite.json", "--json")],
    "skills list": [("skills", "list", "--json")],
    "admin key create": [("admin", "key", "create", "--tenant", "t", "--json")],
    "admin key list": [("admin", "key", "list", "--json")],
    "admin audit verify": [("admin", "audit", "verify", "--json")],
    "admin audit show": [("admin", "audit", "show", "--json")],
    "admin delete": [("admin", "delete", "eval-before", "--yes", "--json")],
    "admin gc": [("admin", "gc", "--dry-run", "--json")],
    "worker": [("worker", "--list", "--json")],
    "providers list": [("providers", "list", "--json")],
    "providers check": [("providers", "check", "--json")],
    "pack build": [("pack", "build", "pack/triage", "-o", ".", "--json")],
    "pack verify": [("pack", "verify", "pack/triage", "--json"), ("pack", "verify", "mine.py", "--json")],
    "pack install": [("pack", "install", "pack/triage", "--json")],
    "pack list": [("pack", "list", "--json")],
    "pack show": [("pack", "show", "local.examples.triage@1.0.0", "--json")],
    "admin migrate": [("admin", "migrate", "--json")],
}  # fmt: skip
# Documents that need more than this folder. `command` compares what it prints with the schema in every test.
ELSEWHERE = {
    "evaluate --traces A --traces B": "cli/evaluate/test_windows_of_files.py",
    "watch": "api/test_watch.py",
    "respond": "cli/approvals/test_deployment_command.py",
    "deploy promote": "cli/agent_evals/test_openwop_command.py",
    "deploy rollback": "cli/approvals/test_promotion.py",
    "admin delete --all": "cli/stored_runs/test_delete_tenant.py",
    "admin rekey": "backends/stores/test_sealing.py",
}


def test_documents_fit_their_schemas_keep_their_order_and_have_no_colour(command, folder):
    cases = [{"id": id, "input": id, "expected": id.upper()} for id in "abc"]
    (folder / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cases))
    jobs = [(verb, arguments) for verb, every in COMMANDS.items() for arguments in every]
    ended = command.each([arguments for _, arguments in jobs], folder=folder, environ=COLOURS)
    wrong = []
    for (verb, arguments), one in zip(jobs, ended, strict=True):
        place = " ".join(arguments)
        if not one.out:
            wrong.append((place, one.err[:300]))
            continue
        wrong += [(place, problem) for problem in problems_of(verb, one.out)]
        wrong += [(place, "a colour")] if "\\u001b[" in one.out else []
    assert wrong == []


def test_a_schema_is_printed_by_the_words_of_a_verb(command, folder):
    names, one, quoted, wrong = command.each(
        [("schema",), ("schema", "judge", "check"), ("schema", "compare --regressed"), ("schema", "compar")],
        folder=folder,
    )
    assert "TestCaseResult" in names.out.split("\n")
    assert "compare --regressed" in names.out.split("\n")
    assert json.loads(one.out)["title"] == "JudgeDocument"
    assert json.loads(quoted.out)["title"] == "RegressedCases"
    assert (wrong.code, "did you mean compare?" in wrong.err) == (2, True)
