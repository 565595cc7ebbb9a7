"""OpenWOP's routes with their scopes (openwop-contract §2.1). A scope of "" accepts any valid key."""

from assay.serve.openwop.agents import AGENT_ROUTES
from assay.serve.openwop.annotations import ANNOTATION_ROUTES, diff_runs
from assay.serve.openwop.asyncapi import show_asyncapi
from assay.serve.openwop.deployments import DEPLOYMENT_ROUTES
from assay.serve.openwop.discovery import discover
from assay.serve.openwop.eval_runs import eval_report, eval_summary
from assay.serve.openwop.events import follow_run, poll_run
from assay.serve.openwop.forks import fork_run
from assay.serve.openwop.inventory import (
    HISTORY_ROUTES,
    get_agent,
    get_suite,
    list_agents,
    list_suites,
    put_suite,
)
from assay.serve.openwop.packs import PACK_ROUTES
from assay.serve.openwop.run_routes import (
    STATUSES,
    bulk_cancel,
    cancel_run,
    create_run,
    delete_run,
    get_run,
    list_runs,
)
from assay.serve.openwop.workflows import TURN_ROUTES, ancestry, get_workflow, respond
from assay.serve.web.handler import LIMIT, MOMENT, ONCE, SIZE, TOKEN, Parameter, ResponseSpec, RouteSpec

CREATE, READ, CANCEL, MANIFEST = "runs:create", "runs:read", "runs:cancel", "manifest:read"
AFTER = Parameter(
    "lastSequence", {"type": "integer", "minimum": -1}, "Only events after this sequence; -1: all."
)
SINCE = Parameter("since", {"type": "integer", "minimum": -1}, "Another name of lastSequence.")
RUN = "/v1/runs/{run_id}"


def _cancels(path: str, id: str, summary: str) -> RouteSpec:
    return RouteSpec(
        method="POST",
        path=path,
        endpoint=cancel_run,
        scope=CANCEL,
        id=id,
        summary=summary,
        body="CancelRequest",
        optional=True,
        responses={
            200: ResponseSpec(
                "The status of the run; `cancelling` if it has not stopped yet. A run that has ended is not changed.",
                "CancelResponse",
            )
        },
        parameters=(ONCE,),
    )


OPENWOP = [
    RouteSpec(
        method="GET",
        path="/.well-known/openwop",
        endpoint=discover,
        scope=None,
        id="getCapabilities",
        summary="Get the capabilities of this host",
        responses={
            200: ResponseSpec("The capabilities.", "Capabilities", headers=("ETag",)),
            304: ResponseSpec("Not modified."),
        },
        errors=(404,),
        parameters=(
            Parameter("If-None-Match", {"type": "string"}, "The ETag of the cached response.", "header"),
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/asyncapi.json",
        endpoint=show_asyncapi,
        scope=None,
        id="getAsyncAPI",
        summary="Get the AsyncAPI document of the event streams",
        responses={200: ResponseSpec("The AsyncAPI 3 document.", "Channels")},
    ),
    RouteSpec(
        method="POST",
        path="/v1/runs",
        endpoint=create_run,
        scope=CREATE,
        id="createRun",
        summary="Start a run: an agent eval with `mode: eval`, else a workflow",
        body="RunRequest",
        responses={201: ResponseSpec("Created: the run is in flight.", "RunCreated", headers=("Location",))},
        errors=(501,),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path=RUN,
        endpoint=get_run,
        scope=READ,
        id="getRun",
        summary="Get the snapshot of a run",
        responses={
            200: ResponseSpec("The snapshot.", "RunSnapshot", headers=("ETag",)),
            304: ResponseSpec("Not modified."),
        },
        parameters=(
            Parameter("If-None-Match", {"type": "string"}, "The ETag of the cached response.", "header"),
        ),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/eval-summary",
        endpoint=eval_summary,
        scope=READ,
        id="getEvalSummary",
        summary="Get the scorecard of a completed eval run",
        responses={200: ResponseSpec("The scorecard.", "EvalSummary")},
        errors=(409,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs/{run_id}/eval-report",
        endpoint=eval_report,
        scope=READ,
        id="getEvalReport",
        summary="Get the report of an eval run: evidence, trials, judges and corrections",
        responses={
            200: ResponseSpec(
                "The report, with the evidence of some tasks. As NDJSON, the evidence alone, one trial per line.",
                "EvalDetail",
                "TestCaseResult",
            )
        },
        parameters=(
            Parameter(
                "first",
                {"type": "integer", "minimum": 0, "default": 0},
                "The index of the first task with evidence.",
            ),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
                "The number of tasks with evidence. Default for NDJSON: all tasks.",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/events",
        endpoint=follow_run,
        scope=READ,
        id="streamRunEvents",
        summary="Stream the events of a run; with `Accept: application/json`, get a page of recorded events",
        responses={200: ResponseSpec("Server-sent events until the run ends.", "EventPage", stream=True)},
        parameters=(
            Parameter(
                "streamMode",
                {"type": "string"},
                "updates, values, messages or debug; several are separated by commas.",
            ),
            Parameter(
                "bufferMs",
                {"type": "integer", "minimum": 0, "maximum": 5000},
                "Send the events of this many milliseconds together.",
            ),
            AFTER,
            SINCE,
            Parameter(
                "Last-Event-ID",
                {"type": "string", "pattern": "^[0-9]{1,15}$"},
                "The id of the last event received.",
                "header",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/events/poll",
        endpoint=poll_run,
        scope=READ,
        id="pollRunEvents",
        summary="Get the events after a sequence; waits if there are none yet",
        responses={200: ResponseSpec("One page of events.", "EventPage")},
        parameters=(
            AFTER,
            SINCE,
            Parameter(
                "timeout", {"type": "integer", "minimum": 1, "maximum": 60, "default": 30}, "Seconds to wait."
            ),
        ),
    ),
    RouteSpec(
        method="DELETE",
        path="/v1/host/assay/runs/{run_id}",
        endpoint=delete_run,
        scope="runs:delete",
        id="eraseRun",
        summary="Erase the content of a run that has ended; its log and its scorecard stay",
        responses={200: ResponseSpec("The content is gone.", "EraseResponse")},
        errors=(409,),
    ),
    _cancels(f"{RUN}/cancel", "cancelRun", "Cancel a run; its recorded events stay"),
    _cancels(f"{RUN}:cancel", "cancelRunByVerb", "Cancel a run (another URL)"),
    RouteSpec(
        method="POST",
        path="/v1/runs:bulk-cancel",
        endpoint=bulk_cancel,
        scope=CANCEL,
        id="bulkCancelRuns",
        summary="Cancel up to a hundred runs",
        body="BulkCancelRequest",
        responses={200: ResponseSpec("The outcome for each run.", "BulkCancelResponse")},
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="POST",
        path=f"{RUN}:fork",
        endpoint=fork_run,
        scope=CREATE,
        id="forkRun",
        summary="Fork a run: replay its recorded events, or branch from one of them; needs `runs:read` too",
        body="ForkRequest",
        responses={201: ResponseSpec("The new run.", "ForkCreated", headers=("Location",))},
        errors=(422, 501),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="POST",
        path=f"{RUN}/interrupts/{{node_id}}",
        endpoint=respond,
        scope="approvals:respond",
        id="resolveInterrupt",
        summary="Answer a run that waits for a person; only the first answer counts",
        body="InterruptRequest",
        responses={200: ResponseSpec("The run continues.", "InterruptResponse")},
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/ancestry",
        endpoint=ancestry,
        scope=READ,
        id="getRunAncestry",
        summary="Get the parent of a run",
        responses={200: ResponseSpec("The parent run, one level up.", "Ancestry")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/workflows/{workflow_id}",
        endpoint=get_workflow,
        scope=MANIFEST,
        id="getWorkflow",
        summary="Get the definition of a workflow",
        responses={200: ResponseSpec("The definition.", "WorkflowDefinition")},
    ),
    *TURN_ROUTES,
    RouteSpec(
        method="GET",
        path=f"{RUN}:diff",
        endpoint=diff_runs,
        scope=READ,
        id="diffRuns",
        summary="Compare two runs: where their logs diverge, and which results differ",
        responses={200: ResponseSpec("The differences.", "RunDiff")},
        parameters=(Parameter("against", {"type": "string"}, "The id of the other run."),),
    ),
    *ANNOTATION_ROUTES,
    RouteSpec(
        method="GET",
        path="/v1/agents",
        endpoint=list_agents,
        scope=MANIFEST,
        id="listAgents",
        summary="List the agents of this host",
        responses={200: ResponseSpec("The inventory.", "AgentInventory")},
        errors=(404,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/agents/{agent_id}",
        endpoint=get_agent,
        scope=MANIFEST,
        id="getAgent",
        summary="Get one agent",
        responses={200: ResponseSpec("The agent.", "AgentEntry")},
    ),
    RouteSpec(
        method="POST",
        path="/v1/host/assay/suites",
        endpoint=put_suite,
        scope="suites:write",
        id="putSuite",
        summary="Store a suite; a version cannot be changed",
        body="AgentEvalSuite",
        responses={
            200: ResponseSpec("Unchanged.", "SuiteEntry", headers=("Location",)),
            201: ResponseSpec("Created.", "SuiteEntry", headers=("Location",)),
        },
        errors=(409,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/suites",
        endpoint=list_suites,
        scope="suites:read",
        id="listSuites",
        summary="List the stored suites",
        responses={200: ResponseSpec("One page of suites.", "SuiteEntryList")},
        parameters=(
            Parameter("after", {"type": "string"}, "The last suite of the page before, as suiteId@version."),
            LIMIT,
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/suites/{suite_ref}",
        endpoint=get_suite,
        scope="suites:read",
        id="getSuite",
        summary="Get a suite; without a version, the highest one",
        responses={200: ResponseSpec("The suite.", "AgentEvalSuite")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs",
        endpoint=list_runs,
        scope=READ,
        id="listRuns",
        summary="List the runs of this tenant, newest first",
        responses={200: ResponseSpec("One page of runs.", "RunList")},
        parameters=(
            Parameter("status", {"type": "string", "enum": list(STATUSES)}, "Only runs with this status."),
            Parameter(
                "mode",
                {"type": "string", "enum": ["eval", "workflow", "deployment"]},
                "Only evals, only workflows, or only transitions of deployments.",
            ),
            Parameter("workflowId", {"type": "string"}, "Only runs of this suite or workflow."),
            Parameter("since", MOMENT, "Only runs created at this time or later."),
            Parameter("until", MOMENT, "Only runs created before this time."),
            SIZE,
            TOKEN,
        ),
    ),
    *HISTORY_ROUTES,
    *DEPLOYMENT_ROUTES,
    *AGENT_ROUTES,
    *PACK_ROUTES,
]
