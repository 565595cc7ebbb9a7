"""A Model that says what it was told to say: for tests, for demonstrations, for a run without a key."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from assay.backends.models.json_reply import read_value
from assay.errors import Fault, ForeignFault
from assay.ports import Completion, CompletionRequest, ToolCall


class ScriptedModel:
    """
    Answers from a queue, a table or a function, and keeps what it was asked in `asks`.

        ScriptedModel([{"passed": True}, "not JSON", TimeFault("too slow")])    one after the other
        ScriptedModel({"capital of France": {"passed": True}})                  the first phrase the messages hold
        ScriptedModel(lambda ask: {"passed": "Paris" in ask.messages[-1].content})

    A text is said as it is, any other JSON value as JSON, a Fault is raised, a Reply is given whole; a ToolCall, or several in a
    tuple, is asked for. No tokens, no cost.
    """

    def __init__(
        self, script: Iterable[Any] | Mapping[str, Any] | Callable[[CompletionRequest], Any]
    ) -> None:
        self.asks: list[CompletionRequest] = []
        if isinstance(script, Mapping):
            self._answer = _from_table(cast("Mapping[str, Any]", script))
        elif callable(script):
            self._answer = script
        else:
            self._answer = _from_queue(script)

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asks.append(request)
        answer = self._answer(request)
        if isinstance(answer, Fault):
            raise answer
        if isinstance(answer, Completion):
            return answer
        if isinstance(answer, ToolCall | tuple):
            calls = cast("tuple[ToolCall, ...]", answer if isinstance(answer, tuple) else (answer,))
            return Completion(
                text="",
                finish_reason="tool_calls",
                tool_calls=calls,
                model=f"scripted:{request.model}",
                provider="scripted",
            )
        text = answer if isinstance(answer, str) else json.dumps(answer)
        value, problem = (msgspec.UNSET, None) if request.schema is None else read_value(text)
        return Completion(
            text=text,
            value=value,
            problem=problem,
            finish_reason="stop",
            model=f"scripted:{request.model}",
            provider="scripted",
        )

    async def close(self) -> None: ...


def _from_queue(script: Iterable[Any]) -> Callable[[CompletionRequest], Any]:
    waiting = iter(script)
    return lambda ask: next(waiting, ForeignFault("the script has no more answers"))


def _from_table(script: Mapping[str, Any]) -> Callable[[CompletionRequest], Any]:
    def look_up(ask: CompletionRequest) -> Any:
        said = "\n".join(message.content for message in ask.messages)
        unheard = ForeignFault(f"the script answers none of: {', '.join(script)}")
        return next((answer for phrase, answer in script.items() if phrase in said), unheard)

    return look_up
