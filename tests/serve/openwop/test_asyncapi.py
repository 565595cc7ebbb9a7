"""The AsyncAPI document is the events that the code writes, both ways; and what a real run says fits it."""

import ast
import functools
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import inspect

import assay
from assay.protocol.events import Payload
from assay.runs.event_types import EVENTS
from assay.serve.openwop.asyncapi import document
from assay.serve.openwop.events_feed import is_update
from support.evals import golden, rubric
from support.servers.openwop_client import log_of, start_run, stream_events, suite
from support.servers.rest_client import Server, events_of, request_of, sqlite
from support.spec_files import SHARED, needs_shared

DOCUMENT = document()


@functools.cache
def written() -> set[str]:
    """The types of events that are named where one is made."""
    found: set[str] = set()
    for path in Path(assay.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        if not any(name in text for name in ("emit(", "_add(", "PendingEvent(")):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = node.args[:1] if name in ("emit", "_add") else []
            if name == "PendingEvent":
                given = [keyword.value for keyword in node.keywords if keyword.arg == "type"]
            found |= {
                one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return found


def payloads() -> set[type]:
    """Every type of payload, but those that are a part of another."""
    parts: set[type] = set()

    def look(kind: Any) -> None:
        for inner in getattr(kind, "types", ()) or [getattr(kind, "item_type", None)]:
            if isinstance(inner, inspect.StructType):
                parts.add(inner.cls)
            elif inner is not None:
                look(inner)

    every = {kind for kind in Payload.__subclasses__() if kind.__module__.startswith("assay.")}
    for kind in every:
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            if isinstance(field.type, inspect.StructType):
                parts.add(field.type.cls)
            look(field.type)
    return every - parts


def test_every_event_that_is_written_is_in_the_catalogue():
    assert written() <= EVENTS.keys()
    assert {"run.started", "eval.scored", "node.completed"} <= written()


def test_every_payload_has_its_event():
    assert set(EVENTS.values()) == payloads()


def test_the_document_has_exactly_the_events_of_the_catalogue():
    messages = DOCUMENT["components"]["messages"]
    aside = {"progress", "run.annotated", "state.snapshot", "batch"}
    ours = {"evaluation.progress", "evaluation.result"}
    assert messages.keys() == EVENTS.keys() | aside | ours
    assert DOCUMENT["channels"]["runEvents"]["messages"].keys() == messages.keys() - ours
    for type in EVENTS:
        assert ({"name": "updates"} in messages[type]["tags"]) == is_update(type)


def test_the_document_is_asyncapi_3_and_every_reference_resolves():
    assert DOCUMENT["asyncapi"] == "3.0.0"
    for place in _references(DOCUMENT):
        found: Any = DOCUMENT
        for part in place.removeprefix("#/").split("/"):
            found = found[part]


def _references(value: Any):
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "$ref":
                yield one
            else:
                yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


@needs_shared
def test_every_type_is_in_the_published_catalogue_or_ours():
    published = (SHARED / "openwop" / "schemas" / "run-event.schema.json").read_text("utf-8")
    strangers = {type for type in EVENTS if f'"{type}"' not in published}
    assert strangers <= {"assay.trial.ended", "assay.turn.message"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    def judge(ask):
        return {"criterion_1": {"reason": "so", "met": True}}

    with Server(sqlite(tmp_path_factory.mktemp("asyncapi")), judge=judge) as host:
        yield host


def test_the_events_of_a_run_match_the_document(host):
    document = suite(golden("a", "x", {"wait": 0.1, "say": "x"}), rubric("b", ("kind", 1), input="x"), modes=("golden", "rubric"))  # fmt: skip
    with host.client() as client, host.client(key="") as nobody:
        assert nobody.get("/v1/asyncapi.json").json() == msgspec.json.decode(msgspec.json.encode(DOCUMENT))
        run = start_run(client, document, trials=2)
        frames = stream_events(client, run, streamMode="debug")
        assert {event["type"] for event in log_of(client, run)} <= {frame.name for frame in frames}
    for frame in frames:
        schema = {
            "$ref": f"#/components/messages/{frame.name}/payload",
            "components": DOCUMENT["components"],
        }
        jsonschema_rs.validator_for(schema).validate(frame.data)


def test_the_events_of_an_evaluation_match_their_channel(tmp_path):
    channel = DOCUMENT["channels"]["evaluationEvents"]["messages"]
    with Server(sqlite(tmp_path)) as host, host.client() as client:
        id = client.post("/v1/evaluate", json=request_of(3)).json()["evaluation_id"]
        frames = events_of(client, id)
    assert {frame.name for frame in frames} == channel.keys()
    for frame in frames:
        name = channel[frame.name]["$ref"].rpartition("/")[2]
        payload = DOCUMENT["components"]["messages"][name]["payload"]
        whole = {**payload, "components": DOCUMENT["components"]}
        jsonschema_rs.validator_for(whole).validate(frame.data)
