"""`assay run --traces`: which agent sends spans, and the receiver for them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from assay.agenteval.planning.run_header import read_request
from assay.api.pack_refs import find_agent
from assay.cli.agent_evals.run_setup import RunOptions
from assay.errors import UsageError
from assay.ports import LOCAL_TENANT, Run, Store
from assay.settings import Settings
from assay.traces.span_receiver import SpanReceiver, open_receiver

TRACED = ("http", "command")  # kinds of agents that send spans


def validate_traces(options: RunOptions) -> None:
    if options.traces and options.server is not None:
        raise UsageError(
            "--traces and --server: expected one of them, got both; spans are received where the run is"
        )
    if options.traces_port is not None and not options.traces:
        raise UsageError("--traces-port: expected --traces with it")


async def agent_spec(options: RunOptions, store: Store, source: Run | None) -> str | None:
    """The agent of the command line, or else the agent of the run that is resumed."""
    if source is None or options.agent is not None:
        return options.agent
    request = await read_request(store, source)
    return None if request.definition is not None else request.agent_spec or None


@asynccontextmanager
async def open_spans(
    options: RunOptions, settings: Settings, store: Store, source: Run | None
) -> AsyncGenerator[SpanReceiver | None]:
    """The receiver of --traces. A UsageError: the agent is in this process, so it has no place to send spans from."""
    if not options.traces:
        yield None
        return
    spec = await agent_spec(options, store, source)
    agent = None if spec is None else await find_agent(spec, settings, store, LOCAL_TENANT)
    kind = "agent of a pack" if agent is None else agent.card.kind
    if kind not in TRACED:
        raise UsageError(
            f"--traces: expected an agent that is an HTTP address or cmd:COMMAND, got one of the kind {kind}"
        )
    async with open_receiver(kind, options.traces_port) as receiver:
        yield receiver
