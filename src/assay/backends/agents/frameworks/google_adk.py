"""Agents and apps of Google's ADK: a plugin of the runner sees model responses, and fixtures answer tools there."""

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import aclosing
from functools import cache
from typing import Any

import msgspec

from assay.backends.agents.frameworks.adapter import (
    Adapter,
    Capabilities,
    ModelName,
    OwnTools,
    Session,
    connection_error,
    text_of,
    waiting_for,
)
from assay.backends.agents.frameworks.addresses import address_of
from assay.backends.agents.frameworks.recognise import framework
from assay.protocol.json_types import JSON, is_object

USER = "assay"
TRANSFER = "transfer_to_agent"
OWN = frozenset({TRANSFER, "set_model_response", "exit_loop"})  # tools of the framework itself


class GoogleAdk(Adapter):
    framework = "google-adk"
    classes = ("google.adk.agents.base_agent.BaseAgent", "google.adk.apps.app.App")
    capabilities = Capabilities(
        steps=True, tool_calls=True, usage=True, cost=True, cancel=True, fixtures=True, multi_turn=True
    )

    def tools(self, agent: Any) -> OwnTools:
        names: set[str] = set()
        complete = True
        for one in _agents(_root(agent)):
            for tool in getattr(one, "tools", ()):
                name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
                complete &= not hasattr(
                    tool, "get_tools"
                )  # a set of tools, which is known when it is connected
                names |= {name} if isinstance(name, str) and not hasattr(tool, "get_tools") else set()
        return OwnTools(frozenset(names - OWN), complete)

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        return "its runs have no options: give the agent or the app itself" if options else ""

    def instructions(self, agent: Any) -> str | None:
        text = getattr(_root(agent), "instruction", None)
        return text if isinstance(text, str) and text else None

    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        apps, types = framework("google.adk.apps"), framework("google.genai.types")
        plugin = _plugin()(_root(agent), session)
        if isinstance(agent, apps.App):
            app = agent.model_copy(update={"plugins": [*agent.plugins, plugin]})
        else:
            app = apps.App(name=USER, root_agent=agent, plugins=[plugin])
        runner = framework("google.adk.runners").InMemoryRunner(app=app)
        try:
            made = await _session(runner, session.history)
            message = types.Content(role="user", parts=[types.Part(text=text_of(task))])
            text = None
            events = runner.run_async(user_id=USER, session_id=made.id, new_message=message)
            async with aclosing(events):  # a tool that a person answers must not run
                async for event in events:
                    if event.error_code and event.content is None:
                        raise ModelError(f"{event.error_code}: {event.error_message}") from plugin.error
                    if waits := _waits(event):
                        return waiting_for(waits)
                    text = _final_text(event, text)
            if plugin.unconfirmed:
                return waiting_for(plugin.unconfirmed)
        finally:
            await runner.close()
        session.history = runner, made
        schema = getattr(_root(agent), "output_schema", None)
        return msgspec.json.decode(text) if schema is not None and text else text


async def _session(runner: Any, history: Any) -> Any:
    """A new session of the framework, or that of the last turn, with the services of its runner."""
    if history is None:
        return await runner.session_service.create_session(app_name=runner.app_name, user_id=USER)
    before, made = history
    for name in ("session_service", "artifact_service", "memory_service"):
        setattr(runner, name, getattr(before, name))
    return made


def _root(agent: Any) -> Any:
    return getattr(agent, "root_agent", None) if type(agent).__name__ == "App" else agent


def _agents(agent: Any) -> list[Any]:
    found = [agent]
    for one in getattr(agent, "sub_agents", ()):
        found += _agents(one)
    return found


def _waits(event: Any) -> list[str]:
    """The calls that this event leaves to a person: of long-running tools, or for a confirmation."""
    waiting = event.long_running_tool_ids or ()
    calls = [one for one in event.get_function_calls() if one.id in waiting]
    names: list[str] = []
    for call in calls:
        arguments: JSON = call.args or {}
        original: JSON = arguments.get("originalFunctionCall") or {}
        names.append(str(original.get("name") or call.name))
    return names


def _final_text(event: Any, before: str | None) -> str | None:
    if not event.is_final_response() or event.content is None:
        return before
    parts = event.content.parts or ()
    return "".join(part.text for part in parts if part.text and not part.thought)


class ModelError(Exception):
    """The model answered with an error."""


class Recording:
    """What the plugin does, without its base class."""

    def __init__(self, root: Any, session: Session) -> None:
        self._root, self._session = root, session
        self._running: dict[Any, asyncio.Future[Any]] = {}
        self.error: BaseException | None = None  # why the last model call failed
        self.unconfirmed: list[str] = []  # tools that run when a person has confirmed them

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> None:
        self.error = connection_error(error, handled=True) or error

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        usage = llm_response.usage_metadata
        if llm_response.partial or usage is None:
            return
        model = _model(self._root, callback_context.agent_name, llm_response)
        cached = usage.cached_content_token_count or 0
        self._session.usage(model, usage.prompt_token_count, usage.candidates_token_count, cached)

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        if tool.name == TRANSFER:
            self._session.hand_off(str(tool_args.get("agent_name", "")))
        if tool.name in OWN:
            return None
        if self._session.context.runs_own:
            running = self._session.observe(tool.name, tool_args)
            self._running[tool_context.function_call_id] = running
            return None
        if await _needs_confirmation(tool, tool_args, tool_context):
            self.unconfirmed.append(tool.name)
            tool_context.actions.skip_summarization = True  # the run ends without another call of the model
            return {"result": None}

        async def never() -> Any: ...

        answer = await self._session.tool(tool.name, tool_args, never)
        return answer if is_object(answer) and answer else {"result": answer}

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        self._end(tool_context, result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception
    ) -> None:
        self._end(tool_context, error)

    def _end(self, tool_context: Any, answer: Any) -> None:
        if (running := self._running.pop(tool_context.function_call_id, None)) is not None:
            self._session.end(running, answer)


async def _needs_confirmation(tool: Any, arguments: JSON, context: Any) -> bool:
    """Whether a person must confirm this call: the tool says so of every call, or by the arguments."""
    if (ask := getattr(tool, "check_require_confirmation", None)) is not None:
        return bool(await ask(arguments, context))
    wanted = getattr(tool, "_require_confirmation", False)  # of 2.0, which asks inside the tool
    if not callable(wanted):
        return bool(wanted)
    known = inspect.signature(tool.func).parameters
    given = {name: one for name, one in {**arguments, "tool_context": context}.items() if name in known}
    answer = wanted(**given)
    return bool(await answer if inspect.isawaitable(answer) else answer)


@cache
def _plugin() -> Any:
    """The class of the plugin."""
    base: Any = framework("google.adk.plugins.base_plugin").BasePlugin

    class Plugin(Recording, base):
        def __init__(self, root: Any, session: Session) -> None:
            base.__init__(self, name="assay")
            Recording.__init__(self, root, session)

    return Plugin


def _model(root: Any, agent_name: str, response: Any) -> ModelName:
    model = next((getattr(one, "model", "") for one in _agents(root) if one.name == agent_name), "")
    name = model if isinstance(model, str) else getattr(model, "model", "")
    provider, _, short = str(name).rpartition("/")
    asked = str(response.model_version or short)
    return ModelName(provider or "google", asked, address_of(provider, model))
