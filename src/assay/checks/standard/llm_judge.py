"""
llm_judge (FEP 2.3.6): a model answers a prompt about the case, in the caller's response_format (FEP-18, FEP-25).

An answer is an error, not a score, if it was refused or truncated, repeats a member, has a `passed` other than true or
false, or does not match `response_format`. The judge may repair an answer of the wrong form once. With a `panel`,
several answers are asked for, and one is made of them (`judge_panel.py`).
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from assay.checks.argument_forms import MarkedText
from assay.checks.checker import Answer, Checker, InvalidArgument, Opaque, Prompt, Schema, closed_object
from assay.checks.schema_validator import validator_for
from assay.checks.standard.judge_panel import JudgePanel, combine, shuffled
from assay.checks.standard.model_usage import ModelUsage, or_none, providers_of
from assay.errors import Fault, ForeignFault, TimeFault
from assay.ports import Completion, CompletionRequest, Message, Model, Services
from assay.protocol.json_types import BEYOND_DOUBLES, beyond_doubles, is_object

REASONING = "reasoning"
REASONS = frozenset(
    {
        "analysis", "comment", "comments", "critique", "evidence", "explanation", "justification", "rationale",
        "reason", "reasoning", "reasons", "thinking", "thoughts", "why",
    }
)  # fmt: skip
OBJECT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$defs"}
)
REASONING_SCHEMA = {"type": "string", "description": "the reasons for the answer, weighed before it is given"}
MAX_ERRORS = 3  # schema violations that are reported to the judge and to the caller


class LlmJudge(Checker):
    type = "llm_judge"
    keeps_time = True
    results_schema = closed_object(
        {
            "response": {"type": "object", "description": "as response_format says"},
            "metadata": {"type": "object", "description": "provider, model, cost_usd, tokens_used, …"},
        }
    )

    prompt: Prompt
    response_format: Schema
    provider_config: Opaque | UnsetType = UNSET
    model_config: Opaque | UnsetType = UNSET
    panel: JudgePanel | UnsetType = UNSET

    async def run(self, services: Services) -> Answer:
        usages: list[ModelUsage] = []
        try:
            response, own = await self.ask(services, usages)
        except Fault as fault:
            raise ModelUsage.of(usages).attach_to(fault) if usages else fault from None
        return {"response": response, "metadata": ModelUsage.of(usages).metadata() | own}

    async def ask(self, services: Services, usages: list[ModelUsage]) -> tuple[Any, dict[str, Any]]:
        """
        The response, and what else is known about it. The usage of each call is added to `usages`, also on a fault.
        """
        if self.panel is not UNSET:
            return await self._ask_panel(services, self.panel, usages)
        model, chosen = providers_of(services).model(
            or_none(self.provider_config), or_none(self.model_config)
        )
        schema = with_reasoning(self.response_format)
        request = msgspec.structs.replace(
            chosen,
            messages=(self._message(),),
            schema=schema,
            check_version=self.version,
            may_wait=True,
            repeat=self._repeat(services),
            accepts=partial(self._accepts, reasoning_added=schema is not self.response_format),
        )
        usage = ModelUsage(request.model)
        usages.append(usage)
        return await self._complete(model, request, usage, reasoning_added=schema is not self.response_format)

    async def _ask_panel(
        self, services: Services, panel: JudgePanel, usages: list[ModelUsage]
    ) -> tuple[Any, dict[str, Any]]:
        """Ask all members at once, and make one answer of theirs."""
        repeat = self._repeat(services)
        schema = with_reasoning(self.response_format)
        calls: list[tuple[Model, CompletionRequest, ModelUsage]] = []
        for at, (name, before) in enumerate(panel.members()):
            model, chosen = providers_of(services).model(
                or_none(self.provider_config), _member_config(or_none(self.model_config), name)
            )
            request = msgspec.structs.replace(
                chosen,
                messages=(self._message(),),
                schema=shuffled(schema, panel, self.prompt, at),
                check_version=self.version,
                may_wait=True,
                repeat=repeat * panel.size + before,
                accepts=partial(self._accepts, reasoning_added=schema is not self.response_format),
            )
            calls.append((model, request, ModelUsage(request.model)))
        usages += [usage for _, _, usage in calls]
        tasks = [
            asyncio.ensure_future(self._member_answer(call, schema is not self.response_format))
            for call in calls
        ]
        try:
            replies = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        answers = [reply for reply in replies if not isinstance(reply, Fault)]
        failures = [reply for reply in replies if isinstance(reply, Fault)]
        try:
            response, about = combine(
                panel,
                [response for response, _ in answers],
                [str(failure) for failure in failures],
                self.response_format,
            )
        except Fault as fault:
            fault.recoverable = any(failure.recoverable for failure in failures)
            raise
        typical = [own for one, own in answers if one.get("passed") == response.get("passed")]
        own = typical[0] if typical else {}
        return response, own | {"panel": about}

    async def _member_answer(
        self, call: tuple[Model, CompletionRequest, ModelUsage], reasoning_added: bool
    ) -> tuple[Any, dict[str, Any]] | Fault:
        """The answer of one member, or the fault that is not a vote."""
        try:
            return await self._complete(*call, reasoning_added=reasoning_added)
        except Fault as fault:
            return fault

    async def _complete(
        self, model: Model, request: CompletionRequest, usage: ModelUsage, *, reasoning_added: bool
    ) -> tuple[Any, dict[str, Any]]:
        reply = require_complete(usage.add(await model.complete(request)))
        response, own, problem = self._read(reply, reasoning_added=reasoning_added)
        if problem is None:
            return response, own
        left = None if request.timeout is None else request.timeout - usage.spent_seconds
        if left is not None and left <= 0:
            raise TimeFault(f"the judge's answer {problem}, and there is no time left to repair it")
        again = msgspec.structs.replace(
            request, messages=(*request.messages, *repair(reply.text, problem)), timeout=left
        )
        reply = require_complete(usage.add(await model.complete(again)))
        response, own, second_problem = self._read(reply, reasoning_added=reasoning_added)
        if second_problem is not None:
            raise ForeignFault(
                f"the judge's answer {second_problem}; it was a repair of an answer that {problem}"
            )
        return response, own

    def _read(self, reply: Completion, *, reasoning_added: bool) -> tuple[Any, dict[str, Any], str | None]:
        """The response, the members that only this check added to the schema, and the problem of the response."""
        response, own = reply.value, {}
        if reasoning_added and is_object(response):
            response = dict(response)
            reasoning = response.pop(REASONING, None)
            own = {REASONING: reasoning} if isinstance(reasoning, str) else {}
        problem = reply.problem or format_problem(response, self.response_format)
        if problem is None and self.panel is not UNSET:
            problem = self.panel.contradiction(response)
        return response, own, problem

    def _accepts(self, reply: Completion, *, reasoning_added: bool) -> bool:
        return self._read(reply, reasoning_added=reasoning_added)[2] is None

    def _message(self) -> Message:
        if isinstance(self.prompt, MarkedText):
            return Message("user", self.prompt.plain, fixed=self.prompt.fixed)
        return Message("user", self.prompt)

    def _repeat(self, services: Services) -> int:
        if services.repeats is None:
            return 0
        configured = [or_none(self.provider_config), or_none(self.model_config)]
        return services.repeats.of(msgspec.json.encode([str(self.prompt), self.response_format, configured]))

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        schema: dict[str, Any] = literals["response_format"]
        try:
            validator_for(msgspec.json.encode(schema))
        except ValueError as wrong:
            raise InvalidArgument("response_format", str(wrong)) from None
        if schema.get("type", "object") != "object":
            raise InvalidArgument(
                "response_format", f"expected the schema of an object, got one of {schema['type']!r}"
            )
        passed = properties_of(schema).get("passed", {})
        if is_object(passed) and passed.get("type", "boolean") != "boolean":
            raise InvalidArgument(
                "response_format", "passed: expected a boolean, because it decides whether the check passes"
            )

    @classmethod
    def validate_host(cls, literals: Mapping[str, Any], services: Services) -> None:
        panel = literals.get("panel", UNSET)
        for name in (panel.models if isinstance(panel, JudgePanel) else ()) or (None,):
            config = _member_config(or_none(literals["model_config"]), name)
            providers_of(services).model(or_none(literals["provider_config"]), config)


def material_block(parts: Mapping[str, Any]) -> str:
    """
    Untrusted content as one JSON object between tags. No text in it can end the block: its `<` and `>` are escaped.
    """
    text = msgspec.json.encode(parts).decode().replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<material>\n{text}\n</material>"


def judge_prompt(instructions: str, material: Mapping[str, Any]) -> MarkedText:
    """The fixed part first, so that a provider can cache it, then the content of the case."""
    return MarkedText(f"{instructions}\n\n{material_block(material)}", len(instructions))


def _member_config(config: Mapping[str, Any] | None, name: str | None) -> Mapping[str, Any] | None:
    """The `model_config` of a member of a panel. None as a name: the model of the check."""
    return config if name is None else {**(config or {}), "model": name}


def with_reasoning(schema: dict[str, Any]) -> dict[str, Any]:
    """
    Add a `reasoning` member before the verdict, if the caller's schema has none.

    A model that writes its reasons first can base its verdict on them. A schema with more than members is not changed.
    """
    properties = properties_of(schema)
    if not properties or REASONS & properties.keys() or schema.keys() - OBJECT_KEYWORDS:
        return schema
    required: list[str] = schema.get("required", [])
    return {
        **schema,
        "properties": {REASONING: REASONING_SCHEMA, **properties},
        "required": [REASONING, *required],
    }


def properties_of(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if is_object(properties) else {}


def require_complete(reply: Completion) -> Completion:
    """
    Raise ForeignFault for a reply that was refused or truncated. It is not repaired: another call would not change it.
    """
    if reply.refusal is not None:
        raise ForeignFault(f"the judge refused: {reply.refusal[:300]}")
    if reply.finish_reason != "stop":
        reasons = {
            "length": "was cut off (finish_reason 'length'); raise max_tokens in model_config",
            "content_filter": "was filtered by its provider (finish_reason 'content_filter')",
        }
        reason = reasons.get(
            reply.finish_reason, f"did not end by itself (finish_reason {reply.finish_reason!r})"
        )
        raise ForeignFault(f"the judge's answer {reason}")
    return reply


def format_problem(response: Any, schema: dict[str, Any]) -> str | None:
    """The problem of a response, or None if it is valid."""
    if not is_object(response):
        return "is not a JSON object"
    if not isinstance(response.get("passed", True), bool):
        return "has neither true nor false as 'passed'"
    if (name := beyond_doubles(response)) is not None:
        return f"has as {name!r} {BEYOND_DOUBLES}"
    validator = validator_for(msgspec.json.encode(schema))
    violations = [
        f"{'.'.join(map(str, one.path)) or 'it'}: {one.message[:200]}"
        for one in validator.errors(response, MAX_ERRORS)
    ]
    if not violations:
        return None
    return f"does not fit response_format ({'; '.join(violations)})"


def repair(answer: str, problem: str) -> tuple[Message, Message]:
    complaint = (
        f"Your answer {problem}. Give the whole answer again, as one JSON object of the form that "
        "was asked for."
    )
    return Message("assistant", answer), Message("user", complaint)
