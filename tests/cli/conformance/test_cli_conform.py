"""`assay conform`: exit codes, reports, and what a person reads."""

import json
import socket
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay.cli.conformance import conform
from assay.conform.catalog import all_checks
from assay.conform.run import run_checks
from support.commands.command import Command
from support.conform.fep_faults import FEP_FAULTS
from support.conform.proxy import proxied
from support.servers.grpc_client import RestAndGrpcServer
from support.servers.rest_client import Server, sqlite

FAST = ["--rate", "10000"]
FAULT = next(one for one in FEP_FAULTS if one.name == "a read has another summary")


@pytest.fixture(scope="module")
def done(tmp_path_factory, zygote):
    """What the command prints, by the name of the row, from one process; and the folder with its files."""
    folder = tmp_path_factory.mktemp("conform-command")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with (
        RestAndGrpcServer(sqlite(folder)) as server,
        proxied(server.url) as (faulty, proxy),
        proxy.faulty(FAULT),
    ):
        (folder / "a.key").write_text(server.key() + "\n", "utf-8")
        (folder / "b.key").write_text(server.key(tenant="other"), "utf-8")
        keys = ["--key", "@a.key", "--other-key", "@b.key", *FAST]
        two = ["--only", "fep.rest.reads-back", "--only", "fep.rest.foreign-is-unknown"]
        files = ["--markdown", "report.md", "--junit", "report.xml"]
        rows = {
            "passed": [server.url, *keys, *two, "-v"],
            "failed": [faulty, *keys, *two, *files],
            "json": [faulty, *keys, *two, "--json"],
            "missing key": [server.url, "--key", "@a.key", *two, *FAST],
            "strict": [server.url, "--key", "@a.key", *two, "--strict", *FAST],
            "wrong key": [server.url, "--key", "nonsense", *two, *FAST],
            "nobody": [nobody, "--key", "k", *files[:1], "nobody.md", "--junit", "nobody.xml", *FAST],
            "two missing": [server.url, "--key", "@a.key", "--only", "openwop.replicas", *FAST],
            "list": ["--list"],
            "explain": ["--explain", "fep.rest.reads-back"],
            "explain nothing": ["--explain", "vibes"],
            "shape": ["--shape", "suite.json"],
            "bad shape": ["--shape", "suite.json", "--shape", "card.json"],
            "shape of nothing": ["--shape", "none.json"],
            "only nothing": [server.url, "--key", "k", "--only", "vibes"],
            "no address": ["--key", "k"],
            "no key": [server.url],
            "no file": [server.url, "--key", "@none.key"],
            "grpc": ["--grpc", f"127.0.0.1:{server.grpc_port}", *keys, "--only", "fep.grpc.own-ids", "-v"],
            "rest and grpc": [
                server.url,
                "--grpc",
                f"127.0.0.1:{server.grpc_port}",
                *keys,
                *two,
                "--only",
                "fep.grpc.own-ids",
            ],
            "without grpc": [server.url, *keys, "--only", "fep.grpc.own-ids"],
            "other grpc address": ["--grpc", "unix:/x", "--key", "k"],
            "strict nothing": [server.url, *keys, "--only", "openwop.replicas", "--strict"],
            "replica alone": ["--replica", server.url, "--key", "k", "--grpc", "a:1"],
            "other address": ["ftp://example.com", "--key", "k"],
        }
        suite = Path(__file__).parents[3] / "conformance" / "openwop" / "plain.json"
        (folder / "suite.json").write_bytes(suite.read_bytes())
        (folder / "card.json").write_text('{"suiteId": "x", "aggregateScore": 2}', "utf-8")
        answers = Command(zygote).each(
            [["conform", *row] for row in rows.values()], folder=folder, environ={"ASSAY_API_KEY": ""}
        )
        yield dict(zip(rows, answers, strict=True)), folder


def test_without_the_grpc_extra_http_is_checked_and_grpc_is_refused_with_the_install_command(
    tmp_path, zygote
):
    answers = {}
    with Server(sqlite(tmp_path)) as server:
        for name, row in {
            "http": [server.url, "--key", server.key(), "--only", "fep.rest.own-ids", *FAST],
            "grpc": ["--grpc", "127.0.0.1:1", "--key", "k"],
        }.items():
            target = "support.commands.without_grpc:main"
            process = zygote.start("conform", *row, folder=tmp_path, pipe=True, target=target)
            answers[name] = (*process.communicate(), process.returncode)
    assert answers["http"][2] == 0, answers["http"][1]
    _, err, code = answers["grpc"]
    assert code == 2
    assert "assay conform --grpc needs grpcio: pip install 'openassay[grpc]'" in err
    assert "Traceback" not in err


CODES = {
    "passed": 0, "failed": 3, "json": 3, "missing key": 0, "strict": 3, "wrong key": 0, "two missing": 0, "nobody": 1, "list": 0, "explain": 0,
    "shape": 0, "bad shape": 3, "shape of nothing": 2, "explain nothing": 2, "only nothing": 2, "no address": 2, "no key": 2, "no file": 2, "other address": 2,
    "grpc": 0, "rest and grpc": 0, "without grpc": 0, "other grpc address": 2, "strict nothing": 3,
    "replica alone": 2,
}  # fmt: skip


@pytest.mark.parametrize(("row", "code"), CODES.items())
def test_the_exit_code(done, row, code):
    assert done[0][row].code == code, done[0][row].err


LINES = {
    "passed": "passed: fep.rest.reads-back (FEP 0.0.1 §5.1 getEvaluation)",
    "failed": "failed: fep.rest.reads-back (FEP 0.0.1 §5.1 getEvaluation): GET /v1/evaluations/",
    "missing key": "could not be tried: fep.rest.foreign-is-unknown (FEP 0.0.1 §6.4): it needs the key of another tenant: --other-key",
    "wrong key": "could not be tried: 2 checks, fep.rest.reads-back to fep.rest.foreign-is-unknown: POST /v1/evaluate: the key is refused",
    "grpc": "passed: fep.grpc.own-ids (FEP 0.0.1 §4.2)",
    "rest and grpc": "3 passed",
    "without grpc": "could not be tried: fep.grpc.own-ids (FEP 0.0.1 §4.2): it needs the address of gRPC: --grpc",
    "two missing": "not offered: 8 checks, openwop.replicas.discovery to openwop.replicas.evaluations: one address",
    "list": "fep.rest.reads-back",
    "shape": "suite.json: suite: no problem",
    "bad shape": "card.json: scorecard: 1 problem",
    "explain": "must come: 200, with the same id, status, summary, times and results.",
}


@pytest.mark.parametrize(("row", "line"), LINES.items())
def test_a_line_says_what_came(done, row, line):
    assert line in done[0][row].out


REFUSALS = {
    "failed": "`assay conform --explain fep.rest.reads-back` prints the rule, what is sent and what must come",
    "nobody": "refused",
    "explain nothing": "--explain vibes: there is no such check; `assay conform --list` lists them",
    "only nothing": "--only vibes: there is no such check; `assay conform --list` lists them",
    "wrong key": "no check passed: the address may be that of another host, or the key of nobody",
    "replica alone": "--replica: expected the first address of the host before it: assay conform URL",
    "no address": "expected the address of a host: assay conform http://127.0.0.1:8321",
    "shape of nothing": "none.json",
    "no key": "--key: expected a key, @FILE, or a key in ASSAY_API_KEY; got none",
    "no file": "--key @none.key: expected a file that can be read, got No such file or directory",
    "grpc": "4 evaluations and runs stay there: the host did not let them be deleted",
    "other grpc address": "--grpc 'unix:/x': expected HOST:PORT, or grpcs://HOST:PORT with TLS",
    "other address": "URL 'ftp://example.com': expected an address such as http://127.0.0.1:8321",
}


@pytest.mark.parametrize(("row", "line"), REFUSALS.items())
def test_a_refusal_says_what_was_expected(done, row, line):
    assert line in done[0][row].err


def test_json_has_every_check_and_the_counts(done):
    document = json.loads(done[0]["json"].out)
    assert document["exit_code"] == 3
    assert document["counts"] == {"passed": 1, "failed": 1, "not_offered": 0, "not_tried": 0}
    assert [(one["name"], one["result"]) for one in document["checks"]] == [
        ("fep.rest.reads-back", "failed"),
        ("fep.rest.foreign-is-unknown", "passed"),
    ]
    assert all(0 < one["seconds"] < 60 for one in document["checks"])
    assert document["left_behind"] == 0


def test_markdown_lists_what_failed_first(done):
    text = (done[1] / "report.md").read_text("utf-8")
    assert text.index("## Failed (1)") < text.index("fep.rest.reads-back") < text.index("## Passed (1)")


@pytest.mark.parametrize(("file", "failures", "errors"), [("report.xml", 1, 0), ("nobody.xml", 0, 1)])
def test_junit_fails_as_the_command_does(done, file, failures, errors):
    suite = ElementTree.parse(done[1] / file).getroot()[0]
    assert len(suite.findall("testcase/failure")) == int(suite.get("failures")) == failures
    assert len(suite.findall("testcase/error")) == int(suite.get("errors")) == errors
    assert len(suite) == int(suite.get("tests"))
    assert all(float(one.get("time")) >= 0 for one in suite.findall("testcase")[1:])  # the first is the host


def test_a_host_that_does_not_answer_leaves_every_check_untried(done):
    text = (done[1] / "nobody.md").read_text("utf-8")
    assert f"## Could not be tried ({len(all_checks())})" in text


def test_ctrl_c_deletes_what_was_made(tmp_path, monkeypatch):
    made = []

    def interrupted(host, checks, tell):
        run_checks(host, checks, tell)
        made.extend(host.made)
        raise KeyboardInterrupt

    monkeypatch.setattr(conform, "run_checks", interrupted)
    with Server(sqlite(tmp_path)) as server, server.client(server.key()) as client:
        options = conform.ConformOptions(
            url=server.url, key=server.key(), only=("fep.rest.own-ids",), rate=10_000.0, timeout=60.0
        )
        with pytest.raises(KeyboardInterrupt):
            conform.main(options)
        assert len(made) == 4
        assert {client.get(path).status_code for path in made} == {404}
