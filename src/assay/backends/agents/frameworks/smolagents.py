"""Agents of smolagents: a copy of the agent for each run, in a thread, whose tools and model report their calls."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from assay.backends.agents.frameworks.adapter import (
    Adapter,
    Capabilities,
    ModelName,
    OwnTools,
    Session,
    text_of,
)
from assay.backends.agents.frameworks.addresses import address_of
from assay.backends.agents.frameworks.recognise import framework
from assay.concurrency.threads import run_foreign

FINAL = "final_answer"  # the tool that ends a run


class SmolAgents(Adapter):
    framework = "smolagents"
    classes = ("smolagents.agents.MultiStepAgent",)
    capabilities = Capabilities(
        steps=True, tool_calls=True, usage=True, cost=True, fixtures=True, multi_turn=True
    )

    def tools(self, agent: Any) -> OwnTools:
        names = set(agent.tools) - {FINAL}
        for one in agent.managed_agents.values():
            names |= self.tools(one).names
        return OwnTools(frozenset(names))

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        where = getattr(agent, "executor_type", "local")
        return (
            ""
            if where == "local"
            else f"its tools run in {where}, where assay does not see them: use executor_type='local'"
        )

    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        made = _copy(agent, session)
        first = session.history is None
        made.return_full_result = False  # of some releases it is an option of a run, too
        options = {**session.options, "stream": False, "reset": first}
        options.pop("return_full_result", None)
        if not first:
            _continue(made, session.history)
        try:
            answer = await run_foreign(lambda: made.run(text_of(task), **options))
        except asyncio.CancelledError:
            made.interrupt()  # the thread ends after the model call that it waits for
            raise
        session.history = made
        return answer


def _continue(made: Any, before: Any) -> None:
    """Give a copy what the copy of the last turn knew: its messages, its variables and its Python."""
    made.memory.steps = list(before.memory.steps)
    made.state = dict(before.state)
    if hasattr(before, "python_executor"):
        made.python_executor = before.python_executor


def _copy(agent: Any, session: Session) -> Any:
    """A copy without what earlier runs left: messages, variables, and the state of its Python."""
    known = framework("smolagents")
    made = copy.copy(agent)
    made.logger = known.AgentLogger(level=known.LogLevel.OFF)  # standard output is that of the command
    made.memory = known.AgentMemory(agent.system_prompt)
    made.monitor = known.Monitor(agent.model, made.logger)
    made.state, made.stream_outputs = dict(agent.state), False
    made.step_callbacks = _callbacks(agent)
    made.model = _model(agent.model, session)
    made.tools = {name: _tool(tool, session) if name != FINAL else tool for name, tool in agent.tools.items()}
    made.managed_agents = {name: _copy(one, session) for name, one in agent.managed_agents.items()}
    if hasattr(agent, "python_executor"):
        made.python_executor = made.create_python_executor()
    return made


def _callbacks(agent: Any) -> Any:
    """The callbacks of the agent, without that of its monitor, which prints."""
    made = copy.copy(agent.step_callbacks)
    made._callbacks = {
        kind: [one for one in callbacks if getattr(one, "__self__", None) is not agent.monitor]
        for kind, callbacks in made._callbacks.items()
    }
    return made


def _tool(tool: Any, session: Session) -> Any:
    made = copy.copy(tool)
    live = tool.forward

    def forward(*values: Any, **named: Any) -> Any:
        arguments = {**dict(zip(tool.inputs, values, strict=False)), **named}
        return session.tool_in_thread(tool.name, arguments, lambda: live(*values, **named))

    made.forward = forward
    return made


def _model(model: Any, session: Session) -> Any:
    made = copy.copy(model)

    def generate(*values: Any, **named: Any) -> Any:
        session.check_running()
        message = model.generate(*values, **named)
        usage = getattr(message, "token_usage", None)
        provider = type(model).__name__
        known = str(getattr(model, "model_id", None) or "")
        name = ModelName(provider, known, address_of(provider, model))
        session.usage(name, getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None))
        return message

    made.generate = generate
    return made
