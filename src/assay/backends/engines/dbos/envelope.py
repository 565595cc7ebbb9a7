"""The form of units and their outcomes in the tables of DBOS: text, compressed, and encrypted where the store is."""

from base64 import b64decode, b64encode
from typing import Any

import msgspec
from msgspec import Struct

from assay.backends.stores.records.codec import EncodedBlob, RecordCodec
from assay.errors import BudgetExceeded, Conflict, EnvironmentFailure, Refusal, RunTimeout

_LIMITS = (BudgetExceeded, RunTimeout)  # limits of the run, which every worker would meet


class UnitRefused(Refusal):
    """A unit that ended with a refusal on a worker."""

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(message)


class UnitOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    How an execution of a unit ended, and the executor that wrote it: the fencing token (ADR-0073).

    Exactly one of the other members is set. `unavailable`: this worker could not do it, and another may.
    """

    executor: str
    result: bytes | None = None
    refusal: tuple[str, str] | None = None  # message and code
    unavailable: str | None = None
    bug: str | None = None  # the name of an exception

    def unwrap(self) -> bytes:
        """The result, or the exception of the execution."""
        if self.result is not None:
            return self.result
        if self.refusal is not None:
            raise UnitRefused(*self.refusal)
        if self.unavailable is not None:
            raise EnvironmentFailure(self.unavailable)
        raise type(self.bug or "UnknownError", (RuntimeError,), {})("it was raised on another worker")


def outcome_of(error: Exception, executor: str) -> UnitOutcome:
    """The outcome of an execution that raised. The message of a bug may hold content, so only its type crosses."""
    if isinstance(error, Conflict) or (
        isinstance(error, EnvironmentFailure) and not isinstance(error, _LIMITS)
    ):
        return UnitOutcome(executor=executor, unavailable=str(error))
    if isinstance(error, Refusal):
        return UnitOutcome(executor=executor, refusal=(str(error), error.code))
    return UnitOutcome(executor=executor, bug=type(error).__name__)


_decode_blob = msgspec.msgpack.Decoder(tuple[int, str, bytes]).decode
_decode_unit = msgspec.msgpack.Decoder(tuple[bytes, str]).decode
_decode_outcome = msgspec.msgpack.Decoder(UnitOutcome).decode
_pack = msgspec.msgpack.Encoder().encode


class Envelope:
    """Seals units and outcomes for one unit id. Text that was sealed for one id cannot be opened for another."""

    def __init__(self, codec: RecordCodec) -> None:
        self._codec = codec

    def seal_unit(self, unit: bytes, id: str, traceparent: str = "") -> str:
        return self._seal(_pack((unit, traceparent)), "unit", id)

    def open_unit(self, text: str, id: str) -> tuple[bytes, str]:
        """The unit, and the traceparent of the span in which it was queued."""
        return _decode_unit(self._open(text, "unit", id))

    def seal_outcome(self, outcome: UnitOutcome, id: str) -> str:
        return self._seal(_pack(outcome), "outcome", id)

    def open_outcome(self, text: Any, id: str) -> UnitOutcome:
        return _decode_outcome(self._open(str(text), "outcome", id))

    def _seal(self, data: bytes, *place: str) -> str:
        return b64encode(_pack(tuple(self._codec.seal(data, *place)))).decode()

    def _open(self, text: str, *place: str) -> bytes:
        return self._codec.open(EncodedBlob(*_decode_blob(b64decode(text))), *place)
