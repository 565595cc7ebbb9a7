"""`assay view`: an own server with a one-time code, the page of a running one, and bad input."""

import json
import os
import re
import signal
import urllib.error
import urllib.request

import pytest

from assay.serve.page import built_files
from support.servers.rest_client import Server, sqlite

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/#(/\S*)\?code=(assay_code_[\w-]{43})")


def opened(address):
    """The path that the page would show, and the answer to its code, twice."""
    match = ADDRESS.fullmatch(address.strip())
    assert match, address
    server, path, code = match.groups()
    answers = []
    for _ in range(2):
        body = json.dumps({"code": code}).encode()
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{server}/v1/host/assay/session:exchange", body, head)
        try:
            with urllib.request.urlopen(asked) as answer:
                answers.append((answer.status, json.load(answer)))
        except urllib.error.HTTPError as refused:
            answers.append((refused.code, json.load(refused)))
    return server, path, answers


def identity(server, key):
    asked = urllib.request.Request(
        f"{server}/v1/host/assay/session", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


@pytest.fixture
def page():
    if not (built_files.page_folder() / built_files.INDEX).is_file():
        pytest.skip("the page is not built: make web")


def test_an_own_server_signs_the_browser_in_once(zygote, command, tmp_path, page):
    request = {"test_cases": [{"id": "a", "input": "x"}], "outputs": [{"value": "x"}]}
    request |= {"checks": [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["x"]}}]}
    (tmp_path / "request.json").write_text(json.dumps(request))
    done = command("evaluate", "request.json", "--save", folder=tmp_path)
    assert done.code == 0, done.err
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = zygote.start("view", "latest", "--no-open", folder=tmp_path, pipe=True, environ=environ)
    try:
        server, path, ((status, session), (again, refusal)) = opened(process.stdout.readline())
        caller = identity(server, session["key"])
        with urllib.request.urlopen(f"{server}/") as answer:
            assert b'<div id="root">' in answer.read()
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (status, again, refusal["error"]) == (201, 401, "code_refused")
    assert re.fullmatch(r"/runs/eval_\w+", path)
    assert (caller["tenant"], caller["session"]) == ("local", True)
    assert {"runs:read", "evaluations:read", "deploy:promote"} <= set(caller["scopes"])
    assert "assay_code_" not in err


def test_a_running_server_gives_what_the_key_allows(command, tmp_path):
    with Server(sqlite(tmp_path)) as host:
        (tmp_path / "key").write_text(host.key("acme", {"runs:read"}))
        address = f"http://127.0.0.1:{host.port}"
        done = command("view", "--server", address, "--key-file", "key", "--no-open", folder=tmp_path)
        assert done.code == 0, done.err
        server, path, ((status, session), (again, _)) = opened(done.out)
        assert (status, again, path) == (201, 401, "/runs")
        caller = identity(server, session["key"])
        assert (caller["tenant"], caller["scopes"]) == ("acme", ["runs:read"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--key-file", "k"), "--key-file: expected --server with it"),
        (("--server", "http://127.0.0.1:1", "--tenant", "t"), "the key decides the tenant"),
        (("--server", "nonsense"), "expected an address such as"),
        (("--server", "http://127.0.0.1:1"), "expected a key in ASSAY_API_KEY"),
        (("--tenant", "a/b"), "expected the name of a tenant"),
        (("--port", "x"), "expected a whole number"),
    ],
)
def test_bad_input_is_refused_in_one_line(command, tmp_path, arguments, message):
    done = command(
        "view", "--no-open", *arguments, folder=tmp_path, environ={**os.environ, "ASSAY_API_KEY": ""}
    )
    assert done.code == 2
    assert message in done.err


def test_a_run_that_is_not_there_is_named(command, tmp_path, page):
    done = command("view", "nothing", "--no-open", folder=tmp_path)
    assert done.code == 2
    assert "there is no run 'nothing'" in done.err
