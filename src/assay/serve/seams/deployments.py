"""The test-only route for deployments (openwop-contract §10.5)."""

import msgspec

from assay.protocol.runs import RunRequest
from assay.runs.intake import new_id
from assay.seams.deployments import DeploymentScenario, DeploymentSeam
from assay.seams.evals import channel_suite
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.deployments import CAPABILITY
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.evals import evals_of
from assay.serve.openwop.host import host_of
from assay.serve.openwop.workflows import workflows_of
from assay.serve.seams.workflows import BASE
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.serve.web.route import ResponseSpec, RouteSpec

_scenario = msgspec.json.Decoder(DeploymentScenario).decode


async def deployment_transition(call: HttpRequest) -> Response:
    """Play one scenario, and return the run that has its log."""
    call.query()
    host = host_of(call)
    if host.promotions is None:
        raise NotProvided(CAPABILITY)
    body_format(call)
    scenario = await read_json(call, _scenario, await read_document(call) or b"{}")

    async def measure(agent_id: str, version: str) -> str:
        entry, _ = await host.suites.put(call.tenant, channel_suite())
        request = RunRequest(
            mode="eval",
            eval_suite_ref=f"{entry.suite_id}@{entry.version}",
            agent_id=agent_id,
            configurable={"agentVersion": version},
        )
        executor = call.server.executor
        with call.server.admission.reserve_run(call.tenant):
            opened = await evals_of(host).open(
                request, call.principal, executor.executor_id, [], run=new_id("run-")
            )
            executor.start(opened)
        return (await call.until_disconnect(executor.wait(opened.id))).id

    seam = DeploymentSeam(host.promotions, workflows_of(host).workflows, measure)
    return answer(await seam.play(call.principal, scenario))


DEPLOYMENT_SEAMS = [
    RouteSpec(
        method="POST",
        path=f"{BASE}/agents/deployment-transition",
        endpoint=deployment_transition,
        scope="",
        id="sampleDeploymentTransition",
        summary="For the conformance suite",
        responses={200: ResponseSpec("The outcome.")},
        errors=(400, 404, 413, 415, 501),
    )
]
