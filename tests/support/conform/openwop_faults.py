"""Planted faults of an OpenWOP host, and the checks that must find each."""

import re

from support.conform.fep_faults import answer_without_key, anybody_reads, owner, tell_existence
from support.conform.proxy import Mutation

POLL = r"/v1/runs/[^/]+/events/poll"
RUN = r"/v1/runs/run-[^/?:]+$"
SUMMARY = r"/v1/runs/[^/]+/eval-summary"
VERIFY = r"/v1/host/sample/agents/verify-run"
PLAYED = r"/v1/host/sample/agents/deployment-transition"
DEPLOYMENTS = r"/v1/agents/[^/]+/deployments"
ANNOTATIONS = r"/v1/runs/[^/]+/annotations"
CREATED = {"runId": "run-never-made", "status": "pending", "eventsUrl": "/x"}


def when(method, path, change, status=None, sent=b""):
    """Change answers to requests whose path and body match; perhaps those of a status alone."""
    pattern = re.compile(path)

    def apply(exchange):
        if (
            exchange.method == method
            and pattern.match(exchange.path)
            and status in (None, exchange.status)
            and sent in exchange.sent
        ):
            change(exchange)

    return apply


def document(method, path, change, status=200, sent=b""):
    """Change the JSON of such answers."""

    def apply(exchange):
        if exchange.headers.get("content-type", "").startswith("application/json"):
            value = exchange.document
            change(value)
            exchange.document = value

    return when(method, path, apply, status, sent)


def status(method, path, before, after, body=None, sent=b""):
    def apply(exchange):
        exchange.status = after
        if body is not None:
            exchange.document = body
            exchange.headers["content-type"] = "application/json"

    return when(method, path, apply, before, sent)


def discovered(change):
    return document("GET", "/.well-known/openwop", change)


def in_log(change):
    """Change the events of pages."""
    return document("GET", POLL, lambda page: change(page["events"]))


def in_events(type, change):
    """Change each event of a type."""

    def each(events):
        for event in events:
            if event["type"].startswith(type):
                change(event)

    return in_log(each)


def in_payloads(type, change):
    return in_events(type, lambda event: change(event["payload"]))


def without(type):
    """A log without the events of a type, renumbered."""

    def apply(events):
        first = events[0]["sequence"] if events else 0
        events[:] = [one for one in events if one["type"] != type]
        for at, one in enumerate(events):
            one["sequence"] = first + at

    return in_log(apply)


def renamed(before, after):
    return in_events(before, lambda event: event.update(type=after))


def update(**members):
    return lambda value: value.update(members)


def drop(*names):
    return lambda value: [value.pop(name, None) for name in names]


def late(events):
    """An event after the last one."""
    if events and events[-1]["type"] in ("run.completed", "run.cancelled", "run.failed"):
        last = events[-1]
        events.append(last | {"sequence": last["sequence"] + 1, "type": "eval.scored", "eventId": "late"})


def lost(events):
    del events[1:2]


def twice(events):
    for event in events:
        event["eventId"] = events[0]["eventId"]


def changing(exchange):
    """Each read of a page has other ids."""
    exchange.memory["reads"] = exchange.memory.get("reads", 0) + 1
    page = exchange.document
    for event in page["events"]:
        event["timestamp"] = f"2026-01-01T00:00:{exchange.memory['reads'] % 60:02}Z"
    exchange.document = page


def rescored(exchange):
    """Each read of a page has other latencies."""
    exchange.memory["reads"] = exchange.memory.get("reads", 0) + 1
    page = exchange.document
    for event in page["events"]:
        if event["type"] == "eval.scored":
            event["payload"]["latencyMs"] = exchange.memory["reads"]
    exchange.document = page


def replaced(method, path, before, after, status=200):
    """Other bytes in the body."""

    def apply(exchange):
        exchange.body = re.sub(before, after, exchange.body)

    return when(method, path, apply, status)


def another_path(method, path, before, after):
    """The server is asked for another path."""

    def apply(exchange):
        other = re.sub(before, after, exchange.path)
        if other != exchange.path:
            exchange.forward(path=other)

    return when(method, path, apply)


def earlier(exchange):
    """A poll that begins one event early."""
    match = re.search(r"lastSequence=(\d+)", exchange.path)
    if match and int(match[1]) > 0:
        exchange.forward(path=exchange.path.replace(match[0], f"lastSequence={int(match[1]) - 1}"))


def no_header(name):
    def apply(exchange):
        if exchange.sent_headers.pop(name, None) is not None:
            exchange.forward()

    return apply


def key_of_all(exchange):
    """A cache of answers by Idempotency-Key, whoever asks."""
    key = exchange.sent_headers.get("idempotency-key")
    if exchange.method == "POST" and key:
        exchange.status, exchange.body = exchange.memory.setdefault(key, (exchange.status, exchange.body))


def with_a_key(exchange):
    if exchange.path == "/.well-known/openwop" and exchange.key:
        exchange.document = exchange.document | {"for": "you"}


def tell_without_key(exchange):
    """Another message for a run that exists, to a client without a key."""
    first = owner(exchange)
    refused = exchange.status, exchange.body
    if refused[0] == 401 and first and exchange.method == "GET":
        exchange.forward(key=first.removeprefix("Bearer "))
        found = exchange.status
        exchange.status, exchange.body = refused
        if found == 200:
            exchange.document = {"error": "unauthenticated", "message": "this run is not yours"}


def foreign_baseline(exchange):
    first = owner(exchange)
    known = (
        exchange.method == "POST"
        and b"baselineRunId" in exchange.sent
        and b"0000000000000" not in exchange.sent
    )
    if known and exchange.key != first and exchange.status == 400:
        exchange.document = {"error": "forbidden", "message": "this run is of another tenant"}


def for_tasks(many, change):
    """Change the scorecard of a run with so many tasks."""
    return document("GET", SUMMARY, lambda card: change(card) if card["taskCount"] == many else None)


def of_task(id, change):
    def apply(card):
        for task in card["tasks"]:
            if task["taskId"] == id:
                change(task)

    return document("GET", SUMMARY, apply)


def scored(task, **members):
    return in_payloads("eval.scored", lambda one: one.update(members) if one["taskId"] == task else None)


def first_wins(exchange):
    """The answer to every accept is that it counted."""
    if exchange.status in (409, 404) and b"accept" in exchange.sent:
        exchange.status = 200


def in_cards(change):
    return document("GET", SUMMARY, change)


def in_snapshots(change, of=""):
    return document("GET", RUN, lambda one: change(one) if one.get("workflowId", "").endswith(of) else None)


def counted(exchange):
    """A tool that was called in the meantime."""
    page = exchange.document
    for event in page["events"]:
        if event["type"] == "agent.toolReturned" and isinstance(event["payload"].get("outcome"), int):
            event["payload"]["outcome"] *= 2
    exchange.document = page


def lose(exchange):
    page = exchange.document
    lost(page["events"])
    exchange.document = page


def shorter_fork(exchange):
    """The log of a fork has an event less."""
    if exchange.path.endswith(":fork") and exchange.status == 201:
        exchange.memory["fork"] = exchange.document["runId"]
    elif (
        exchange.path.split("/")[-1].startswith("poll")
        and exchange.memory.get("fork", "no fork") in exchange.path
    ):
        lose(exchange)


def asked_again(exchange):
    """The log of a fork has another answer of the agent."""
    if exchange.path.endswith(":fork") and exchange.status == 201:
        exchange.memory["fork"] = exchange.document["runId"]
    elif exchange.memory.get("fork", "no fork") in exchange.path:
        in_payloads("agent.decided", update(decision="another"))(exchange)


def model(change):
    return discovered(lambda one: change(one["multiAgent"]["executionModel"]))


def evals(change):
    return discovered(lambda one: change(one["agents"]["evalSuite"]))


DISCOVERY_FAULTS = [
    Mutation("discovery has no limits", ("openwop.discovery.open",), discovered(drop("limits"))),
    Mutation("discovery is of version 2", ("openwop.discovery.open",), discovered(update(protocolVersion="2.0"))),
    Mutation("discovery is never cached", ("openwop.discovery.cache",), when("GET", "/.well-known", lambda one: one.headers.pop("cache-control", 0))),
    Mutation("If-None-Match is ignored", ("openwop.discovery.cache",), status("GET", "/.well-known", 304, 200)),
    Mutation("a key changes discovery", ("openwop.discovery.same-for-all",), with_a_key),
    Mutation("older clients read another document", ("openwop.discovery.mirror",), discovered(lambda one: one["capabilities"]["replay"].update(supported=False))),
    Mutation("a mode that nobody knows", ("openwop.discovery.families", "openwop.discovery.modes-run"), evals(lambda one: one["modes"].append("vibes"))),
    Mutation("version 6 without replay", ("openwop.discovery.families",), model(drop("replayDeterminism"))),
    Mutation("version 7", ("openwop.discovery.families",), model(update(version=7))),
    Mutation("a mode is advertised and refused", ("openwop.discovery.modes-run",), status("POST", "/v1/runs$", 201, 400, sent=b'["rubric"]')),
    Mutation("a fixture is advertised and not there", ("openwop.discovery.fixtures-start", "openwop.discovery.fixtures-start-fresh"), discovered(lambda one: one["fixtures"].append("conformance-vibes"))),
    Mutation("the noop fails", ("openwop.discovery.fixtures-end", "openwop.workflows.outcomes"), in_snapshots(update(status="failed"), "noop")),
    Mutation("one task more is accepted", ("openwop.discovery.limit-of-tasks",), evals(update(maxTasksPerSuite=29))),
    Mutation("the advertised number of tasks is refused", ("openwop.discovery.limit-of-tasks",), evals(update(maxTasksPerSuite=31))),
    Mutation("one byte more is accepted", ("openwop.discovery.limit-of-body",), discovered(lambda one: one["limits"].update(maxRequestBodyBytes=1000))),
    Mutation("every option is accepted", ("openwop.discovery.limits-of-options",), status("POST", "/v1/runs$", 400, 201, CREATED)),
    Mutation("a bound of a request is one lower", ("openwop.discovery.limits-of-requests",), when("GET", r"/v1/runs/.*bufferMs=5000", lambda one: setattr(one, "status", 400))),
    Mutation("a bound of a request is one higher", ("openwop.discovery.limits-of-requests",), status("GET", r"/v1/runs/.*timeout=61", 400, 200)),
    Mutation("a fixture is there for some tenants alone", ("openwop.discovery.fixtures-start-fresh",), status("POST", "/v1/runs$", 201, 404, sent=b"conformance-")),
    Mutation("feedback works and is not advertised", ("openwop.discovery.unadvertised",), discovered(drop("feedback"))),
    Mutation("a snapshot is of another run", ("openwop.runs.snapshot",), in_snapshots(update(runId="run-other"))),
]  # fmt: skip
CREATION_FAULTS = [
    Mutation("runs are read without a key", ("openwop.auth.needs-key",), answer_without_key),
    Mutation("a wrong key is 403", ("openwop.auth.needs-key",), status("GET", "/v1/runs", 401, 403)),
    Mutation("clients without a key learn that a run exists", ("openwop.auth.hides-existence",), tell_without_key),
    Mutation("errors have a member of their own", ("openwop.errors.body",), document("GET", RUN, update(scopeRequired="x"), 404)),
    Mutation("an error has a code with spaces", ("openwop.errors.body",), document("POST", "/v1/runs$", update(error="Bad Request"), 400)),
    Mutation("an unknown run is 200", ("openwop.ids.unknown",), status("GET", RUN, 404, 200)),
    Mutation("an unknown run is forbidden", ("openwop.ids.unknown",), status("POST", "/v1/runs/.*cancel", 404, 403)),
    Mutation("a strange id breaks the host", ("openwop.ids.malformed",), when("GET", "/v1/runs/(%|x)", lambda one: setattr(one, "status", 500))),
    Mutation("another tenant reads runs", ("openwop.ids.foreign",), anybody_reads),
    Mutation("another tenant learns that a run exists", ("openwop.ids.foreign",), tell_existence),
    Mutation("another tenant learns that a baseline exists", ("openwop.ids.foreign-reference",), foreign_baseline),
    Mutation("another tenant in the body is accepted", ("openwop.create.tenant",), status("POST", "/v1/runs$", 403, 201, CREATED)),
    Mutation("every create is accepted", ("openwop.create.body", "openwop.create.mode", "openwop.create.order", "openwop.create.unknown-agent", "openwop.create.unknown-suite", "openwop.create.target", "openwop.create.models", "openwop.create.modes", "openwop.create.baseline"), status("POST", "/v1/runs$", 400, 201, CREATED)),
    Mutation("a later mistake gives the answer", ("openwop.create.order",), document("POST", "/v1/runs$", lambda one: one.get("details", {}).update(field="configurable.trials"), 400)),
    Mutation("a body is read before the key", ("openwop.create.order",), status("POST", "/v1/runs$", 401, 400, sent=b"what")),
    Mutation("allowTargetMismatch is ignored", ("openwop.create.target",), status("POST", "/v1/runs$", 201, 400, {"error": "x", "message": "x"}, b"allowTargetMismatch")),
    Mutation("a new run has no address", ("openwop.create.accepted",), document("POST", "/v1/runs$", drop("eventsUrl"), 201)),
    Mutation("an Idempotency-Key is ignored", ("openwop.idempotency.same", "openwop.idempotency.other", "openwop.idempotency.at-once"), no_header("idempotency-key")),
    Mutation("a replay is not named", ("openwop.idempotency.same",), when("POST", "/v1/runs$", lambda one: one.headers.pop("openwop-idempotent-replay", 0))),
    Mutation("tenants share Idempotency-Keys", ("openwop.idempotency.tenants",), key_of_all),
]  # fmt: skip
EVENT_FAULTS = [
    Mutation("events have no time", ("openwop.events.envelope",), in_events("eval.", drop("timestamp"))),
    Mutation("events share an id", ("openwop.events.envelope",), in_log(twice)),
    Mutation("an event is lost", ("openwop.events.sequence", "openwop.events.views", "openwop.events.resume-poll"), in_log(lost)),
    Mutation("a cause that is no event", ("openwop.events.causes",), in_events("eval.scored", update(causationId="ev-nothing"))),
    Mutation("a cause that comes later", ("openwop.events.causes",), in_log(lambda events: events and events[0].update(causationId=events[-1]["eventId"]))),
    Mutation("a late event", ("openwop.events.terminal",), in_log(late)),
    Mutation("the run ends otherwise than its status", ("openwop.events.terminal",), renamed("run.completed", "run.failed")),
    Mutation("eval.started is lost", ("openwop.events.order",), without("eval.started")),
    Mutation("eval.completed is lost", ("openwop.events.order",), without("eval.completed")),
    Mutation("a score of 1.5", ("openwop.events.scored",), scored("a", score=1.5)),
    Mutation("a score has no cause", ("openwop.events.scored-after",), in_events("eval.scored", drop("causationId"))),
    Mutation("an invocation has no end", ("openwop.events.brackets",), without("agent.invocation.completed")),
    Mutation("an invocation ends with an outcome of its own", ("openwop.events.brackets",), in_payloads("agent.invocation.completed", update(outcome="fine"))),
    Mutation("a tool never returns", ("openwop.events.tools-paired",), without("agent.toolReturned")),
    Mutation("tokens are texts", ("openwop.events.usage",), in_payloads("provider.usage", update(inputTokens="3"))),
    Mutation("a score has the output", ("openwop.events.no-content",), in_payloads("eval.scored", update(taskOutput="Paris"))),
    Mutation("an invocation has its result", ("openwop.events.no-content",), in_payloads("agent.invocation.completed", update(result="Paris"))),
    Mutation("a failed agent scores 1", ("openwop.events.failed-tasks",), scored("raises", score=1)),
    Mutation("a log changes", ("openwop.events.stable",), when("GET", POLL, changing)),
    Mutation("JSON has fewer events", ("openwop.events.views",), document("GET", r"/v1/runs/[^/]+/events$", lambda page: page["events"].pop())),
    Mutation("frames have ids of their own", ("openwop.events.frames",), replaced("GET", r"/v1/runs/[^/]+/events", rb"\nid: |^id: ", b"\nid: 9")),
    Mutation("a poll begins one event early", ("openwop.events.resume-poll",), when("GET", POLL, earlier)),
    Mutation("Last-Event-ID is ignored", ("openwop.events.resume-stream",), no_header("last-event-id")),
    Mutation("a cursor behind the end is refused", ("openwop.events.past-end",), when("GET", POLL + ".*999999", lambda one: setattr(one, "status", 400))),
    Mutation("every query is accepted", ("openwop.events.bad-queries",), status("GET", r"/v1/runs/[^/]+/events", 400, 200)),
    Mutation("a refused mode does not name the others", ("openwop.events.bad-queries",), document("GET", r"/v1/runs/[^/]+/events", drop("details"), 400)),
    Mutation("the mode updates has steps of agents", ("openwop.events.modes",), another_path("GET", r"/v1/runs/[^/]+/events$", "events$", "events?streamMode=debug")),
    Mutation("bufferMs is ignored", ("openwop.events.batches",), another_path("GET", r"/v1/runs/[^/]+/events", "&bufferMs=1000", "")),
    Mutation("JSON is sent as a stream", ("openwop.events.json",), when("GET", r"/v1/runs/[^/]+/events$", lambda one: one.headers.update({"content-type": "text/event-stream"}))),
]  # fmt: skip
SCORECARD_FAULTS = [
    Mutation("a scorecard has judgeCostUsd", ("openwop.scorecard.shape",), in_cards(update(judgeCostUsd=1))),
    Mutation("a task has its output", ("openwop.scorecard.shape",), in_cards(lambda one: one["tasks"][0].update(taskOutput="x"))),
    Mutation("passedCount is one too many", ("openwop.scorecard.counts",), in_cards(lambda one: one.update(passedCount=one["passedCount"] + 1))),
    Mutation("tasks are in another order", ("openwop.scorecard.counts",), in_cards(lambda one: one["tasks"].reverse())),
    Mutation("the score is rounded", ("openwop.scorecard.mean",), in_cards(lambda one: one.update(aggregateScore=round(one["aggregateScore"], 1)))),
    Mutation("a call is not counted", ("openwop.scorecard.cost",), in_cards(update(totalCostUsd=0.75))),
    Mutation("maxCostUsd is ignored", ("openwop.scorecard.cost-bar",), in_cards(update(passed=True))),
    Mutation("maxCostUsd must be undercut", ("openwop.scorecard.cost-bar",), in_cards(update(passed=False))),
    Mutation("the default bar is 0.5", ("openwop.scorecard.pass-score",), for_tasks(3, update(passed=True))),
    Mutation("p95 is the largest of 20", ("openwop.scorecard.p95",), for_tasks(20, lambda one: one.update(passed=not one["passed"]))),
    Mutation("p95 is the second largest of 19", ("openwop.scorecard.p95",), for_tasks(19, lambda one: one.update(passed=not one["passed"]))),
    Mutation("p95 of one task is nothing", ("openwop.scorecard.p95",), for_tasks(1, lambda one: one.update(passed=not one["passed"]))),
    Mutation("matches ignore the case", ("openwop.scorecard.matching",), scored("exact-case", score=1)),
    Mutation("a golden task passes below 1", ("openwop.scorecard.matching",), of_task("json-extra", update(passed=True))),
    Mutation("a rubric counts criteria, not weights", ("openwop.scorecard.weights",), of_task("weights", update(score=1 / 3))),
    Mutation("a rubric task passes at 0.5", ("openwop.scorecard.weights",), of_task("weights", update(passed=True))),
    Mutation("the difference has the wrong sign", ("openwop.scorecard.regression",), in_cards(lambda one: one.get("regression", {}).update(scoreDelta=0.1))),
    Mutation("eval.started has no baseline", ("openwop.scorecard.regression",), in_payloads("eval.started", drop("baselineRunId"))),
    Mutation("findings are not counted", ("openwop.scorecard.findings",), in_payloads("eval.scored", update(safetyFindingCount=7))),
    Mutation("a leak scores 1", ("openwop.scorecard.findings",), of_task("leaks", update(score=1))),
    Mutation("the output of a run is another scorecard", ("openwop.scorecard.outputs",), in_snapshots(lambda one: one.get("outputs", {}).update(passed=None))),
    Mutation("a run that goes on has a scorecard", ("openwop.scorecard.not-ready",), status("GET", SUMMARY, 409, 200)),
]  # fmt: skip
RUN_FAULTS = [
    Mutation("fixtures come in another order", ("openwop.fixtures.answers",), scored("in-order", score=0)),
    Mutation("a tool without a fixture is called", ("openwop.fixtures.missing",), in_payloads("agent.toolReturned", lambda one: one.pop("error", 0) and one.update(outcome=1))),
    Mutation("a tool that is not allowed is called", ("openwop.fixtures.not-allowed",), in_payloads("agent.toolCalled", update(toolName="conform:forbidden"))),
    Mutation("seeds are seen by other tasks", ("openwop.fixtures.memory",), scored("alone", score=0)),
    Mutation("seeds are not seen", ("openwop.fixtures.memory", "openwop.fixtures.isolation"), scored("seeded", score=0)),
    Mutation("golden calls a tool", ("openwop.fixtures.live-calls", "openwop.replay.calls-nothing"), when("GET", POLL, counted, 200)),
    Mutation("a score has a canary", ("openwop.content.canaries",), in_payloads("eval.scored", update(note="conform-canary-output"))),
    Mutation("a scorecard has a canary", ("openwop.content.canaries",), in_cards(lambda one: one["tasks"][0].update(note="conform-canary-output"))),
    Mutation("a refusal quotes the request", ("openwop.content.refusals",), when("POST", "/v1/", lambda one: setattr(one, "document", {"error": "x", "message": one.sent.decode()}), 400)),
    Mutation("a refusal shows the key", ("openwop.content.hides-the-key",), when("GET", RUN, lambda one: setattr(one, "document", {"error": "x", "message": one.key}), 404)),
    Mutation("a replay scores again", ("openwop.replay.copies",), when("GET", POLL, rescored)),
    Mutation("a replay asks the agent again", ("openwop.replay.asks-nobody",), asked_again),
    Mutation("a replay is shorter", ("openwop.replay.copies",), shorter_fork),
    Mutation("every fork is accepted", ("openwop.replay.refusals",), status("POST", "/v1/runs/.*fork", 400, 201)),
    Mutation("a fork behind the end is 400", ("openwop.replay.refusals",), status("POST", "/v1/runs/.*fork", 422, 400)),
    Mutation("a run differs from itself", ("openwop.diff.self",), document("GET", "/v1/runs/.*:diff", update(divergedAtSeq=0))),
    Mutation("a difference with nothing is 200", ("openwop.diff.self",), status("GET", "/v1/runs/.*:diff", 400, 200)),
    Mutation("divergedAtSeq is another", ("openwop.diff.two",), document("GET", "/v1/runs/.*:diff", update(divergedAtSeq=99))),
    Mutation("a cancelled trial has no end", ("openwop.cancel.after-each-event",), without("agent.invocation.completed")),
    Mutation("a cancel has no event", ("openwop.cancel.ends", "openwop.cancel.after-each-event", "openwop.cancel.workflows"), without("run.cancelled")),
    Mutation("a cancelled run goes on", ("openwop.cancel.ends", "openwop.cancel.after-each-event", "openwop.cancel.workflows"), in_log(late)),
    Mutation("the log of a cancelled run changes", ("openwop.cancel.after-each-event", "openwop.cancel.workflows"), when("GET", POLL, changing)),
    Mutation("a bulk cancel of 100 is refused", ("openwop.cancel.bulk",), when("POST", "/v1/runs:bulk", lambda one: one.sent.count(b"run-") > 99 and setattr(one, "status", 400))),
    Mutation("a second cancel is 409", ("openwop.cancel.ended",), status("POST", "/v1/runs/.*cancel", 200, 409)),
    Mutation("a cancel changes the status of a run that has ended", ("openwop.cancel.ended",), document("POST", "/v1/runs/.*cancel", update(status="cancelled"))),
    Mutation("a bulk cancel answers in another order", ("openwop.cancel.bulk",), document("POST", "/v1/runs:bulk", lambda one: one["results"].reverse())),
    Mutation("a bulk cancel takes any number", ("openwop.cancel.bulk",), status("POST", "/v1/runs:bulk", 400, 200)),
    Mutation("an annotation has no author", ("openwop.annotations.add",), document("POST", ANNOTATIONS, drop("actor"), 201)),
    Mutation("an annotation shows a secret", ("openwop.annotations.add",), document("POST", ANNOTATIONS, update(note="sk-" + "conform0123456789abcdef0123456789"), 201)),
    Mutation("annotations are not listed", ("openwop.annotations.add",), document("GET", ANNOTATIONS, update(annotations=[]))),
    Mutation("an annotation changes the log", ("openwop.annotations.add",), when("GET", POLL, changing)),
    Mutation("every annotation is accepted", ("openwop.annotations.bad",), status("POST", ANNOTATIONS, 400, 201)),
    Mutation("a fork has annotations", ("openwop.annotations.not-copied",), document("GET", ANNOTATIONS, update(annotations=[{}]))),
]  # fmt: skip
REPLICA_FAULTS = [  # of one address; the other one is as it should be
    Mutation("one address has another discovery", ("openwop.replicas.discovery",), discovered(update(engineVersion=7))),
    Mutation("one address has no judge", ("openwop.replicas.modes-run",), status("POST", "/v1/runs$", 201, 400, sent=b'["rubric"]')),
    Mutation("one address has no fixtures", ("openwop.replicas.fixtures-start",), status("POST", "/v1/runs$", 201, 400, sent=b"conformance-")),
    Mutation("one address has a log of its own", ("openwop.replicas.same-run",), in_log(lost)),
    Mutation("one address cancels nothing", ("openwop.replicas.cancel",), in_snapshots(lambda one: one["status"] == "cancelled" and one.update(status="completed"))),
    Mutation("each address has a winner", ("openwop.replicas.one-answer",), when("POST", r"/v1/runs/[^/]+/interrupts/", first_wins)),
    Mutation("each address has Idempotency-Keys of its own", ("openwop.replicas.idempotency",), no_header("idempotency-key")),
    Mutation("one address does not know evaluations of the other", ("openwop.replicas.evaluations",), status("GET", "/v1/evaluations/", 200, 404)),
]  # fmt: skip
