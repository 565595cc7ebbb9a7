"""The phases of the execution model (openwop-contract §13), each with what proves it; the table is the one discovery reads."""

import json
import sys
from datetime import UTC, datetime, timedelta
from inspect import getmembers, isfunction
from typing import Any

import jsonschema_rs
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from assay.errors import InvalidRequest, NotFound
from assay.protocol.agents import MemoryEntry
from assay.seams import actions as seams
from assay.seams.sample_workflows import samples
from assay.workflow.agent_memory import AsOf, MemoryWrite, entries_as_of, memory_puts, read_writes
from assay.workflow.fork import fork
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.llm import cache_key, program_mock
from assay.workflow.replayer import Replayer
from assay.workflow.state.definition import document_of, read
from assay.workflow.state.execution_state import read_request, read_steps
from assay.workflow.supported_phases import PHASES, HostInfo, execution_model
from support.spec_files import SHARED
from support.workflows import ME, OTHER, ScriptedAgent, WorkflowHost, loop

pytestmark = pytest.mark.anyio

SCHEMA = SHARED / "openwop" / "schemas" / "capabilities.schema.json"


def plan(*decisions, dispatch=None, id="conformance-planned", variables=()):
    shown = document_of(samples()["conformance-dispatch-loop"])
    shown["nodes"][0]["config"] = {"mockDispatchPlan": list(decisions)}
    shown["nodes"][1]["config"] |= dispatch or {}
    shown["variables"] = [{"name": name, "type": "string"} for name in variables]
    return read(shown | {"id": id})


def next_worker(*ids, **more):
    return {"kind": "next-worker", "nextWorkerIds": list(ids), **more}


END = {"kind": "terminate", "reason": "goal-reached"}


@pytest.mark.parametrize("number", range(1, len(PHASES) + 1))
def test_every_phase_of_the_table_is_proved_here(number):
    mine = [
        name
        for name, _ in getmembers(sys.modules[__name__], isfunction)
        if name.startswith(f"test_phase_{number}_")
    ]
    assert mine or number == 6  # the verifier has a file of its own, test_verified.py


@pytest.mark.parametrize(
    ("host", "version"),
    [(HostInfo(), 6), (HostInfo(host_id=""), 2), (HostInfo(gating=False), 6), (HostInfo(replay=False), 3)],
    ids=["all", "nameless", "watching", "without replay"],
)
def test_the_version_is_the_highest_phase_with_all_below(host, version):
    model = execution_model(host)
    assert model["version"] == version
    assert model["verifier"] == {"supported": True, "gating": host.gating}
    assert ("crossHostCausation" in model) == (version >= 3)
    assert ("replayDeterminism" in model) == (version >= 4)
    assert ("statefulResume" in model) == (version >= 5)
    if SCHEMA.is_file():
        text = json.loads(SCHEMA.read_text())["properties"]["multiAgent"]
        jsonschema_rs.validator_for(text).validate({"executionModel": model})


# 1


async def test_phase_1_multi_agent_handoff_state_machine():
    async with WorkflowHost() as host:
        run = await host.run("conformance-multi-agent-handoff")
        events = await host.events(run)
        variables = (await host.workflows.snapshot(run))["variables"]
    assert (run.status, variables) == ("completed", {"parentResult": "handoff-complete"})
    decided = next(event for event in events if event["type"] == "runOrchestrator.decided")
    chain = [event for event in events if event["type"] == "core.workflowChain.event"]
    assert [event["payload"]["phase"] for event in chain] == [
        "dispatch.began", "dispatch.succeeded", "child.completed", "output.harvested",
    ]  # fmt: skip
    assert [event["causationId"] for event in chain] == [
        decided["eventId"], *(event["eventId"] for event in chain[:-1])
    ]  # fmt: skip
    assert chain[-1]["payload"]["harvestedKeys"] == ["parentResult"]
    assert {event["payload"]["parentRunId"] for event in chain} == {run.id}


async def test_phase_1_dispatch_loop():
    async with WorkflowHost() as host:
        run = await host.run("conformance-dispatch-loop")
        decided = [event["payload"] for event in await host.events(run, "runOrchestrator.decided")]
        assert [one["decision"]["kind"] for one in decided] == ["next-worker", "terminate"]
        assert len({one["agentId"] for one in decided}) == 1
        assert (await host.workflows.snapshot(run))["runOrchestrator"] == {"agentId": decided[0]["agentId"]}
        assert all(one.keys() <= {"agentId", "decision", "iteration", "causationHostId"} for one in decided)
        short = await host.run("conformance-dispatch-loop", configurable={"maxLoopIterations": 1})
        assert short.metadata["error"]["code"] == "loop_limit_exceeded"


async def test_phase_1_orchestrator_termination():
    async with WorkflowHost() as host:
        run = await host.run("conformance-orchestrator-terminate")
        assert run.status == "completed"
        assert len(await host.events(run, "runOrchestrator.decided")) == 1


async def test_phase_1_two_workers_are_two_chains_and_the_second_sees_the_state_of_the_first():
    async with WorkflowHost() as host:
        run = await host.run("conformance-dispatch-cross-worker-handoff")
        children = [event["payload"]["childRunId"] for event in await host.events(run, "node.dispatched")]
        second = await host.store.run(children[1])
        assert (await host.workflows.snapshot(second))["inputs"] == {"input": "hello"}
        began = [
            e
            for e in await host.events(run, "core.workflowChain.event")
            if e["payload"]["phase"] == "dispatch.began"
        ]
    assert len({event["causationId"] for event in began}) == 1


@pytest.mark.parametrize(
    ("verdicts", "verdict", "status"),
    [(["pass", "pass"], "pass", "completed"), (["fail", "pass"], "fail", "failed"), (["pass", "revise"], "revise", "failed")],
)  # fmt: skip
async def test_phase_1_of_two_workers_in_one_turn_the_strictest_verdict_counts(verdicts, verdict, status):
    """Where one of them is rejected, the run cannot end in success, whatever comes after it."""
    shown = document_of(plan(next_worker("conformance-noop", "conformance-noop"), END))
    shown["nodes"][1]["settings"] = {"critics": [{"agent": "test.critic"}]}
    async with WorkflowHost(ScriptedAgent("test.critic", verdicts), workflows=[read(shown)]) as host:
        run = await host.run("conformance-planned")
    assert (run.status, run.metadata["verdict"], run.metadata["goalSatisfied"]) == (
        status,
        verdict,
        status == "completed",
    )
    if status == "failed":
        assert run.metadata["error"]["code"] == "decision_rejected"


async def test_phase_1_an_unset_variable_leaves_the_childs_input_absent():
    async with WorkflowHost() as host:
        for id, wanted in (("conformance-dispatch-input-mapping", {"childGreeting": "Alice"}), ("conformance-dispatch-input-mapping-no-default", {})):  # fmt: skip
            run = await host.run(id)
            (dispatched,) = await host.events(run, "node.dispatched")
            child = await host.store.run(dispatched["payload"]["childRunId"])
            assert (await host.workflows.snapshot(child))["inputs"] == wanted


async def test_phase_1_a_child_that_fails_is_not_harvested_and_the_supervisor_goes_on():
    flow = plan(next_worker("conformance-failure"), END, dispatch={"outputMapping": {"a": "b"}})
    async with WorkflowHost(workflows=[flow]) as host:
        run = await host.run("conformance-planned")
        phases = [event["payload"] for event in await host.events(run, "core.workflowChain.event")]
    assert run.status == "completed"
    assert [one["phase"] for one in phases] == ["dispatch.began", "dispatch.succeeded", "child.failed"]
    assert phases[-1]["error"]["code"] == "node_failed"


async def test_phase_1_a_child_that_is_cancelled_while_it_runs():
    flow = plan(next_worker("conformance-cancellable"), END, dispatch={"outputMapping": {"a": "delayMs"}})
    async with WorkflowHost(workflows=[flow]) as host:
        run = await host.workflows.start(ME, "conformance-planned")
        dispatched = await host.until(run, "node.dispatched")
        await host.executor.cancel(dispatched[0]["payload"]["childRunId"], "t")
        run = await host.executor.wait(run.id)
        phases = [event["payload"]["phase"] for event in await host.events(run, "core.workflowChain.event")]
    assert (run.status, phases[-1]) == ("completed", "child.cancelled")


async def test_phase_1_cancelling_a_parent_cancels_its_child():
    async with WorkflowHost(workflows=[plan(next_worker("conformance-cancellable"), END)]) as host:
        run = await host.workflows.start(ME, "conformance-planned")
        dispatched = await host.until(run, "node.dispatched")
        assert (await host.executor.cancel(run.id, "t")).status == "cancelled"
        child = await host.executor.wait(dispatched[0]["payload"]["childRunId"])
        assert child.status == "cancelled"
        assert (await host.types(run))[-1] == "run.cancelled"


@pytest.mark.parametrize(
    ("decisions", "dispatch", "code"),
    [
        ([next_worker("nobody")], {}, "unknown_child_workflow"),
        (
            [next_worker("conformance-noop", "conformance-noop")],
            {"fanOutPolicy": "reject"},
            "fan_out_unsupported",
        ),
        ([next_worker("conformance-noop")] * 3, {"iterationCap": 2}, "loop_limit_exceeded"),
        ([{"kind": "next-worker"}], {}, "validation_error"),
    ],
)
async def test_phase_1_an_impossible_dispatch_fails_the_run(decisions, dispatch, code):
    async with WorkflowHost(workflows=[plan(*decisions, dispatch=dispatch)]) as host:
        run = await host.run("conformance-planned")
        assert (run.status, run.metadata["error"]["code"]) == ("failed", code)
        types = [event["payload"]["phase"] for event in await host.events(run, "core.workflowChain.event")]
        assert ("dispatch.failed" in types) == (code == "unknown_child_workflow")


async def test_phase_1_a_dispatch_without_a_decision_fails():
    shown = document_of(samples()["conformance-dispatch-loop"])
    shown["nodes"] = list(reversed(shown["nodes"]))
    shown["edges"] = [shown["edges"][1]]
    async with WorkflowHost(workflows=[read(shown | {"id": "conformance-backwards"})]) as host:
        run = await host.run("conformance-backwards")
        assert run.metadata["error"]["code"] == "no_pending_decision"


async def test_phase_1_a_workflow_that_starts_itself_ends():
    async with WorkflowHost(workflows=[plan(next_worker("conformance-planned"), END)]) as host:
        assert (await host.run("conformance-planned")).status == "completed"
        codes = {run.metadata["error"]["code"] for run in host.store._runs.values() if run.status == "failed"}
    assert codes == {"recursion_limit_exceeded"}


# 2


async def test_phase_2_multi_agent_confidence_escalation():
    async with WorkflowHost() as host:
        run = await host.run("conformance-multi-agent-confidence-escalation")
        events = await host.events(run)
        assert run.status == "waiting-approval"
        (escalated,) = [
            event for event in events if event["type"] == "core.workflowChain.confidence-escalated"
        ]
        assert not [event for event in events if event["type"] == "core.workflowChain.event"]
        (decided,) = [event for event in events if event["type"] == "runOrchestrator.decided"]
        assert escalated["causationId"] == decided["eventId"]
        assert (escalated["payload"]["confidence"], escalated["payload"]["floor"]) == (0.3, 0.5)
        assert escalated["payload"]["originalDecision"] == decided["payload"]["decision"]
        run = await host.answer(run, "dispatch", {"action": "accept"})
        decided = [event["payload"] for event in await host.events(run, "runOrchestrator.decided")]
    assert run.status == "completed"
    assert [one["iteration"] for one in decided] == [1, 2]  # the same decision ran, and was not decided twice
    assert decided[1]["decision"]["reason"] == "plan-exhausted"


@pytest.mark.parametrize(
    ("confidence", "kind", "escalates"),
    [
        (0.5, "next-worker", False),
        (0.49, "terminate", True),
        (None, "terminate", False),
        (0.0, "next-worker", True),
    ],
)
async def test_phase_2_the_floor_is_strict_and_holds_for_terminate(confidence, kind, escalates):
    decision = next_worker("conformance-noop") if kind == "next-worker" else dict(END)
    if confidence is not None:
        decision["confidence"] = confidence
    async with WorkflowHost(workflows=[plan(decision)]) as host:
        run = await host.run("conformance-planned")
    assert (run.status == "waiting-approval") is escalates


@pytest.mark.parametrize(
    ("value", "status", "iterations"),
    [
        ({"action": "reject"}, "failed", [1]),
        (
            {"action": "edit-accept", "decision": dict(END)},
            "completed",
            [1, 2],
        ),  # another decision, another turn
    ],
)
async def test_phase_2_a_person_may_reject_or_override(value, status, iterations):
    async with WorkflowHost() as host:
        run = await host.run("conformance-multi-agent-confidence-escalation")
        run = await host.answer(run, "dispatch", value)
        decided = [
            event["payload"]["iteration"] for event in await host.events(run, "runOrchestrator.decided")
        ]
    assert (run.status, decided) == (status, iterations)


@pytest.mark.parametrize("edit", [{}, {"decision": None}, {"decision": {"kind": "vibe"}}])
async def test_phase_2_an_invalid_decision_changes_nothing(edit):
    async with WorkflowHost() as host:
        run = await host.run("conformance-multi-agent-confidence-escalation")
        with pytest.raises(InvalidRequest) as refused:
            await host.workflows.respond(ME, run.id, "dispatch", {"action": "edit-accept", **edit})
        assert refused.value.problems[0].place == "resumeValue.decision"
        assert (await host.store.run(run.id)).events == run.events


async def test_phase_2_orchestrator_conservative_path():
    async with WorkflowHost() as host:
        run = await host.run("conformance-orchestrator-low-confidence")
        assert run.status == "waiting-approval"
        assert not await host.events(run, "runOrchestrator.decided")
        (held,) = await host.events(run, "node.suspended")
        assert (held["payload"]["reason"], held["payload"]["agentId"]) == (
            "low-confidence",
            "core.conformance.low-conf-supervisor",
        )
        run = await host.answer(run, "supervisor", {"action": "accept"})
        decided = [event["payload"] for event in await host.events(run, "runOrchestrator.decided")]
    assert run.status == "completed"
    assert decided[0]["decision"]["nextWorkerIds"] == ["conformance-noop"]
    assert [one["iteration"] for one in decided] == [1, 2]


T0 = datetime(2026, 1, 1, tzinfo=UTC)


def entry(id, ends=None):
    stamp = T0.isoformat()
    end = UNSET if ends is None else (T0 + timedelta(seconds=ends)).isoformat()
    return MemoryEntry(id=id, content=id, createdAt=stamp, expiresAt=end)


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        (MemoryWrite(entry=entry("a"), run="me", step=1, at=T0), True),
        (
            MemoryWrite(entry=entry("a"), run="me", step=3, at=T0),
            False,
        ),  # this turn's own write: seen in the next
        (MemoryWrite(entry=entry("a"), run="child", step=9, at=T0), True),  # another's, before the turn began
        (MemoryWrite(entry=entry("a"), run="child", step=0, at=T0 + timedelta(seconds=11)), False),
        (MemoryWrite(entry=entry("a", ends=5), run="child", step=0, at=T0), False),  # expired by then
        (
            MemoryWrite(entry=entry("a", ends=60), run="child", step=0, at=T0),
            True,
        ),  # whatever the clock says today
    ],
)
def test_phase_2_memory_is_folded_as_of_a_moment(row, seen):
    view = AsOf(run="me", step=3, at=T0 + timedelta(seconds=10))
    assert bool(entries_as_of([row], view)) is seen


async def test_phase_2_memory_writes_are_visible_to_the_next_turn_and_later_runs():
    views = []

    async def remembers(task, scene):
        views.append(sorted(entry.content for entry in await scene.memory.list()))
        await scene.memory.write(f"turn {len(views)}", tags=["t"])
        await scene.memory.write("a secret: sk-0123456789abcdefghij", ttl=0)
        views[-1].append(len(await scene.memory.list()))  # its own write is not in its view
        return len(views)

    worker = ScriptedAgent("test.actor", remembers)
    judge = ScriptedAgent("test.critic", ["revise", "pass"])
    async with WorkflowHost(worker, judge, loops={"loop": loop(memory="notes")}) as host:
        await host.run("loop", {"task": 1})
        await host.run("loop", {"task": 2})
        found = await read_writes(host.store, "t", ("default", "notes"))
        assert not await read_writes(
            host.store, "other", ("default", "notes")
        )  # another tenant remembers nothing
        assert not await read_writes(host.store, "t", ("default", "../\0notes"))
    assert views == [[0], ["turn 1", 1], ["turn 1", "turn 2", 2]]
    assert not [row for row in found if "sk-0123" in row.entry.content]


async def test_phase_2_a_memory_write_and_its_step_are_atomic():
    changes = memory_puts("t", ("default", "notes"), "run-1", 4, [entry("a"), entry("b")], T0)
    assert len({change.key for change in changes}) == 2
    assert {change.kind for change in changes} == {"memory"}


# 3


async def test_phase_3_cross_host_ancestry_endpoint():
    async with WorkflowHost() as host:
        run = await host.run("conformance-dispatch-loop")
        (dispatched,) = await host.events(run, "node.dispatched")
        child = dispatched["payload"]["childRunId"]
        assert await host.workflows.ancestry(run.id, "t", "h/1") == {
            "runId": run.id,
            "hostId": "h/1",
            "parent": None,
        }
        assert (await host.workflows.ancestry(child, "t", "h/1"))["parent"] == {
            "runId": run.id, "hostId": "h/1", "cause": "core.dispatch",
        }  # fmt: skip
        parent = await host.run("conformance-subworkflow-parent")
        (dispatched,) = await host.events(parent, "node.dispatched")
        ancestry = await host.workflows.ancestry(dispatched["payload"]["childRunId"], "t", "h/1")
        assert ancestry["parent"]["cause"] == "core.subWorkflow"
        with pytest.raises(NotFound):
            await host.workflows.ancestry(run.id, "other", "h/1")


async def test_phase_3_no_event_of_this_host_claims_a_cause_on_another():
    async with WorkflowHost() as host:
        run = await host.run("conformance-multi-agent-handoff")
        assert not [event for event in await host.events(run) if "causationHostId" in event["payload"]]


# 4


FLAT: dict[str, Any] = {
    "provider": "openai", "model": "gpt-4o-mini",
    "messages": [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": "Capital of Peru?"}],
    "tools": [
        {"name": "lookup", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
        {"name": "calc", "parameters": {"type": "object"}},
    ],
    "temperature": 0.2, "seed": 7, "maxOutputTokens": 16, "responseFormat": {"type": "text"},
    "stream": True, "metadata": {"traceId": "t-1"}, "runId": "run-1",
}  # fmt: skip
KEY = "807ea8d782f32429ebfa5b0aeeeb6e0f2a98d95d6763b596f8ef0966d1052d4b"
MINIMAL = {"provider": "anthropic", "model": "claude-x", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"tools": list(reversed(FLAT["tools"]))}, True),  # their order says nothing
        (
            {"stream": False, "metadata": {}, "runId": "x", "user": "u", "timeout": 3, "traceparent": "00"},
            True,
        ),
        ({"seed": 8}, False),
        ({"temperature": 0.3}, False),
        ({"stop": ["."]}, False),
        ({"messages": list(reversed(FLAT["messages"]))}, False),  # theirs does
        ({"providerOptions": {"vendor.openai.logitBias": {}}}, False),
        ({"model": "gpt-4o"}, False),
    ],
)
def test_phase_4_replay_llm_cache_key(changes, same):
    assert (cache_key(FLAT | changes) == KEY) is same


def test_phase_4_replay_llm_cache_key_portable():
    assert cache_key(MINIMAL) == "c92498949e9cc0e38bb2887e88e55b6936932e219b8344f0a7059b1de960073d"
    for missing in MINIMAL:
        with pytest.raises(InvalidRequest):
            cache_key({name: value for name, value in MINIMAL.items() if name != missing})


VALID = {"content": {"valid": True}, "stopReason": "end_turn"}
REFUSAL = {"stopReason": "safety", "refusalText": "I will not"}


@pytest.mark.parametrize(
    ("first", "then"), [(VALID, REFUSAL), (REFUSAL, VALID)], ids=["valid-refusal", "refusal-valid"]
)
async def test_phase_4_replay_divergence_at_refusal(first, then):
    async with WorkflowHost() as host:
        await program_mock(host.store, "t", "structured-call", [first])
        source = await host.run("conformance-phase4-replay-divergence")
        assert source.status == ("completed" if first is VALID else "failed")
        await program_mock(host.store, "t", "structured-call", [then])
        run = await host.executor.wait((await fork(host.workflows, ME, source.id, "replay", 0)).id)
        events = await host.events(run)
    assert (run.status, run.metadata["error"]["code"]) == ("failed", "replay_diverged_at_refusal")
    (diverged,) = [event["payload"] for event in events if event["type"] == "replay.divergedAtRefusal"]
    kinds = ("valid", "refusal") if first is VALID else ("refusal", "valid")
    assert (diverged["originalEnvelopeKind"], diverged["replayEnvelopeKind"]) == kinds
    assert (diverged["sourceRunId"], diverged["nodeId"]) == (source.id, "structured-call")
    assert [event["type"] for event in events[-3:]] == [
        "replay.divergedAtRefusal",
        "node.failed",
        "run.failed",
    ]


@pytest.mark.parametrize(
    ("type", "payload", "how"),
    [("node.completed", {"nodeId": "a", "more": 1}, "output"), ("variable.changed", {"name": "x"}, "type-mismatch")],
)  # fmt: skip
async def test_phase_4_a_changed_pure_node_is_recorded_and_the_replay_goes_on(type, payload, how):
    """Other code wrote the log of the source: pure nodes run again, and the first difference is recorded once."""
    async with WorkflowHost() as host:
        source = await host.run("conformance-multi-node")
        log, steps = await host.store.events(source.id), await read_steps(host.store, source.id)
        at = [event.type for event in log].index("node.completed")
        changed = json.loads(log[at].data) | {"payload": payload}
        log[at] = replace(log[at], type=type, data=json.dumps(changed).encode())
        request = replace(await read_request(host.store, source.id), source=source.id, replay=True)
    drive = Replayer("run-again", request, ExecutionEnvironment(), log)
    facts = [fact for kept in steps for fact in drive.feed(kept.result)]
    (diverged,) = [fact.payload for fact in facts if fact.type == "replay.diverged"]
    assert (diverged.source_run_id, diverged.at_sequence) == (source.id, at)
    assert (diverged.original_event_id, diverged.divergence_kind) == (changed["eventId"], how)
    assert drive.end.status == "completed"
    assert [fact.type for fact in facts].count("node.completed") == 3


async def test_phase_4_a_replay_without_divergence_completes():
    async with WorkflowHost() as host:
        source = await host.run("conformance-phase4-nondet-tool")
        run = await host.executor.wait((await fork(host.workflows, ME, source.id, "replay")).id)
        assert run.status == "completed"
        assert await host.types(run) == await host.types(source)


CLOCKS = ("durationMs", "decidedAt")


def _placed(value, places):
    """An event of the same run, by its place in the log."""
    if isinstance(value, dict):
        return {name: _placed(one, places) for name, one in value.items()}
    return places.get(value, value) if isinstance(value, str) else value


def without_ids(events):
    """As they are but for ids and clocks; causes as places in the log."""
    places = {event["eventId"]: event["sequence"] for event in events}
    return [
        (
            event["type"],
            {name: _placed(value, places) for name, value in event["payload"].items() if name not in CLOCKS},
            event.get("nodeId"),
            places.get(event.get("causationId")),
        )
        for event in events
    ]


async def test_phase_4_a_replay_calls_no_agent_and_has_the_same_events():
    worker, judge = ScriptedAgent("test.actor", ["a", "b"]), ScriptedAgent("test.critic", ["fail", "pass"])
    async with WorkflowHost(worker, judge, loops={"loop": loop()}) as host:
        source = await host.answer(await host.run("loop", {"task": "t"}), "actor", {"action": "accept"})
        asked = len(worker.tasks) + len(judge.tasks)
        run = await host.executor.wait((await fork(host.workflows, ME, source.id, "replay")).id)
        assert run.status == "completed"
        assert len(worker.tasks) + len(judge.tasks) == asked
        assert without_ids(await host.events(run)) == without_ids(await host.events(source))
        log = await host.events(run)
        own = {event["eventId"] for event in log}
        assert own & {event["eventId"] for event in await host.events(source)} == set()
        targets = [event["payload"]["target"] for event in log if event["type"] == "agent.verified"]
        assert len(targets) == 2
        assert set(targets) <= own  # its own, and not its source's
        assert "replay.diverged" not in {event["type"] for event in log}
        handed = await host.run("conformance-multi-agent-handoff")
        runs = len(host.store._runs)
        again = await host.executor.wait((await fork(host.workflows, ME, handed.id, "replay")).id)
        assert len(host.store._runs) == runs + 1  # no child was started
        assert without_ids(await host.events(again)) == without_ids(await host.events(handed))


async def test_phase_4_a_cancelled_run_replays_as_cancelled():
    async with WorkflowHost() as host:
        source = await host.run("conformance-approval")
        source = await host.executor.cancel(source.id, "t")
        run = await host.executor.wait((await fork(host.workflows, ME, source.id, "replay")).id)
        assert run.status == "cancelled"


async def test_phase_4_a_branch_keeps_the_earlier_events_and_executes_the_rest():
    worker, judge = (
        ScriptedAgent("test.actor", ["a", "b", "c"]),
        ScriptedAgent("test.critic", ["revise", "pass", "pass"]),
    )
    async with WorkflowHost(worker, judge, loops={"loop": loop()}) as host:
        source = await host.run("loop", {"task": "t"})
        events = await host.events(source)
        mine = [event["sequence"] for event in events if event["payload"].get("agentId") == "test.actor"]
        second = mine[3]  # after the three of its first turn: where its second begins
        run = await host.executor.wait((await fork(host.workflows, ME, source.id, "branch", second)).id)
        assert (run.status, run.metadata["mode"]) == ("completed", "branch")
        assert worker.tasks[-1]["turn"] == 2  # the first turn was not asked again
        assert len(worker.tasks) == 3
        mine = without_ids(await host.events(run))
        assert [one[0] for one in mine[:second]] == [one[0] for one in without_ids(events)[:second]]


@pytest.mark.parametrize("where", ["the beginning", "the middle"])
async def test_phase_4_overrides_of_a_branch_hold_in_its_forks(where):
    worker = ScriptedAgent("test.actor", lambda task, scene: "r")
    judge = ScriptedAgent("test.critic", lambda task, scene: "revise")
    async with WorkflowHost(worker, judge, loops={"loop": loop(max_turns=4)}) as host:

        async def forked(run, mode, start=0, **options):
            made = await fork(
                host.workflows, ME, run.id, mode, start, {"configurable": options} if options else None
            )
            ended = await host.executor.wait(made.id)
            snapshot = await host.workflows.snapshot(ended)
            return ended, (
                ended.metadata["error"]["details"]["cap"],
                ended.metadata["iteration"],
                snapshot["configurable"],
            )

        source = await host.run("loop", {"task": "t"})
        events = await host.events(source)
        turns = [one["sequence"] for one in events if one["type"] == "runOrchestrator.decided"]
        start = 0 if where == "the beginning" else turns[1]
        cap, secret = "configurable.maxLoopIterations", "sk-0123456789abcdefgh1234"
        shorter, log = await forked(source, "branch", start, maxLoopIterations=2, note=secret)
        kept = {"maxLoopIterations": 2, "note": "[REDACTED:openai-key]"}
        assert log == (cap, 2, kept)
        asked = len(worker.tasks)
        replayed, log = await forked(shorter, "replay")
        assert (log, len(worker.tasks)) == ((cap, 2, kept), asked)
        assert without_ids(await host.events(replayed)) == without_ids(await host.events(shorter))
        _, log = await forked(shorter, "branch", shorter.events - 1, maxLoopIterations=3)
        assert log == (cap, 3, kept | {"maxLoopIterations": 3})


async def test_phase_4_children_of_a_branch_have_its_options():
    worker = ScriptedAgent("test.actor", lambda task, scene: "r")
    loops = {"inner": loop(critics=[]), "loop": loop("workflow:inner", [])}
    async with WorkflowHost(worker, loops=loops) as host:
        source = await host.run("loop", {"task": "t"}, {"mine": 1})
        made = await fork(host.workflows, ME, source.id, "branch", 0, {"mine": 2})
        ended = await host.executor.wait(made.id)
        events = await host.events(ended)
        (child,) = [one["payload"]["childRunId"] for one in events if one["type"] == "node.dispatched"]
        below = await host.workflows.snapshot(await host.store.run(child))
        assert below["configurable"] == {"mine": 2}


@pytest.mark.parametrize(
    ("mode", "from_seq", "overlay", "wrong"),
    [
        ("branch", None, {}, InvalidRequest),
        ("replay", 0, {"configurable": {"maxLoopIterations": 1}}, InvalidRequest),
        ("branch", 0, {"configurable": {"maxLoopIterations": 0}}, InvalidRequest),
        ("branch", 0, {"configurable": 5}, InvalidRequest),
        ("branch", 0, {"configurable": "abc"}, InvalidRequest),
        ("branch", 0, {"configurable": None}, InvalidRequest),
        ("branch", 0, {"configurable": {"temperature": "hot"}}, InvalidRequest),
        ("replay", 0, {"configurable": []}, InvalidRequest),
    ],
)
async def test_phase_4_an_invalid_fork_is_refused(mode, from_seq, overlay, wrong):
    async with WorkflowHost() as host:
        source = await host.run("conformance-noop")
        with pytest.raises(wrong):
            await fork(host.workflows, ME, source.id, mode, from_seq, overlay)
        with pytest.raises(NotFound):
            await fork(host.workflows, OTHER, source.id, "replay")
        assert len(host.store._runs) == 1


# 5


async def test_phase_5_agent_loop_iteration_monotonic():
    async with WorkflowHost() as host:
        outcome = await seams.agent_loop(host.workflows, ME, {"turns": 3})
    assert outcome["decisions"] == [{"iteration": 1}, {"iteration": 2}, {"iteration": 3}]


async def test_phase_5_agent_loop_stateful_resume():
    async with WorkflowHost() as host:
        outcome = await seams.agent_loop(host.workflows, ME, {"turns": 4, "suspendAtTurn": 2, "resume": True})
        assert (outcome["resumedIteration"], [one["iteration"] for one in outcome["decisions"]]) == (
            2,
            [1, 2, 3, 4],
        )
        held = await seams.agent_loop(host.workflows, ME, {"turns": 4, "suspendAtTurn": 2})
        assert held["decisions"] == [{"iteration": 1}]
        for bad in ({}, {"turns": 0}, {"turns": True}, [], {"turns": 2, "suspendAtTurn": "x"}):
            with pytest.raises(InvalidRequest):
                await seams.agent_loop(host.workflows, ME, bad)


async def test_phase_5_a_waiting_loop_survives_a_restart():
    async with WorkflowHost() as host:
        run = await host.run("conformance-orchestrator-low-confidence")
    async with WorkflowHost(store=host.store) as later:
        run = await later.answer(run, "supervisor", {"action": "accept"})
        assert run.status == "completed"
        decided = [
            event["payload"]["iteration"] for event in await later.events(run, "runOrchestrator.decided")
        ]
    assert decided == [1, 2]


async def test_phase_5_a_held_turn_counts_once_against_the_bound():
    async with WorkflowHost() as host:
        run = await host.run("conformance-orchestrator-low-confidence", configurable={"maxLoopIterations": 1})
        assert run.status == "waiting-approval"
        run = await host.answer(run, "supervisor", {"action": "accept"})
        (breach,) = await host.events(run, "cap.breached")
    assert (run.metadata["error"]["code"], breach["payload"]["observed"]) == ("loop_limit_exceeded", 2)


# the seams of the verifier


@pytest.mark.parametrize("verdict", ["pass", "fail", "revise"])
async def test_phase_6_verify_run(verdict):
    async with WorkflowHost(*seams.SAMPLE_AGENTS) as host:
        outcome = await seams.verify_run(host.workflows, ME, {"simulateVerdict": verdict, "task": "CANARY"})
        for bad in ({}, {"simulateVerdict": "ok"}, []):
            with pytest.raises(InvalidRequest):
                await seams.verify_run(host.workflows, ME, bad)
    success = outcome["status"] == "completed" or outcome["outcome"] == "completed" or outcome["committed"]
    assert success is (verdict == "pass")
    assert {(one["type"], one["verdict"]) for one in outcome["events"]} == {("agent.verified", verdict)}
    assert "CANARY" not in json.dumps(outcome)


@pytest.mark.parametrize(
    ("policy", "action", "merged"),
    [
        ({"checksum": True}, None, True),
        ({"checksum": True, "requireApproval": True}, "accept", True),
        ({"checksum": True, "requireApproval": True}, "reject", False),
        ({"checksum": True, "requireApproval": True}, None, False),
    ],
)
async def test_phase_6_subrun_attest(policy, action, merged):
    async with WorkflowHost() as host:
        body = {"childOutputs": {"x": 1, "y": [2]}, "outputAttestation": policy, "approvalAction": action}
        outcome = await seams.attest(host.workflows, ME, body)
    assert outcome["merged"] is merged
    assert outcome.get("mergedValues") == ({"x": 1, "y": [2]} if merged else None)
    assert outcome["attestation"]["algorithm"] == "sha256"
    assert outcome["harvestedEvent"]["harvestedKeys"] == ["x", "y"]
