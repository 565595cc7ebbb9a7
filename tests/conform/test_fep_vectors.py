"""The vectors of FEP, through every door: the library, the command, REST and gRPC. Each quotes a line of the text."""

import copy
import json
import re
from pathlib import Path

import grpc
import pytest
from msgspec import json as wire

import assay
from assay.conform.grpc.messages import message_of, result_of
from assay.conform.vectors import differences, vector_files
from support.commands.command import Command
from support.servers.grpc_client import RestAndGrpcServer, connect
from support.servers.rest_client import sqlite
from support.spec_files import SHARED, needs_shared

VECTORS = {f"{file.topic}.{one.name}": one for file in vector_files() for one in file.vectors}
each_topic = pytest.mark.parametrize("topic", [file.topic for file in vector_files()])


def problems(topic, door, *, json_only=True):
    """What differs, by vector."""
    chosen = {name: one for name, one in VECTORS.items() if name.startswith(f"{topic}.")}
    found = {
        name: list(differences(one, door(one)))
        for name, one in chosen.items()
        if json_only or not one.json_only
    }
    assert len(found) > 5
    return {name: wrong for name, wrong in found.items() if wrong}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with (
        RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("vectors"))) as host,
        host.client() as rest,
        connect(host) as client,
    ):
        yield rest, client


def by_library(vector):
    try:
        return json.loads(wire.encode(assay.evaluate_sync(**({"outputs": None} | vector.request))))
    except assay.InvalidRequest:
        return None


def by_rest(rest):
    def ask(vector):
        answer = rest.post("/v1/evaluate", json=vector.request)
        assert answer.status_code in (200, 400), answer.text
        return answer.json() if answer.status_code == 200 else None

    return ask


def by_grpc(client):
    def ask(vector):
        call = client.call("RunEvaluation", message_of(vector.request), wait=False)
        if call.exception() is None:
            return result_of(call.result())
        assert call.code() == grpc.StatusCode.INVALID_ARGUMENT
        return None

    return ask


@each_topic
def test_the_library_answers_as_the_text_says(topic):
    assert problems(topic, by_library) == {}


@each_topic
def test_rest_answers_as_the_text_says(topic, servers):
    assert problems(topic, by_rest(servers[0])) == {}


@each_topic
def test_grpc_answers_as_the_text_says(topic, servers):
    assert problems(topic, by_grpc(servers[1]), json_only=False) == {}


@pytest.fixture(scope="module")
def printed(request, tmp_path_factory, zygote):
    """What the command writes for the vectors of the tests that run, from one process; None if it refuses."""
    folder = tmp_path_factory.mktemp("commands")
    names = [
        one.callspec.params["name"]
        for one in request.session.items
        if one.path == request.path and "printed" in one.fixturenames
    ]
    for name in names:
        (folder / f"{name}.json").write_text(json.dumps(VECTORS[name].request), "utf-8")
    jobs = [["evaluate", f"{name}.json", "-o", f"{name}.result.json"] for name in names]
    answers = Command(zygote).each(jobs, folder=folder)
    return {
        name: None if answer.code == 2 else json.loads((folder / f"{name}.result.json").read_text("utf-8"))
        for name, answer in zip(names, answers, strict=True)
    }


@pytest.mark.sample(6)  # a command takes longer than all other doors
@pytest.mark.parametrize("name", VECTORS)
def test_the_command_answers_as_the_text_says(name, printed):
    assert list(differences(VECTORS[name], printed[name])) == []


@needs_shared
def test_every_vector_quotes_the_text_and_names_a_section_of_it():
    text = (SHARED / "spec" / "fep-0.0.1.md").read_text("utf-8")
    flat = re.sub(r"\s+", " ", text)
    assert [name for name, one in VECTORS.items() if one.text not in flat] == []
    sections = {one.rstrip(".\\") for one in re.findall(r"^#+ \**([0-9.]+\\?)", text, re.MULTILINE)}
    assert {one.reference.removeprefix("FEP 0.0.1 §") for one in VECTORS.values()} <= sections


def test_a_vector_that_the_text_does_not_decide_names_the_decision():
    decided = {one.decision for one in VECTORS.values() if one.decision}
    known = (Path(__file__).parents[2] / "docs" / "fep-decisions.md").read_text("utf-8")
    assert len(decided) > 10
    assert all(f"| {one} |" in known for one in decided)


@each_topic
def test_a_vector_finds_every_fault_in_what_it_expects(topic):
    """A refusal that is a result, a result that is a refusal, and each expected value that is another or left out."""
    right = by_library(VECTORS["exact_match.equal-texts-pass"])
    for name, vector in VECTORS.items():
        if not name.startswith(f"{topic}."):
            continue
        if vector.outcome is not None:
            assert list(differences(vector, None)) == []
            assert list(differences(vector, right)) != [], name
            continue
        assert list(differences(vector, None)) != [], name
        result = by_library(vector)
        for place, value in leaves(vector.expected):
            assert list(differences(vector, changed(result, place, value))) != [], (name, place)


def leaves(value, place=()):
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from leaves(one, (*place, name))
    elif isinstance(value, list) and value:
        for at, one in enumerate(value):
            yield from leaves(one, (*place, at))
    else:
        yield place, value


def changed(document, place, value):
    made = copy.deepcopy(document)
    at = made
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = (not value) if isinstance(value, bool) else "something else"
    return made
