"""
A script in a file (`kind = "scripted"`): what a model says when, so that an agent or a judge runs without a key, the
same every time.

    {"replies": [
      {"when": "order 17", "turn": 1, "call": [{"tool": "shop:orders", "arguments": {"id": 17}}]},
      {"when": "order 17", "say": "It was delivered."},
      {"say": "I do not know."}
    ]}

The first that fits is said: `when` is a phrase, or several, that the conversation holds (its system message aside),
`turn` how often it has been asked in it. `say` is a text or a JSON value, `fail` a failure of the provider.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay.backends.models.json_reply import read_value
from assay.backends.models.prices import TokenCounts, cost
from assay.errors import ForeignFault, UsageError
from assay.ports import Completion, CompletionRequest, Provider, ToolCall


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] = {}


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    when: str | list[str] = []
    turn: Annotated[int, msgspec.Meta(ge=1)] | None = None
    say: Any = msgspec.UNSET
    call: list[_Call] = []
    refuse: str | None = None
    fail: str | None = None


class _Script(msgspec.Struct, forbid_unknown_fields=True):
    replies: Annotated[list[_Line], msgspec.Meta(min_length=1)]


class ScriptedProvider:
    """A model with answers from a file. Words count as tokens, at the provider's prices or for free."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._replies = _read(provider)

    async def complete(self, request: CompletionRequest) -> Completion:
        turn = 1 + sum(message.role == "assistant" for message in request.messages)
        conversation = "\n".join(message.content for message in request.messages if message.role != "system")
        line = next((line for line in self._replies if _fits(line, conversation, turn)), None)
        if line is None:
            raise ForeignFault(
                f"the script {self._provider.script} has no reply that matches this conversation"
            )
        if line.fail is not None:
            raise ForeignFault(f"the script {self._provider.script} says: {line.fail}")
        return self._reply(request, line, turn)

    async def close(self) -> None: ...

    def _reply(self, ask: CompletionRequest, line: _Line, turn: int) -> Completion:
        content = "" if line.say is msgspec.UNSET else line.say
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        plain = ask.schema is None or bool(line.call)
        value, problem = (msgspec.UNSET, None) if plain else read_value(text)
        read = sum(len(message.content.split()) for message in ask.messages)
        written = len(text.split()) + sum(len(call.arguments) + 1 for call in line.call)
        prices = self._provider.prices
        return Completion(
            text=text,
            value=value,
            problem=problem,
            finish_reason="tool_calls" if line.call else "stop",
            refusal=line.refuse,
            tool_calls=tuple(
                ToolCall(id=f"call-{turn}-{at}", tool=call.tool, arguments=call.arguments)
                for at, call in enumerate(line.call, 1)
            ),
            model=f"scripted:{ask.model}",
            provider="scripted",
            input_tokens=read,
            output_tokens=written,
            cost_usd=cost(self._provider, (ask.model,), TokenCounts(read, written)) if prices else 0.0,
        )


def _fits(line: _Line, prompt: str, turn: int) -> bool:
    phrases = [line.when] if isinstance(line.when, str) else line.when
    return (line.turn is None or line.turn == turn) and all(phrase in prompt for phrase in phrases)


def _read(provider: Provider) -> list[_Line]:
    place = f"settings: providers.{provider.name}.script"
    if provider.script is None:
        raise UsageError(f"{place}: a scripted provider needs a file with its replies")
    try:
        text = Path(provider.script).read_bytes().removeprefix(b"\xef\xbb\xbf")
        return msgspec.json.decode(text, type=_Script).replies
    except OSError as refused:
        raise UsageError(
            f"{place}: {provider.script}: expected a file that can be read, got {refused.strerror}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise UsageError(
            f"{place}: {provider.script}: {str(wrong).replace('Expected', 'expected')}"
        ) from None
