"""Agents of pydantic-ai: a capability of the run sees every model request and every tool call."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from assay.backends.agents.frameworks.adapter import (
    Adapter,
    Capabilities,
    ModelName,
    OwnTools,
    Session,
    text_of,
    waiting_for,
)
from assay.backends.agents.frameworks.recognise import framework


class PydanticAi(Adapter):
    framework = "pydantic-ai"
    classes = ("pydantic_ai.agent.AbstractAgent",)
    capabilities = Capabilities(
        steps=True, tool_calls=True, usage=True, cost=True, cancel=True, fixtures=True, multi_turn=True
    )

    def tools(self, agent: Any) -> OwnTools:
        names: set[str] = set()
        complete = True
        for toolset in agent.toolsets:
            known = getattr(toolset, "tools", None)
            if isinstance(known, dict):
                names |= set(known)  # pyright: ignore[reportUnknownArgumentType]
            else:
                complete = False  # of an MCP server, or made for each run
        return OwnTools(frozenset(names), complete)

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        kind = agent.deps_type
        if kind is type(None) or kind is object or "deps" in options:
            return ""
        name = getattr(kind, "__name__", str(kind))
        return (
            f"its tools take deps of the type {name}: give functools.partial(agent.run, deps=…) as the agent"
        )

    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        options = session.options
        mine = [*options.pop("capabilities", ()), _recorder()(session)]
        if session.history is not None:
            options["message_history"] = session.history.all_messages()
        session.history = result = await agent.run(text_of(task), capabilities=mine, **options)
        output = result.output
        if isinstance(output, framework("pydantic_ai").DeferredToolRequests):
            return waiting_for(one.tool_name for one in (*output.approvals, *output.calls))
        return output


@cache
def _recorder() -> Any:
    """
    The class of the capability. Making a class takes longer than a run.

    A model request may have several attempts, each with its usage. Releases that have them tell a capability of each;
    around a request is only the last one. That also takes the framework a tenth of a run less.
    """
    base: Any = framework("pydantic_ai.capabilities").AbstractCapability

    class Recorder(base):
        def __init__(self, session: Session) -> None:
            self._session = session

        async def wrap_tool_execute(
            self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
        ) -> Any:
            return await self._session.tool(call.tool_name, call.args_as_dict(), lambda: handler(args))

    class OfAttempts(Recorder):
        async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
            _record_usage(response, self._session)
            return response

    class OfRequests(Recorder):
        async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
            response = await handler(request_context)
            _record_usage(response, self._session)
            return response

    attempts = hasattr(framework("pydantic_ai.exceptions"), "RetryModelRequest")
    return OfAttempts if attempts else OfRequests


def _record_usage(response: Any, session: Session) -> None:
    usage = response.usage
    session.usage(
        ModelName(response.provider_name or "", response.model_name or "", response.provider_url or ""),
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
    )
