"""Builds a function from lines of generated source and the constants they use."""

from datetime import datetime
from functools import lru_cache
from types import CodeType
from typing import Any

import msgspec

from assay.checks.checker import FAILED, FALLBACK, PASSED, AnswerWithMetadata
from assay.checks.worker_tasks import WorkerTask
from assay.errors import Fault
from assay.jsonpath import MISSING

_encode = msgspec.json.Encoder().encode
YES, NO = _encode(PASSED), _encode(FAILED)  # generated functions use these objects, so `is` tells them apart
CACHED_SOURCE = 10_000  # characters
ScoredParts = tuple[
    list[Any], list[bytes], datetime
]  # the values, the encoded answer of each check, and the time


class SourceBuilder:
    """Lines of a function, and the constants they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "Fault": Fault,
            "unusual": (Fault, WorkerTask, AnswerWithMetadata),
            "PASSED": PASSED,
            "FAILED": FAILED,
            "PLAIN": FALLBACK,
            "MISSING": MISSING,
            "YES": YES,
            "NO": NO,
            "encode": _encode,
            "join": b"".join,
        }

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def function(self, parameters: str) -> Any:
        source = "\n".join([f"def score({parameters}):", *self.lines])
        code = _code(source) if len(source) <= CACHED_SOURCE else source
        # made of generated names and literals; values of the request are constants in the scope
        exec(code, self.scope)  # noqa: S102
        return self.scope["score"]


@lru_cache(maxsize=128)
def _code(source: str) -> CodeType:
    """The code of a source. Checks of one shape have one source: their values are constants in the scope."""
    return compile(source, "<scorer>", "exec")
