"""`assay pack install|list|show|remove`, and `assay run` with agents and suites of packs; the model is scripted."""

import json

import pytest

from assay.errors.exit_codes import ERROR, NOT_PASSED
from support.packs import (
    KEY,
    PUBLIC_PEM,
    REAL,
    REAL_NAMES,
    agent_of,
    build_pack,
    files_of,
    needs_real_packs,
    suite_document,
    write_files,
)  # fmt: skip

NAME = "local.acme.shop"
BOT, EVALS = f"{NAME}.bot", f"{NAME}.evals.bot"
CONFIG = """
[providers.fake]
kind = "scripted"
script = "replies.json"
prices = {input = 0, output = 0}
[models]
general = "fake:one"
[pack_keys.openwop-team-1]
file = "REAL/openwop-team-1.pub"
namespaces = ["core.openwop"]
"""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "assay.toml").write_text(
        CONFIG.replace("REAL/", f"{REAL}/") if REAL.is_dir() else CONFIG.partition("[pack_keys")[0]
    )
    (tmp_path / "replies.json").write_text('{"replies": [{"say": "Paris"}]}')
    write_files(tmp_path / "src", files_of())
    return tmp_path


@needs_real_packs
def test_the_published_packs_install_and_are_listed(home, command):
    for name in REAL_NAMES:
        installed = command("pack", "install", str(REAL / f"{name}.tgz"), "--manifest", str(REAL / f"{name}.json"), folder=home)  # fmt: skip
        assert installed.code == 0, installed.err
    records = json.loads(command("pack", "list", "--json", folder=home).out)
    assert [f"{one['name']}-{one['version']}" for one in records] == list(REAL_NAMES)
    assert {(one["signedBy"], one["digestSource"]) for one in records} == {("openwop-team-1", "manifest")}


def test_an_agent_of_a_pack_runs_on_its_own_suite_and_after_its_pack_was_removed(home, command):
    def run(*arguments):
        return command("run", *arguments, folder=home)

    assert command("pack", "list", folder=home).err.startswith("assay: no pack is installed")
    installed = command("pack", "install", "src", folder=home)
    assert installed.out.splitlines() == [
        f"{NAME}@1.0.0 installed: 1 agent, 1 suite",
        f"agent  {BOT}",
        f"suite  {EVALS}@1.0.0  evals/bot.json",
    ]
    assert "is installed already" in command("pack", "install", "src", folder=home).out
    shown = json.loads(command("pack", "show", NAME, "--json", folder=home).out)
    digest = shown["suites"][0]["digest"]
    for suite in ([], [EVALS], [f"{EVALS}@1.0.0"], [f"pack:{NAME}@1.0.0/evals/bot.json"], ["evals/bot.json"]):
        passed = run(*suite, "--agent", BOT)
        assert passed.code == 0, passed.err
        assert f"suite pack:{NAME}@1.0.0/evals/bot.json, sha256 {digest}" in passed.out
    (home / "cases.jsonl").write_text('{"id": "a", "input": {"text": "Capital of France?"}}\n')
    (home / "checks.yaml").write_text("- contains: [Paris]\n")
    words = ("--cases", "cases.jsonl", "--checks", "checks.yaml", "--min-pass-rate", "1")
    scored = command("evaluate", *words, "--agent", BOT, folder=home)
    assert scored.code == 0, scored.err + scored.out
    (home / "replies.json").write_text(
        '{"replies": [{"when": "never said", "say": "x"}]}'
    )  # the model has no answer: nothing is measured
    failed = run("--agent", BOT)
    assert failed.code == ERROR, failed.out
    removed = command("pack", "remove", f"{NAME}@1.0.0", folder=home)
    assert removed.out == f"{NAME}@1.0.0 removed; its runs keep what they need\n"
    (home / "replies.json").write_text('{"replies": [{"say": "Paris"}]}')
    resumed = run("--resume", "latest")  # with the prompt and the suite that the run stored
    assert resumed.code == 0, resumed.err
    assert digest in resumed.out
    assert digest in command("show", "latest", "--json", folder=home).out
    gone = run("--agent", BOT)
    assert gone.code == 2
    assert f"--agent '{BOT}'" in gone.err


REFUSED = [
    (["run", "none.yaml", "--agent", BOT], "none.yaml"),
    (["run", "pack:local.acme.none@1.0.0/x.json", "--agent", BOT], "SUITE pack:local.acme.none@1.0.0/x.json: there is no pack"),
    (["run", "http://127.0.0.1/x.json", "--agent", BOT], "http: address"),
    (["run", "local.acme.evals.none", "--agent", BOT], "there is no suite"),
    (["run", "--agent", f"{NAME}.plain"], f"agent {NAME}.plain has none of its own"),
    (["pack", "show", "local.acme.none"], "there is no pack 'local.acme.none'"),
    (["pack", "remove", NAME], "a pack is named name@version"),
    (["pack", "install", "other"], f"pack {NAME}@1.0.0: this version is installed with other content of README.md"),
    (["pack", "install", "vendor.acme.shop-1.0.0.tgz"], "pack_integrity_failure"),
]  # fmt: skip


def test_a_refusal_says_what_is_possible(home, command):
    agents = [
        agent_of(NAME),
        agent_of(NAME, agentId=f"{NAME}.plain", evalSuiteRef=None),
    ]
    write_files(home / "src", files_of(agents=agents))
    write_files(home / "other", files_of(agents=agents) | {"README.md": b"changed"})
    (home / "team.pub").write_bytes(PUBLIC_PEM)
    (home / "vendor.acme.shop-1.0.0.tgz").write_bytes(build_pack(files_of("vendor.acme.shop"), KEY).tarball)
    assert command("pack", "install", "src", folder=home).code == 0
    for (_, words), done in zip(REFUSED, command.each([row[0] for row in REFUSED], folder=home), strict=True):
        assert done.code == 2, done.err
        assert words in done.err


def test_a_missing_model_of_a_class_is_refused(home, command):
    agents = [agent_of(NAME, agentId=f"{NAME}.coder", modelClass="coding")]
    write_files(home / "src", files_of(agents=agents))
    settings = home / "assay.toml"
    settings.write_text(settings.read_text().replace("general =", "classification ="))
    assert command("pack", "install", "src", folder=home).code == 0
    done = command("run", "--agent", f"{NAME}.coder", folder=home)
    assert (done.code, "there is no model of class 'coding'" in done.err) == (2, True), done.err


def test_the_highest_version_of_a_pack_has_the_agent(home, command):
    assert command("pack", "install", "src", folder=home).code == 0
    newer = files_of(version="1.1.0", suite=suite_document(version="1.1.0", value="Rome"))
    write_files(home / "src", newer)
    assert command("pack", "install", "src", folder=home).code == 0
    assert command("run", "--agent", BOT, folder=home).code == NOT_PASSED
    assert command("pack", "remove", f"{NAME}@1.1.0", folder=home).code == 0
    assert command("run", "--agent", BOT, folder=home).code == 0
