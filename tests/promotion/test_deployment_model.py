"""The state machine of deployments against a plain model, with crashes before and after each commit."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import UNSET

from assay.auth.audit import verify
from assay.auth.keys import DEPLOY
from assay.backends.stores.memory import MemoryStore
from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules
from assay.errors import Conflict, Refusal
from assay.ports import Principal, SystemClock
from assay.promotion.audit_lines import DeploymentVerifier
from assay.promotion.records import read_records, shares
from assay.promotion.service import PromotionService
from assay.promotion.transitions import version_of
from assay.protocol.deployments import TransitionRequest

AGENT, VERSIONS = "test.model", ("1.0.0", "1.1.0", "2.0.0")
NEXT = {"draft": "test", "test": "staged", "staged": "active", "paused": "active"}
RELEASER = Principal(tenant="t", id="author", scopes=frozenset({*DEPLOY, "approvals:respond"}))
APPROVER = Principal(tenant="t", id="approver", scopes=frozenset({"approvals:respond"}))
POLICY = PromotionPolicy(agents={AGENT: PromotionRules(eval_states=(), approval=ApprovalRules())})


class Crash(BaseException):
    """The process died."""


class CrashingStore(MemoryStore):
    """Dies before or after its next commit."""

    crash = ""

    async def commit(self, batch):
        when, self.crash = self.crash, ""
        if when == "before":
            raise Crash
        done = await super().commit(batch)
        if when == "after":
            raise Crash
        return done


class Versions:
    async def versions(self, tenant, agent_id):
        return list(VERSIONS) if agent_id == AGENT else []

    async def get(self, tenant, agent_id, version):
        return None


class Deployments(RuleBasedStateMachine):
    """`states` is what the model expects; `waiting` has the runs that wait, with their version."""

    @initialize(active=st.integers(0, 3))
    def begin(self, active):
        """Some versions are active already, on one channel: a rollback needs two."""
        self.store = CrashingStore()
        self.states = dict.fromkeys(VERSIONS, "draft")
        self.waiting = []
        self.applied = 0
        for version in VERSIONS[:active]:
            for state in ("test", "staged", "active"):
                self.transition(version, "promote", "stable" if state == "active" else UNSET, UNSET, "")
            self.answer(accept=True, crash="", at=0)
            assert self.states[version] == "active"

    def do(self, work):
        return asyncio.run(work)

    @property
    def service(self):
        """A new one each time: nothing is held in memory."""
        return PromotionService(self.store, POLICY, SystemClock(), Versions())

    @rule(
        version=st.sampled_from(VERSIONS),
        name=st.sampled_from(
            ["promote", "promote", "promote", "pause", "deprecate", "rollback", "adjust-canary"]
        ),
        channel=st.sampled_from([UNSET, "stable", "canary"]),
        percent=st.sampled_from([UNSET, 0, 10, 100]),
        crash=st.sampled_from(["", "", "", "before", "after"]),
    )
    def transition(self, version, name, channel, percent, crash):
        state, before = self.states[version], self.records()
        target = (
            NEXT.get(state) if name == "promote" else {"pause": "paused", "deprecate": "deprecated"}.get(name)
        )
        activates = name == "promote" and target == "active"
        request = TransitionRequest(
            version=version,
            transition=name,
            channel=channel if activates else UNSET,
            canary_percent=percent if activates or name == "adjust-canary" else UNSET,
        )
        self.store.crash = crash
        try:
            outcome = self.do(self.service.transition(RELEASER, AGENT, request))
        except Refusal:
            self.store.crash = ""
            assert target is None or name != "promote"
            assert self.records() == before
            return
        except Crash:
            assert self.records() == before or crash == "after"
            self.applied += self.records() != before
            self.follow()
            return
        if outcome.waits:
            assert activates
            assert self.records() == before
            self.waiting.append((outcome.run.id, version))
            return
        assert state == "active" or name == "promote"
        self.applied += 1
        self.follow()
        assert self.states[version] == outcome.record.state
        assert target in (None, outcome.record.state)

    @rule(crash=st.sampled_from(["", "", "before", "after"]))
    def roll_back(self, crash):
        """Any order of transitions seldom has a version that can be rolled back."""
        active = [version for version in VERSIONS if self.states[version] == "active"]
        if active:
            self.transition(active[-1], "rollback", UNSET, UNSET, crash)

    @rule(accept=st.booleans(), crash=st.sampled_from(["", "", "before", "after"]), at=st.integers(0, 3))
    def answer(self, accept, crash, at):
        if not self.waiting:
            return
        run, version = self.waiting[at % len(self.waiting)]
        state, before = self.states[version], self.records()
        self.store.crash = crash
        try:
            self.do(
                self.service.respond(APPROVER, run, "approval", {"action": "accept" if accept else "reject"})
            )
        except Conflict:
            self.store.crash = ""
            assert self.records() == before
            return
        except Crash:
            pass
        self.store.crash = ""
        if crash == "before":
            assert self.records() == before
            return
        ended = self.do(self.store.run(run))
        changed = self.records() != before
        assert ended.status == ("completed" if changed else "failed")
        assert not changed or (accept and state in ("staged", "paused"))
        self.applied += changed
        self.waiting.remove((run, version))
        self.follow()

    def records(self):
        return self.do(read_records(self.store, "t", AGENT)).records

    def follow(self):
        """The states now; each version has moved along the machine."""
        legal = {("draft", "test"), ("test", "staged"), ("staged", "active"), ("active", "paused"), ("paused", "active"),
                 ("active", "deprecated"), ("active", "rolled-back")}  # fmt: skip
        for version in VERSIONS:
            state = self.records().of(version).state
            assert state == self.states[version] or (self.states[version], state) in legal
            self.states[version] = state

    @invariant()
    def channels_have_their_shares(self):
        if not hasattr(self, "store"):
            return
        records = self.records()
        for channel in ("stable", "canary"):
            parts = shares(records, channel)
            assert not parts or sum(parts.values()) == 100
            assert all(self.states[version] == "active" for version in parts)
            assert version_of(records, channel, "run-1") in {*parts, None}
        for record in records.versions.values():
            assert (record.state == "rolled-back") == bool(record.rollback_pointer)

    def teardown(self):
        if not hasattr(self, "store"):
            return

        async def problems():
            verifier = DeploymentVerifier()
            report = await verify(self.store, observers=[verifier])
            return [*report.problems, *await verifier.problems(self.store, {"t"})]

        assert self.do(problems()) == []
        stored = self.do(read_records(self.store, "t", AGENT))
        assert (
            stored.revision == self.applied
        )  # each transition has its own revision, and no crash has half of one


TestDeployments = Deployments.TestCase
TestDeployments.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
