"""The URLs of the run surface, with who may ask (contract §2.1). A scope of "" is any good key."""

from assay.serve.openwop.annotations import annotate_run, diff_runs, list_annotations
from assay.serve.openwop.asyncapi import show_asyncapi
from assay.serve.openwop.discovery import discover
from assay.serve.openwop.evals import eval_report, eval_summary
from assay.serve.openwop.events import follow_run, poll_run
from assay.serve.openwop.forks import fork_run
from assay.serve.openwop.inventory import get_agent, get_suite, list_agents, list_suites, put_suite
from assay.serve.openwop.listing import STATUSES, list_runs
from assay.serve.openwop.runs import bulk_cancel, cancel_run, create_run, get_run
from assay.serve.openwop.workflows import ancestry, get_workflow, respond, verification
from assay.serve.web.route import MOMENT, ONCE, SIZE, TOKEN, Parameter, ResponseSpec, RouteSpec

CREATE, READ, CANCEL, MANIFEST = "runs:create", "runs:read", "runs:cancel", "manifest:read"
AFTER = Parameter("lastSequence", {"type": "integer", "minimum": -1}, "only events after this one; -1: all")
SINCE = Parameter("since", {"type": "integer", "minimum": -1}, "another name of lastSequence")
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
                "`cancelling`: it has not stopped yet. A run that had ended stays as it is", "CancelResponse"
            )
        },
        errors=(400, 404, 409, 413, 415),
        parameters=(ONCE,),
    )


OPENWOP = [
    RouteSpec(
        method="GET",
        path="/.well-known/openwop",
        endpoint=discover,
        scope=None,
        id="getCapabilities",
        summary="What this host offers, truthfully",
        responses={
            200: ResponseSpec("the capabilities", "Capabilities", headers=("ETag",)),
            304: ResponseSpec("it is what you have"),
        },
        errors=(400, 404),
        parameters=(Parameter("If-None-Match", {"type": "string"}, "the ETag of what you have", "header"),),
    ),
    RouteSpec(
        method="GET",
        path="/v1/asyncapi.json",
        endpoint=show_asyncapi,
        scope=None,
        id="getAsyncAPI",
        summary="The events of runs, as an AsyncAPI document",
        responses={200: ResponseSpec("AsyncAPI 3", "Channels")},
        errors=(400,),
    ),
    RouteSpec(
        method="POST",
        path="/v1/runs",
        endpoint=create_run,
        scope=CREATE,
        id="createRun",
        summary="Start a run: an agent eval with `mode: eval`, else a workflow",
        body="RunRequest",
        responses={201: ResponseSpec("it is under way", "RunCreated", headers=("Location",))},
        errors=(400, 409, 413, 415, 501),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path=RUN,
        endpoint=get_run,
        scope=READ,
        id="getRun",
        summary="A run as it is: a RunSnapshot",
        responses={
            200: ResponseSpec("the run", "RunSnapshot", headers=("ETag",)),
            304: ResponseSpec("it is what you have"),
        },
        errors=(400, 404),
        parameters=(Parameter("If-None-Match", {"type": "string"}, "the ETag of what you have", "header"),),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/eval-summary",
        endpoint=eval_summary,
        scope=READ,
        id="getEvalSummary",
        summary="The scorecard of an eval run that completed",
        responses={200: ResponseSpec("the scorecard", "EvalSummary")},
        errors=(400, 404, 409),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs/{run_id}/eval-report",
        endpoint=eval_report,
        scope=READ,
        id="getEvalReport",
        summary="All there is to say of an eval run: evidence, trials, who judged, what people corrected",
        responses={
            200: ResponseSpec(
                "the report, with the evidence of some tasks; as lines, the evidence alone, a trial each",
                "EvalDetail",
                "TestCaseResult",
            )
        },
        errors=(400, 404),
        parameters=(
            Parameter(
                "first",
                {"type": "integer", "minimum": 0, "default": 0},
                "the first task whose evidence is wanted",
            ),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
                "of how many tasks; as lines, without it of all",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/events",
        endpoint=follow_run,
        scope=READ,
        id="streamRunEvents",
        summary="What happens, as it happens; with `Accept: application/json`, what has happened",
        responses={200: ResponseSpec("server-sent events, until the run ends", "EventPage", stream=True)},
        errors=(400, 404),
        parameters=(
            Parameter(
                "streamMode", {"type": "string"}, "updates, values, messages, debug; several with commas"
            ),
            Parameter(
                "bufferMs",
                {"type": "integer", "minimum": 0, "maximum": 5000},
                "send together what comes within",
            ),
            AFTER,
            SINCE,
            Parameter(
                "Last-Event-ID", {"type": "string", "pattern": "^[0-9]{1,15}$"}, "the last you had", "header"
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/events/poll",
        endpoint=poll_run,
        scope=READ,
        id="pollRunEvents",
        summary="What happened after an event; waits for a while if there is nothing yet",
        responses={200: ResponseSpec("a page of events", "EventPage")},
        errors=(400, 404),
        parameters=(
            AFTER,
            SINCE,
            Parameter("timeout", {"type": "integer", "minimum": 1, "maximum": 60, "default": 30}, "seconds"),
        ),
    ),
    _cancels(f"{RUN}/cancel", "cancelRun", "Stop a run: what is recorded stays"),
    _cancels(f"{RUN}:cancel", "cancelRunByVerb", "The same"),
    RouteSpec(
        method="POST",
        path="/v1/runs:bulk-cancel",
        endpoint=bulk_cancel,
        scope=CANCEL,
        id="bulkCancelRuns",
        summary="Stop up to a hundred runs; each is answered for",
        body="BulkCancelRequest",
        responses={200: ResponseSpec("what came of each", "BulkCancelResponse")},
        errors=(400, 409, 413, 415),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="POST",
        path=f"{RUN}:fork",
        endpoint=fork_run,
        scope=CREATE,
        id="forkRun",
        summary="A new run from what this one recorded: all of it, or what it left undone; needs `runs:read` too",
        body="ForkRequest",
        responses={201: ResponseSpec("the new run", "ForkCreated", headers=("Location",))},
        errors=(400, 404, 409, 413, 415, 422, 501),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="POST",
        path=f"{RUN}/interrupts/{{node_id}}",
        endpoint=respond,
        scope="approvals:respond",
        id="resolveInterrupt",
        summary="Answer a run that waits for a person; the first answer counts",
        body="InterruptRequest",
        responses={200: ResponseSpec("it goes on", "InterruptResponse")},
        errors=(400, 404, 409, 413, 415),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/ancestry",
        endpoint=ancestry,
        scope=READ,
        id="getRunAncestry",
        summary="By which run this one was started, and how",
        responses={200: ResponseSpec("one hop", "Ancestry")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path="/v1/workflows/{workflow_id}",
        endpoint=get_workflow,
        scope=MANIFEST,
        id="getWorkflow",
        summary="A workflow as it is written down",
        responses={200: ResponseSpec("its definition", "WorkflowDefinition")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs/{run_id}/verification",
        endpoint=verification,
        scope=READ,
        id="getVerification",
        summary="The verdicts of a workflow's run, whose work they are about, and whether it reached its goal",
        responses={200: ResponseSpec("the report", "VerificationReport")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}:diff",
        endpoint=diff_runs,
        scope=READ,
        id="diffRuns",
        summary="A run beside another: where their logs part, and what came out different",
        responses={200: ResponseSpec("the differences", "RunDiff")},
        errors=(400, 404),
        parameters=(Parameter("against", {"type": "string"}, "the other run"),),
    ),
    RouteSpec(
        method="POST",
        path=f"{RUN}/annotations",
        endpoint=annotate_run,
        scope="",
        id="annotateRun",
        summary="Say something of a run, an event or a node; on a score, correct it",
        body="AnnotationCreate",
        responses={201: ResponseSpec("it is kept, without what looks like a secret", "Annotation")},
        errors=(400, 404, 409, 413, 415, 501),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path=f"{RUN}/annotations",
        endpoint=list_annotations,
        scope=READ,
        id="listAnnotations",
        summary="What was said of a run",
        responses={200: ResponseSpec("in the order it was said", "AnnotationList")},
        errors=(400, 404, 501),
    ),
    RouteSpec(
        method="GET",
        path="/v1/agents",
        endpoint=list_agents,
        scope=MANIFEST,
        id="listAgents",
        summary="Who can be run here",
        responses={200: ResponseSpec("the inventory", "AgentInventory")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path="/v1/agents/{agent_id}",
        endpoint=get_agent,
        scope=MANIFEST,
        id="getAgent",
        summary="One of them",
        responses={200: ResponseSpec("its entry", "AgentEntry")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="POST",
        path="/v1/host/assay/suites",
        endpoint=put_suite,
        scope="suites:write",
        id="putSuite",
        summary="Put a suite on the shelf; a version does not change",
        body="AgentEvalSuite",
        responses={
            200: ResponseSpec("it was there", "SuiteEntry", headers=("Location",)),
            201: ResponseSpec("it is there now", "SuiteEntry", headers=("Location",)),
        },
        errors=(400, 409, 413, 415),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/suites",
        endpoint=list_suites,
        scope="suites:read",
        id="listSuites",
        summary="The suites on the shelf",
        responses={200: ResponseSpec("a page of them", "SuiteEntryList")},
        errors=(400,),
        parameters=(
            Parameter("after", {"type": "string"}, "the last one you have, as suiteId@version"),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
                "how many at most",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/suites/{suite_ref}",
        endpoint=get_suite,
        scope="suites:read",
        id="getSuite",
        summary="A suite, as it was put there; without a version, the highest",
        responses={200: ResponseSpec("the suite", "AgentEvalSuite")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs",
        endpoint=list_runs,
        scope=READ,
        id="listRuns",
        summary="The runs of this tenant, newest first",
        responses={200: ResponseSpec("a page of them", "RunList")},
        errors=(400,),
        parameters=(
            Parameter("status", {"type": "string", "enum": list(STATUSES)}, "only those that are this"),
            Parameter(
                "mode", {"type": "string", "enum": ["eval", "workflow"]}, "only evals, or only the others"
            ),
            Parameter("workflowId", {"type": "string"}, "only those of this suite or workflow"),
            Parameter("since", MOMENT, "only those created then or later"),
            Parameter("until", MOMENT, "only those created before"),
            SIZE,
            TOKEN,
        ),
    ),
]
