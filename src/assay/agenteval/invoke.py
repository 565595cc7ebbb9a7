"""One invocation, from its first moment to its last: what an agent does is its own doing, and is measured (contract §3.3)."""

import asyncio
from typing import Any, get_args

from msgspec.structs import replace

from assay.agenteval.handoff import validate_result
from assay.agenteval.scene import Invocation
from assay.errors import ForeignFault, TimeFault
from assay.ports.agents import Agent
from assay.protocol.agents import InvocationResult, Outcome
from assay.protocol.redaction import redacted_text

OUTCOMES: tuple[str, ...] = get_args(Outcome)
GRACE = 5.0  # seconds beyond its own deadline after which we do not believe that it will end


async def invoke(
    agent: Agent, task: Any, stage: Invocation, *, grace: float = GRACE, floor: float | None = None
) -> InvocationResult:
    """
    How it ended. An agent that raises, hangs, refuses or answers nonsense was measured; only a ForeignFault or TimeFault, which
    is raised, says that it could not be asked. `floor` is how sure it must be, instead of its own threshold.
    """
    await stage.open()
    try:
        async with asyncio.timeout(None if stage.left == float("inf") else stage.left + grace):
            finish = await agent.invoke(task, stage)
    except (ForeignFault, TimeFault):
        raise
    except asyncio.CancelledError:
        here = asyncio.current_task()
        if here is not None and here.cancelling():
            raise
        finish = InvocationResult(outcome="failed", error="it cancelled itself")
    except TimeoutError:
        finish = InvocationResult(outcome="failed", error="it did not end in time")
    except Exception as surprise:  # noqa: BLE001  # an agent is foreign code
        finish = InvocationResult(outcome="failed", error=_words(surprise))
    finally:
        stage.close()
    return _error_text(validate_result(agent.card, _sensible(finish), floor, stage.max_depth))


def _words(surprise: Exception) -> str:
    try:
        return f"{type(surprise).__name__}: {surprise}"
    except Exception as another:  # noqa: BLE001  # its message is foreign code too
        return f"{type(surprise).__name__} (no message: {type(another).__name__} while it was made)"


def _sensible(finish: InvocationResult) -> InvocationResult:
    """What it says of its end, if that can be; else it answered nonsense, which is its failure."""
    sure: Any = finish.confidence
    error: Any = finish.error
    if finish.outcome not in OUTCOMES:
        why = f"it ended as {finish.outcome!r}: expected one of {', '.join(OUTCOMES)}"
    elif sure is not None and not (_is_number(sure) and 0 <= sure <= 1):
        why = "its confidence is no number from 0 to 1"
    elif not isinstance(error, str | None):
        why = "its error is no text"
    else:
        return finish
    return InvocationResult(outcome="failed", error=why)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _error_text(finish: InvocationResult) -> InvocationResult:
    """What went wrong is kept, and what its words give away is not."""
    return finish if finish.error is None else replace(finish, error=redacted_text(finish.error))
