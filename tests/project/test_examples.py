"""The examples run: the offline one as it is, the judged ones against a provider on this machine."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.models.provider_server import ProviderServer, fitting
from support.runner import forkserver
from support.servers.grpc_client import RestAndGrpcServer
from support.servers.rest_client import sqlite

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
FOLDER = Path(__file__).parents[2] / "examples" / "free_answers"
RIGHT = ("Of course!", "between five and seven", "Forgot password' where")


def verdict(body):
    """A sensible judge: it knows the right answers, and grades them."""
    prompt = body["messages"][-1]["content"]
    right = any(words in prompt for words in RIGHT)
    answer = fitting(body)
    if "passed" in answer:
        return answer | {"passed": right}
    return answer | {"grade": "excellent" if right else "poor", "helpfulness": 5 if right else 1}


@pytest.fixture
def example(tmp_path):
    def run(checks, **environment):
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "OPENAI_"))
        }
        done = subprocess.run(
            [forkserver.python(), "-m", "assay", "evaluate", "--contexts", str(FOLDER / "answers.jsonl"),
             "--checks", str(FOLDER / checks), "-o", "results.jsonl"],
            cwd=tmp_path, env=kept | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = (tmp_path / "results.jsonl").read_text().splitlines()
        return done, [json.loads(line) for line in lines]

    return run


@pytest.fixture
def judged(example):
    with ProviderServer(verdict) as server:
        yield lambda checks: example(
            checks,
            OPENAI_API_KEY="sk-test",
            OPENAI_BASE_URL=server.base_url,
            ASSAY_MODEL_JUDGE="openai:gpt-4o-mini",
        )


def passed(cases):
    return [case["check_results"][0]["results"]["response"]["passed"] for case in cases]


def test_free_answers_are_graded_by_a_judge(judged):
    done, cases = judged("judged.yaml")
    assert done.returncode == 0, done.stderr
    assert passed(cases) == [True, True, False, True, False, False]
    assert "llm_judge       3       3" in done.stdout
    assert "cost unknown for 6 answers" in done.stdout  # OpenAI's prices are not this machine's


def test_the_same_offline_with_similarity(example):
    done, cases = example("offline.yaml")
    assert done.returncode == 0, done.stderr
    assert passed(cases) == [True, True, True, True, False, False]  # the warranty is near, and wrong
    assert "cost" not in done.stdout


def test_booleans_numbers_and_words_in_one_table(judged):
    done, cases = judged("mixed.yaml")
    assert done.returncode == 0, done.stderr
    table = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert table["regex"].split()[1:3] == ["6", "0"]
    assert "score: mean 0." in table["semantic_similarity"]
    assert "grade: excellent 3, poor 3" in " ".join(done.stdout.split())
    assert "helpfulness: mean 3 (" in table["llm_judge"]
    assert ") of 6" in table["llm_judge"]
    assert len(cases) == 6


# Suites

SUITES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("folder", "agent", "mode", "expected"),
    [
        ("function", "textkit:slug", (), ["score 0.833", "passed: at least", "✗  umlaut  0.000  expected 'gruesse'"]),
        ("classifier", "classifier:classify", ("--mode", "golden"), ["score 0.889", "✗  back-in-stock"]),
        ("support", "local.examples.support", (), ["score 0.860", "cost $0.000", "not met: offers something to make up"]),
    ],
    ids=["function", "classifier", "support"],
)  # fmt: skip
def test_a_suite_runs_offline_to_its_scorecard(command, tmp_path, folder, agent, mode, expected):
    shutil.copytree(SUITES / folder, tmp_path, dirs_exist_ok=True)
    ended = command("run", "suite.yaml", "--agent", agent, *mode, folder=tmp_path)
    assert ended.code == 0, ended.err
    for text in expected:
        assert text in ended.out


# Clients of a server


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("served"))) as host:
        yield host


@pytest.mark.parametrize(
    ("client", "more"),
    [("over_rest", ""), ("over_grpc", "INVALID_ARGUMENT validation_error checks[0].type\n")],
)
def test_a_client_over_each_transport(served, client, more):
    address = served.url if client == "over_rest" else f"127.0.0.1:{served.grpc_port}"
    done = subprocess.run(
        [forkserver.python(), "-W", "error", str(CLIENTS / f"{client}.py"), address, served.key()],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == f"fr {{'passed': True}}\nes {{'passed': False}}\ncompleted 2 checks\n{more}"


def test_a_client_of_the_run_surface(served):
    done = subprocess.run(
        [forkserver.python(), "-W", "error", str(CLIENTS / "over_openwop.py"), served.url, served.key(), "local.tests.agent"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "same 1.0\nother 0.0\nscore 0.5 not passed\nrecorded 0.5 effective 1.0\n"


def test_the_pack_installs_and_runs(tmp_path, command):
    folder = shutil.copytree(CLIENTS.parent / "pack", tmp_path / "pack")
    (tmp_path / "built").mkdir()
    assert command("pack", "build", "triage", "-o", "../built", folder=folder).code == 0
    tarball = "../built/local.examples.triage-1.0.0"
    installed = command("pack", "install", f"{tarball}.tgz", "--manifest", f"{tarball}.json", folder=folder)
    assert installed.code == 0, installed.err
    ran = command("run", "--agent", "local.examples.triage.default", folder=folder)
    assert ran.code == 0, ran.err
    assert "tasks 2 of 2 passed" in ran.out


def test_the_promotion_ends_with_the_first_version(tmp_path, zygote):
    folder = shutil.copytree(CLIENTS.parent / "promotion", tmp_path / "promotion")
    environ = {**os.environ, "PATH": f"{zygote.bin}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(folder / "promote.sh")], env=environ, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    *_, first, second = done.stdout.splitlines()
    assert "1.0.0    active                stable" in first
    assert "1.1.0    rolled-back to 1.0.0" in second
