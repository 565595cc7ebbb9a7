"""
The program of the process that runs the code of one `python_code` check, once. It imports the standard library only.

It limits itself before the code begins, and cannot undo it: the kernel keeps the limits. The answer is one JSON object
on its output; what the code prints is discarded.
"""

import inspect
import json
import os
import resource
import sys
from typing import Any

FUNCTION = "check"
PARAMETERS = ("output", "input", "expected", "test_case", "metadata")
CPU_SECONDS = 10
MEMORY_BYTES = 1 << 30  # of the address space
OUTPUT_BYTES = 1 << 20  # of the answer
FILES = 64  # that are open at once
MESSAGE = 500  # characters


def main() -> None:
    """Read the order, run its code, write the answer or what went wrong."""
    order = json.loads(sys.stdin.buffer.read())
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1, 2):
        os.dup2(nowhere, one)
    limit()
    try:
        reply = {"answer": _plain(_run(order["code"], order["test_case"], order["output"]))}
        text = json.dumps(reply, allow_nan=False).encode()
        if len(text) > OUTPUT_BYTES:
            raise ValueError(f"the answer has {len(text):,} bytes; the limit is {OUTPUT_BYTES:,}")
    except MemoryError:
        text = json.dumps({"problem": "it needs more memory than it may use"}).encode()
    except BaseException as surprise:  # noqa: BLE001  # whatever the code raises is the answer
        text = json.dumps({"problem": _error_text(surprise)[:MESSAGE]}).encode()
    while text:
        text = text[os.write(answers, text) :]
    os._exit(0)  # threads and handlers that the code left behind do not delay the answer


def limit() -> None:
    """Limit this process: time, memory, files, other processes."""
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (lower, lower))


def _run(code: str, test_case: Any, output: Any) -> Any:
    scope: dict[str, Any] = {"__name__": "python_code"}
    exec(compile(code, "python_code", "exec"), scope)  # noqa: S102  # its purpose; the process is limited
    function = scope.get(FUNCTION)
    if not callable(function):
        raise ValueError(f"expected code that defines {FUNCTION}, such as def {FUNCTION}(output): ...")
    values = {
        "output": output.get("value"),
        "input": test_case.get("input"),
        "expected": test_case.get("expected"),
        "test_case": test_case,
        "metadata": output.get("metadata"),
    }
    wanted = list(inspect.signature(function).parameters)
    unknown = [name for name in wanted if name not in values]
    if unknown:
        raise ValueError(f"{FUNCTION} takes {unknown[0]}; there are {', '.join(PARAMETERS)}")
    return function(**{name: values[name] for name in wanted})


def _plain(value: Any) -> Any:
    """`passed` for true or false, `score` for a number, an object as it is: as a function check answers."""
    if type(value).__name__ in ("bool", "bool_"):
        return {"passed": bool(value)}
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType]
    if hasattr(value, "__float__"):
        return {"score": float(value)}
    got = "nothing" if value is None else type(value).__name__
    raise ValueError(f"{FUNCTION} returned {got}; expected true or false, a number, or an object")


def _error_text(error: BaseException) -> str:
    """The kind and text of an exception, with the line of the code that it came from."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "python_code":
            line = trace.tb_lineno
        trace = trace.tb_next
    where = "" if line is None else f" in line {line}"
    return f"{type(error).__name__}{where}: {error}"


if __name__ == "__main__":
    main()
