"""Values of other libraries as JSON has them: of numpy and pandas, and models of pydantic."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from assay.protocol.json_types import base_of

_PLAIN: Any = (str, int, float, bool, dict, list, type(None))  # the types that JSON has
_MISSING = ("NAType", "NaTType")  # of pandas
_AS_TEXT = ("Interval", "Period")  # of pandas: the classes of `cut`, and months
_converters: dict[Any, Callable[[Any], Any]] = {}  # a kind of value is looked at once


def json_value(value: Any) -> Any:
    """
    For an encoder: a value that is not of JSON itself. What is missing is None. Raises TypeError for what JSON lacks.

    The parts of an array are converted when they are encoded.
    """
    kind: Any = value.__class__
    convert = _converters.get(kind)
    if convert is None:
        convert = _converters[kind] = _converter(kind)
    return convert(value)


def json_of(value: Any) -> Any:
    """A value that code of others returned, as JSON; its text if JSON has no such value."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=json_value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)


def plain_value(value: Any) -> Any:
    """A value as `json_value` has it. Values that an encoder knows, and those that JSON lacks, stay as they are."""
    if type(value) in _PLAIN:
        return value
    try:
        return json_value(value)
    except TypeError:
        return value


def _converter(kind: Any) -> Callable[[Any], Any]:
    if kind.__name__ in _MISSING:
        return _nothing
    if issubclass(kind, datetime) and hasattr(kind, "to_pydatetime"):
        return _moment
    if issubclass(kind, timedelta) and hasattr(kind, "to_pytimedelta"):
        return _span
    if kind.__name__ in _AS_TEXT:
        return str
    if hasattr(kind, "model_dump"):  # of pydantic
        return _members
    return _listed if hasattr(kind, "tolist") and not issubclass(kind, str | int | float) else base_of


def _nothing(_: Any) -> None:
    return None


def _members(value: Any) -> Any:
    return value.model_dump(mode="json")


def _moment(value: Any) -> Any:
    """A moment of pandas as one of Python, which has no nanoseconds: with them, its text."""
    return value.isoformat() if value.nanosecond else value.to_pydatetime()


def _span(value: Any) -> Any:
    return value.isoformat() if value.nanoseconds else value.to_pytimedelta()


def _listed(value: Any) -> Any:
    """A scalar or an array of numpy, and whatever else has its method: a column, a tensor."""
    if getattr(getattr(value, "dtype", None), "kind", "") not in ("m", "M"):
        return value.tolist()
    found = value.tolist()  # moments and spans of nanoseconds would be numbers
    if isinstance(found, int):
        exact = value.astype(f"{value.dtype.kind}8[us]")
        return exact.tolist() if exact == value else str(value)
    return [_listed(one) for one in value] if isinstance(found, list) else found
