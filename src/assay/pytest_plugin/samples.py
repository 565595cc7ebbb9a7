"""Calls a marked function several times for a case, and scores what it returns."""

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from assay.api.evaluate import evaluate_sync
from assay.concurrency.foreign_code import exception_text
from assay.errors import NotMeasured
from assay.ports.agents import AgentRefusal
from assay.protocol.evaluation import Output
from assay.protocol.results import TestCaseResult


class Sample(Struct, kw_only=True):
    """One call: its value, or the exception that ended it."""

    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0


def argument_names(item: pytest.Function) -> list[str]:
    """The parameters of the item's function that pytest fills: those without a default that are fixtures."""
    parameters = inspect.signature(item.obj).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.name in item.funcargs]


def call_samples(function: Callable[..., Any], arguments: Mapping[str, Any], count: int) -> list[Sample]:
    """
    Call it `count` times: a coroutine function at once on one event loop, another one after the other in this thread.
    """
    wrapped = getattr(function, "__wrapped__", None)
    if inspect.iscoroutinefunction(wrapped):
        function = wrapped  # a plugin for asyncio has wrapped it and would drop its value
    if not inspect.iscoroutinefunction(function):
        return [_call(function, arguments) for _ in range(count)]

    async def together() -> list[Sample]:
        return await asyncio.gather(*(_call_async(function, arguments) for _ in range(count)))

    return asyncio.run(together())


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Sample:
    started = time.perf_counter()
    try:
        sample = Sample(value=function(**arguments))
    except (pytest.exit.Exception, pytest.xfail.Exception):
        raise
    except (Exception, SystemExit, pytest.fail.Exception) as error:  # noqa: BLE001  # an agent is foreign code
        sample = Sample(error=error)
    sample.seconds = time.perf_counter() - started
    return sample


async def _call_async(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Sample:
    started = time.perf_counter()
    try:
        sample = Sample(value=await function(**arguments))
    except (pytest.exit.Exception, pytest.xfail.Exception):
        raise
    except (Exception, SystemExit, pytest.fail.Exception) as error:  # noqa: BLE001  # an agent is foreign code
        sample = Sample(error=error)
    sample.seconds = time.perf_counter() - started
    return sample


def score_samples(case: Any, checks: Any, samples: Sequence[Sample]) -> list[TestCaseResult]:
    """
    The result of each sample, in order. A sample that raised has no value: its checks fail or, mostly, are not
    measured.
    """
    values = [at for at, sample in enumerate(samples) if sample.error is None]
    outputs = [_output(samples[at], at, len(samples)) for at in values]
    scored = evaluate_sync([case] * len(values), outputs, checks).results if values else []
    results = dict(zip(values, scored, strict=True))
    for at, sample in enumerate(samples):
        if sample.error is not None:
            (result,) = evaluate_sync([case], checks=checks, agent=_agent_that_raises(sample.error)).results
            metadata = result.execution_context.output["metadata"]
            metadata |= {"latency_ms": round(sample.seconds * 1000)}
            metadata |= {"trial": at} if len(samples) > 1 else {}
            results[at] = result
    return [results[at] for at in range(len(samples))]


def _output(sample: Sample, at: int, count: int) -> dict[str, Any]:
    about = {"latency_ms": round(sample.seconds * 1000)} | ({"trial": at} if count > 1 else {})
    if not isinstance(sample.value, Output):
        return {"value": sample.value, "metadata": about}
    document: dict[str, Any] = msgspec.to_builtins(sample.value)
    return document | {"metadata": about | (document.get("metadata") or {})}


def _agent_that_raises(error: BaseException) -> Callable[[Any], Any]:
    """
    An agent that ends as the function did: its own assertion is a failure, a refusal a refusal, anything else is not
    measured.
    """

    async def agent(task: Any) -> Any:
        if isinstance(error, AgentRefusal):
            raise error
        text = str(error) or type(error).__name__
        if isinstance(error, AssertionError | pytest.fail.Exception):
            raise AssertionError(text)
        raise NotMeasured(f"the function raised {exception_text(error)}") from error

    return agent


def encode_result(result: TestCaseResult) -> str:
    """A result as a JSON line."""
    return msgspec.json.encode(result).decode()
