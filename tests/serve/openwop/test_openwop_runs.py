"""The parts of the run surface that need no server: what a stream carries, two runs side by side, what people say, suites on a shelf."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.agenteval.suites.suite_store import SuiteResolver, SuiteStore
from assay.backends.stores.memory import MemoryStore
from assay.errors import Conflict, InvalidRequest
from assay.packs.store import PackStore
from assay.ports import CreateRun, Event, EvidenceChunk, RunUpdate, Transaction
from assay.protocol.annotations import AnnotationCreate
from assay.protocol.event_record import CONTENT, PendingEvent, encode_event
from assay.protocol.events import AgentDecided, EvalScored
from assay.protocol.redaction import redact_text
from assay.runs.annotations import annotate, annotations, effective
from assay.runs.diff import diff, state_diff
from assay.runs.log_reader import all_events
from assay.serve.openwop.events_feed import buffer_of, carries, modes_of
from support.spec_files import fits

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        (None, ("updates",)),
        ("debug", ("debug",)),
        ("updates,messages", ("updates", "messages")),
        ("updates, updates", ("updates",)),
        ("values", ("values",)),
        ("values,updates", None),  # it stands alone
        ("everything", None),
        ("", None),
    ],
)
def test_stream_modes(text, modes):
    if modes is None:
        with pytest.raises(
            InvalidRequest, match="streamMode: expected one of updates, values, messages, debug"
        ):
            modes_of(text)
    else:
        assert modes_of(text) == modes


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        (None, 0),
        ("0", 0),
        ("5000", 5000),
        ("5001", None),
        ("99999", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_a_buffer_beyond_its_bound_is_refused_and_not_clamped(text, milliseconds):
    if milliseconds is None:
        with pytest.raises(InvalidRequest, match="bufferMs"):
            buffer_of(text)
    else:
        assert buffer_of(text) == milliseconds


@pytest.mark.parametrize(
    ("mode", "type", "goes"),
    [
        ("updates", "run.started", True),
        ("updates", "eval.scored", True),
        ("updates", "node.completed", True),
        ("updates", "node.started", False),
        ("updates", "agent.reasoned", False),
        ("updates", "provider.usage", False),
        ("debug", "agent.reasoned", True),
        ("messages", "ai.message.chunk", True),
        ("messages", "run.completed", False),
    ],
)
def test_the_events_of_each_stream_mode(mode, type, goes):
    assert carries([mode], type) is goes


def event(type, **payload):
    return {"type": type, "payload": payload}


LOGS = st.lists(st.builds(event, st.sampled_from(["a", "b"]), x=st.integers(0, 2)), max_size=6)


@given(one=LOGS, two=LOGS)
def test_a_diff_names_the_first_difference_of_two_logs_only(one, two):
    found = diff("r1", "r2", one, two, ({}, {}), in_flight=False)
    back = diff("r2", "r1", two, one, ({}, {}), in_flight=False)
    seqs = [entry["seq"] for entry in found["eventDiffs"]]
    assert found["divergedAtSeq"] == (seqs[0] if seqs else None)
    assert seqs == [entry["seq"] for entry in back["eventDiffs"]] == sorted(set(seqs))
    assert (one == two) == (not seqs)
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    assert [entry["op"] for entry in found["eventDiffs"]] == [turned[e["op"]] for e in back["eventDiffs"]]
    fits("run-diff-response", found)


@pytest.mark.parametrize(
    ("a", "b", "diff"),
    [
        ({"status": "completed"}, {"status": "completed"}, {}),
        ({"x": 1}, {"x": 1.0}, {}),  # one number
        ({"x": None}, {}, {"x": {"a": None}}),  # absent is not null
        ({"o": {"k": 1, "s": 2}}, {"o": {"k": 1, "s": 3}}, {"o": {"a": {"s": 2}, "b": {"s": 3}}}),
        ({"o": {"k": 1}}, {"o": [1]}, {"o": {"a": {"k": 1}, "b": [1]}}),
    ],
)
def test_the_difference_of_two_states(a, b, diff):
    assert state_diff(a, b) == diff


@pytest.fixture
async def store():
    store = MemoryStore()
    yield store
    await store.close()


pytestmark = pytest.mark.anyio


async def recorded(store):
    """A run with one score and one decision, whose content lies beside it."""
    decided = PendingEvent(
        type="agent.decided", payload=AgentDecided(agent_id="local.a.b"), content={"decision": "yes"}
    )
    scored = PendingEvent(
        type="eval.scored",
        payload=EvalScored(task_id="t", score=0, passed=False),
        causation_id=decided.id,
        node_id="task:t",
    )
    entry = RunUpdate(
        run="run-1",
        opens=CreateRun(tenant="acme", kind="eval", name="a.evals.b"),
        status="completed",
        events=[Event(fact.type, encode_event(fact), NOW) for fact in (decided, scored)],
        evidence=[EvidenceChunk(kind=CONTENT, key=decided.id, data=msgspec.json.encode(decided.content))],
    )
    await store.commit(Transaction(entries=[entry]))
    return await store.run("run-1"), decided, scored


async def test_the_owner_reads_events_with_their_content(store):
    run, decided, _ = await recorded(store)
    first, second = [one async for one in all_events(store, run.id)]
    assert first["payload"] == {"agentId": "local.a.b", "decision": "yes"}
    assert (second["causationId"], second["nodeId"]) == (decided.id, "task:t")
    assert [one["sequence"] for one in (first, second)] == [0, 1]
    for one in (first, second):
        fits("run-event", one)
    (raw, _) = await store.events(run.id)
    assert b"yes" not in raw.data


def annotation(event=None, **signal):
    target = {"target": {"eventId": event}} if event else {}
    return msgspec.convert(
        {"signal": signal, **target, "note": "seen sk-0123456789abcdefghij"}, AnnotationCreate
    )


async def test_a_correction_gives_an_effective_score_and_changes_nothing(store):
    run, _, scored = await recorded(store)
    for at, score in enumerate((0.5, 1)):
        correction = msgspec.json.encode({"score": score, "passed": score == 1}).decode()
        made = await annotate(
            store, run, annotation(scored.id, kind="correction", correction=correction), "key-1",
            NOW + timedelta(seconds=at), redact_text,
        )  # fmt: skip
        fits("annotation", msgspec.json.decode(msgspec.json.encode(made)))
    kept = await annotations(store, run)
    assert effective(kept)[scored.id].score == 1  # the last word
    assert [one["payload"].get("score") async for one in all_events(store, run.id)] == [None, 0]
    assert all("sk-0123" not in str(one.note) for one in kept)


@pytest.mark.parametrize(
    ("event", "signal", "place"),
    [
        (None, {"kind": "rating"}, "signal.rating"),
        (None, {"kind": "label"}, "signal.label"),
        ("ev-unknown", {"kind": "flag"}, "target.eventId"),
        ("scored", {"kind": "correction", "correction": "better"}, "signal.correction"),
        ("scored", {"kind": "correction", "correction": "{}"}, "signal.correction"),
        ("scored", {"kind": "correction", "correction": '{"score": 2}'}, "signal.correction"),
    ],
)
async def test_an_invalid_annotation_is_refused_and_not_stored(store, event, signal, place):
    run, _, scored = await recorded(store)
    with pytest.raises(InvalidRequest) as refused:
        await annotate(
            store, run, annotation(scored.id if event == "scored" else event, **signal), "k", NOW, str
        )
    assert [problem.place for problem in refused.value.problems] == [place]
    assert await annotations(store, run) == []


def suite(version="1.0.0", value="Paris"):
    task = {
        "taskId": "t",
        "input": "?",
        "expected": {"kind": "golden", "match": {"strategy": "exact", "value": value}},
    }
    return {"suiteId": "local.acme.evals.capitals", "version": version, "modes": ["golden"], "tasks": [task]}


def resolver(store):
    return SuiteResolver(SuiteStore(store), PackStore(store))


async def test_a_version_of_a_suite_is_immutable(store):
    shelf = SuiteStore(store)
    _, new = await shelf.put("acme", suite())
    _, again = await shelf.put("acme", suite())
    assert (new, again) == (True, False)
    with pytest.raises(Conflict):
        await shelf.put("acme", suite(value="Rome"))
    found = await resolver(store).resolve("acme", "local.acme.evals.capitals@1.0.0")
    assert found.suite.tasks[0].expected.match.value == "Paris"


async def test_a_reference_without_a_version_names_the_highest(store):
    shelf = SuiteStore(store)
    for version in ("1.9.0", "1.10.0", "1.2.0"):
        await shelf.put("acme", suite(version))
    found = await resolver(store).resolve("acme", "local.acme.evals.capitals")
    assert found.suite.version == "1.10.0"  # as numbers


@pytest.mark.parametrize(
    "ref",
    [
        "local.acme.evals.capitals@9.9.9",
        "local.acme.evals.nothing",
        "http://127.0.0.1/suite.json",
        "file:///etc/passwd",
        "inline:{}",
        "pack:a@1.0.0/evals/x.json",
        "evals/x.json",
    ],
)
async def test_an_invalid_reference_is_refused(store, ref):
    shelf = SuiteStore(store)
    await shelf.put("other", suite())
    with pytest.raises(InvalidRequest, match="evalSuiteRef"):
        await resolver(store).resolve("acme", ref)
