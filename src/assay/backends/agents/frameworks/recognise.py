"""Finds the adapter of an agent by the module of its class. A framework that nobody uses is not imported."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from assay.backends.agents.frameworks.adapter import Adapter
from assay.errors import UsageError

GROUP = "assay.agents"  # of entry points: the module of a framework = the adapter
_HERE = "assay.backends.agents.frameworks"
BUILT_IN = {  # the module of a framework: its adapter
    "agents": f"{_HERE}.openai_agents:OpenAiAgents",
    "google.adk": f"{_HERE}.google_adk:GoogleAdk",
    "langchain_core": f"{_HERE}.langgraph:LangGraph",
    "langgraph": f"{_HERE}.langgraph:LangGraph",
    "pydantic_ai": f"{_HERE}.pydantic_ai:PydanticAi",
    "smolagents": f"{_HERE}.smolagents:SmolAgents",
    "strands": f"{_HERE}.strands:Strands",
}


def adapter_of(kind: type) -> Adapter | None:
    """The adapter of a class of agents; None: it is of no framework that assay knows."""
    for name in _modules(kind):
        adapter = _adapter(name)
        if adapter is not None and adapter.accepts(kind):
            return adapter
    return None


def adapters() -> dict[str, Adapter]:
    """The adapters of assay, by the name of the framework. None of them imports its framework."""
    found = [_load(name, target) for name, target in BUILT_IN.items()]
    return {one.framework: one for one in found}


def framework(name: str) -> Any:
    """A module of a framework, which the user has imported."""
    return import_module(name)


def _modules(kind: type) -> Iterator[str]:
    """The modules of the class and its bases, each with the packages around it, the most specific first."""
    for base in kind.__mro__:
        parts = base.__module__.split(".")
        for end in range(len(parts), 0, -1):
            yield ".".join(parts[:end])


@cache
def _adapter(module: str) -> Adapter | None:
    if module in ("builtins", "assay"):
        return None
    if module in BUILT_IN:
        return _load(module, BUILT_IN[module])
    target = _installed().get(module)
    return None if target is None else _load(module, target.value)


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _load(module: str, target: str) -> Adapter:
    where, _, name = target.partition(":")
    try:
        return getattr(import_module(where), name)()
    except Exception as surprise:  # an entry point is foreign code
        raise UsageError(
            f"{GROUP}: {module}: expected the adapter {target}, got {type(surprise).__name__}: {surprise}"
        ) from surprise
