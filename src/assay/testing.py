"""Test doubles for users: `ScriptedModel` answers as a script says, without a key and without a network."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from assay.backends.models.json_reply import read_value
from assay.errors import Fault, ForeignFault
from assay.ports import Completion, CompletionRequest, ToolCall


class ScriptedModel:
    """
    A Model that answers from a queue, a table or a function. `requests` has every request it got.

        ScriptedModel([{"passed": True}, "not JSON", TimeFault("too slow")])    one answer after the other
        ScriptedModel({"capital of France": {"passed": True}})                  by the first phrase in the messages
        ScriptedModel(lambda request: {"passed": "Paris" in request.messages[-1].content})

    An answer is a text, another JSON value (sent as JSON), a Fault (raised), a Completion, or a ToolCall or a tuple of
    them. Answers have no tokens and no cost.
    """

    def __init__(
        self, script: Iterable[Any] | Mapping[str, Any] | Callable[[CompletionRequest], Any]
    ) -> None:
        self.requests: list[CompletionRequest] = []
        if isinstance(script, Mapping):
            self._answer = _from_table(cast("Mapping[str, Any]", script))
        elif callable(script):
            self._answer = script
        else:
            self._answer = _from_queue(script)

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
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
    answers = iter(script)
    return lambda request: next(answers, ForeignFault("the script has no more answers"))


def _from_table(script: Mapping[str, Any]) -> Callable[[CompletionRequest], Any]:
    def look_up(request: CompletionRequest) -> Any:
        text = "\n".join(message.content for message in request.messages)
        missing = ForeignFault(f"no phrase of the script is in the messages: {', '.join(script)}")
        return next((answer for phrase, answer in script.items() if phrase in text), missing)

    return look_up
