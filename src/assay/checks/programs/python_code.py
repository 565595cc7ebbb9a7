"""
python_code (an extension to FEP): a function in Python that comes with the check, in a process of its own with limits.

It runs only on a host whose operator allows it. The limits keep it from using up the machine. They are no sandbox: the
process has the rights of the user that runs assay.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from assay.checks.checker import Answer, Checker
from assay.checks.programs import code_process
from assay.checks.programs.code_process import CPU_SECONDS, OUTPUT_BYTES
from assay.errors import ForeignFault, InvalidRequest, Problem, TimeFault
from assay.ports import Services
from assay.protocol.json_types import base_of, is_object

REFUSED = (
    "expected a host that runs code of requests; the operator allows it with ASSAY_ALLOW_PYTHON_CODE=true"
)
MOST_CHARACTERS = 100_000
HIDDEN = {"hidden": True}
ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # nothing of assay's own


class PythonCode(Checker):
    type = "python_code"
    keeps_time = True
    default_paths = {"test_case": "$.test_case", "output": "$.output"}  # noqa: RUF012  # declared a ClassVar in Checker
    results_schema = {  # noqa: RUF012  # declared a ClassVar in Checker
        "type": "object",
        "properties": {"passed": {"type": "boolean"}, "score": {"type": "number"}},
    }

    code: Annotated[str, Meta(min_length=1, max_length=MOST_CHARACTERS, extra={"literal": True})]
    test_case: Annotated[Any, Meta(extra=HIDDEN)]
    output: Annotated[Any, Meta(extra=HIDDEN)]

    async def run(self, services: Services) -> Answer:
        if not services.allow_python_code:
            raise ForeignFault(REFUSED)
        order = msgspec.json.encode(
            {"code": self.code, "test_case": self.test_case, "output": self.output}, enc_hook=base_of
        )
        return read_reply(*await _converse(order, services.limits.check_seconds))

    @classmethod
    def validate_host(cls, literals: Mapping[str, Any], services: Services) -> None:
        if not services.allow_python_code:
            raise InvalidRequest(Problem("", REFUSED))


def read_reply(reply: bytes, code: int) -> Answer:
    """The answer of a process that ended with this code. Raises a fault if there is none."""
    if not reply:
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            raise TimeFault(f"no answer within {CPU_SECONDS} s of processor time; its process was killed")
        ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise ForeignFault(f"the code ended its process without an answer ({ended})")
    try:
        read: Any = msgspec.json.decode(reply)
    except msgspec.DecodeError:
        read = None
    if is_object(read) and is_object(answer := read.get("answer")):
        return answer
    problem = read.get("problem") if is_object(read) else None
    raise ForeignFault(
        f"the code failed: {problem if isinstance(problem, str) else 'its answer is no JSON object'}"
    )


async def _converse(order: bytes, seconds: float) -> tuple[bytes, int]:
    """What the process wrote, and its exit code. Its whole group is killed at the end, whatever happens."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-X", "utf8", code_process.__file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as wrong:
        raise ForeignFault(f"no process can be started: {wrong.strerror}", recoverable=True) from None
    try:
        async with asyncio.timeout(seconds):
            reply = await _exchange(process, order)
            return reply, await process.wait()
    except TimeoutError:
        raise TimeFault(f"no answer within {seconds:g} s; its process was killed") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _exchange(process: asyncio.subprocess.Process, order: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(order)
        await process.stdin.drain()
    process.stdin.close()
    reply = bytearray()
    while part := await process.stdout.read(1 << 16):
        reply += part
        if len(reply) > OUTPUT_BYTES + 1_000:
            raise ForeignFault(f"the code wrote more than {OUTPUT_BYTES:,} bytes; its process was killed")
    return bytes(reply)
