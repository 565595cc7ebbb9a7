"""What the run surface stands on: the kinds of run it offers, who follows them, and how a run is shown (contract §3.3)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import UNSET

from assay.agenteval.suite_store import SuiteStore
from assay.errors import InvalidRequest, NotFound, Problem
from assay.ports import Principal, PutDocument, Run, Store
from assay.protocol.agents import AgentCard
from assay.protocol.runs import ForkRequest, RunRequest
from assay.serve.openwop.capabilities import Capabilities
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.events_feed import RunFeeds
from assay.serve.web.request import NAME, HttpRequest


class RunResource(Protocol):
    """A kind of run that can be started and shown over OpenWOP."""

    async def open(
        self, request: RunRequest, who: Principal, holder: str, documents: Sequence[PutDocument], *, run: str
    ) -> Run:
        """Plan it and keep it; pending and held when this returns. What it refuses, it refuses before anything happened."""
        ...

    async def shown(self, run: Run) -> dict[str, Any]:
        """The members of its RunSnapshot that this kind knows of."""
        ...


@runtime_checkable
class Forkable(Protocol):
    """A kind whose runs can be copied."""

    async def fork(
        self,
        source: Run,
        request: ForkRequest,
        who: Principal,
        holder: str,
        documents: Sequence[PutDocument],
        *,
        run: str,
    ) -> Run:
        """The copy: ended as its source is, or held and to be gone on with. `documents` are written when it is whole."""
        ...


class OpenWopHost:
    """
    One process's: by kind of run, what can be started.

    `evals` and `workflows` are the names of the kinds, where they are offered; `offer` says what discovery tells.
    """

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, RunResource],
        offer: Callable[[], Capabilities],
        *,
        shelf: SuiteStore,
        evals: str | None = None,
        workflows: str | None = None,
        feedback: bool = True,
        replay: bool = True,
        cards: Callable[[], list[AgentCard]] = list,
    ) -> None:
        self.store, self.kinds, self.offer = store, kinds, offer
        self.evals, self.workflows, self.shelf, self.cards = evals, workflows, shelf, cards
        self.feedback, self.replay = feedback, replay
        self.feeds = RunFeeds(store, hearing=feedback)

    def stop(self) -> None:
        self.feeds.close()

    def kind_for(self, request: RunRequest) -> RunResource:
        """By `mode`: an eval or an ordinary run (contract §3.2, steps 3 and 4)."""
        if request.mode is not UNSET:
            if request.mode != "eval":
                raise InvalidRequest(
                    Problem("mode", f"expected 'eval' or nothing, got {request.mode[:40]!r}")
                )
            if self.evals is None:
                raise NotProvided("agents.evalSuite")
            return self.kinds[self.evals]
        if request.workflow_id is UNSET:
            raise InvalidRequest(Problem("workflowId", "expected the id of a workflow, or mode 'eval'"))
        if self.workflows is None:
            raise InvalidRequest(Problem("workflowId", f"there is no workflow {request.workflow_id[:128]!r}"))
        return self.kinds[self.workflows]


def host_of(call: HttpRequest) -> OpenWopHost:
    return call.server.resource(OpenWopHost)


async def run_of(call: HttpRequest, surface: OpenWopHost, id: str | None = None) -> Run:
    """The run that the path names: ours, and of a kind that is on this surface."""
    call.target = said = call.run_id if id is None else id
    if NAME.fullmatch(said):
        run = await call.server.executor.get(said, call.tenant)
        if run.kind in surface.kinds:
            return run
    raise NotFound(f"there is no run {said[:128]!r}")


async def snapshot(surface: OpenWopHost, run: Run) -> dict[str, Any]:
    """A RunSnapshot."""
    document: dict[str, Any] = {"runId": run.id, "workflowId": run.name, "status": run.status}
    for name, moment in (("startedAt", run.started), ("completedAt", run.ended)):
        if moment is not None:
            document[name] = moment.isoformat().replace("+00:00", "Z")
    return document | await surface.kinds[run.kind].shown(run)
