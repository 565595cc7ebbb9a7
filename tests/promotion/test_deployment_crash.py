"""A process that is killed while it applies an approved promotion: the record is as before, or the promotion is complete."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.auth.audit import verify
from assay.auth.keys import DEPLOY
from assay.backends.stores.open import open_store
from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules
from assay.ports import Principal, SystemClock
from assay.promotion.audit_lines import DeploymentVerifier
from assay.promotion.service import PromotionService
from assay.protocol.deployments import TransitionRequest
from support.runner import forkserver

AGENT = "test.crash"
RELEASER = Principal(tenant="t", id="author", scopes=frozenset(DEPLOY))
APPROVER = Principal(tenant="t", id="approver", scopes=frozenset({"approvals:respond"}))
POLICY = PromotionPolicy(agents={AGENT: PromotionRules(eval_states=(), approval=ApprovalRules())})


class OneVersion:
    async def versions(self, tenant, agent_id):
        return ["1.0.0"]

    async def get(self, tenant, agent_id, version):
        return None


async def with_service(address, work):
    store = await open_store(address)
    try:
        return await work(PromotionService(store, POLICY, SystemClock(), OneVersion()))
    finally:
        await store.close()


async def request(service):
    """The run that waits for an approval."""
    promotion = TransitionRequest(version="1.0.0", transition="promote")
    for _ in range(2):
        await service.transition(RELEASER, AGENT, promotion)
    outcome = await service.transition(RELEASER, AGENT, promotion)
    return outcome.run.id


def approve(run):
    return lambda service: service.respond(APPROVER, run, "approval", {"action": "accept"})


async def state(service):
    verifier = DeploymentVerifier()
    report = await verify(service.store, observers=[verifier])
    assert [*report.problems, *await verifier.problems(service.store, {"t"})] == []
    (record,) = await service.deployments("t", AGENT)
    return record.state


@pytest.mark.parametrize("point", ["commit.written", "commit.after"])
def test_a_kill_leaves_all_of_a_promotion_or_nothing(disk, point):
    address = disk
    run = asyncio.run(with_service(address, request))
    tests = str(Path(__file__).parents[1])  # for `support`
    environ = os.environ | {"ASSAY_FAILPOINT": f"{point}:1", "PYTHONPATH": tests}
    died = subprocess.run([forkserver.python(), __file__, address, run], check=False, env=environ, timeout=60)
    assert died.returncode == -signal.SIGKILL
    if point == "commit.written":
        assert asyncio.run(with_service(address, state)) == "staged"
        assert asyncio.run(with_service(address, approve(run))).status == "completed"
    assert asyncio.run(with_service(address, state)) == "active"


if __name__ == "__main__":
    asyncio.run(with_service(sys.argv[1], approve(sys.argv[2])))
