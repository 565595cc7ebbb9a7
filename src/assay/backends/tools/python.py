"""A tool that is a Python function: `module:function`, async or not, called with keyword arguments."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from assay.concurrency.foreign_code import exception_text
from assay.concurrency.threads import run_foreign
from assay.import_code import is_async, load
from assay.ports.agents import ToolFailure
from assay.ports.config import ToolConfig
from assay.protocol.agents import ToolSpec
from assay.protocol.json_types import is_finite


class PythonTool:
    def __init__(self, id: str, config: ToolConfig) -> None:
        self._config = config
        self._function = load(config.target, f"settings: tools.{id!r}.target")
        self.static_spec = ToolSpec(
            id=id,
            description=config.description or (inspect.getdoc(self._function) or "").partition("\n\n")[0],
            input_schema=_schema(self._function) if config.input_schema is None else config.input_schema,
        )

    async def spec(self) -> ToolSpec:
        return self.static_spec

    async def call(self, arguments: dict[str, Any]) -> Any:
        try:
            inspect.signature(self._function).bind(**arguments)
        except (TypeError, ValueError) as wrong:
            raise ToolFailure("invalid_arguments", str(wrong)) from None
        try:
            async with asyncio.timeout(self._config.timeout):
                return _to_json(await self._answer(arguments))
        except TimeoutError:
            raise ToolFailure("timeout", f"no answer within {self._config.timeout:g} s") from None
        except (ToolFailure, asyncio.CancelledError):
            raise
        except (Exception, SystemExit) as surprise:  # noqa: BLE001  # a tool is foreign code
            raise ToolFailure("tool_error", exception_text(surprise)) from None

    async def _answer(self, arguments: dict[str, Any]) -> Any:
        if is_async(self._function):
            return await self._function(**arguments)
        answer = await run_foreign(lambda: self._function(**arguments))
        return await answer if inspect.isawaitable(answer) else answer


def _to_json(answer: Any) -> Any:
    try:
        if is_finite(answer):
            return msgspec.json.decode(msgspec.json.encode(answer))
    except (TypeError, ValueError, RecursionError):
        pass
    raise ToolFailure("tool_error", f"its answer, a {type(answer).__name__}, is not a JSON value")


def _schema(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of its parameters, as far as their annotations allow."""
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return {}
    properties = {one.name: _schema_of(hints.get(one.name)) for one in parameters if one.kind not in MANY}
    return {
        "type": "object",
        "properties": properties,
        "required": [one.name for one in parameters if one.default is one.empty and one.kind not in MANY],
    }


MANY = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _schema_of(hint: Any) -> dict[str, Any]:
    try:
        return {} if hint is None else msgspec.json.schema(hint)
    except TypeError:
        return {}
