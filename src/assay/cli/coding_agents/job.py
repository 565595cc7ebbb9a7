"""
One job of `assay mcp`: the command, in a process of its own.

    python -P -m assay.cli.coding_agents.job run suite.yaml --agent=shop:answer --json

Standard output is what the command prints. Standard error has its messages and its progress, a line of JSON each. What
agents and checks print is in neither.
"""

import os
import signal
import sys
from typing import Any, NoReturn

from assay.cli.console.console import echo_err, echo_json, send_to

LIST_CHECKS, ON_SERVER = "list-checks", "on-server"  # the jobs that are not verbs


def main() -> NoReturn:
    """Run the command with the arguments of this process."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # it may be ignored by whoever started the server
    send_to(os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace"))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    if sys.argv[1] in (LIST_CHECKS, ON_SERVER):
        sys.exit(_read())
    from assay.cli.main import main as run_command  # deferred import: the other jobs need none of it

    run_command()


def _read() -> int:
    """Print a document that no verb prints."""
    from assay.errors import EnvironmentFailure, Refusal
    from assay.errors.door import enter
    from assay.errors.exit_codes import ERROR, PASSED, USAGE

    enter("command")
    try:
        if sys.argv[1] == LIST_CHECKS:
            echo_json(_list_checks(*sys.argv[2:]))
        else:
            echo_json(_read_from_server(sys.argv[2]))
    except Refusal as refusal:
        for line in refusal.lines:
            echo_err(line)
        return ERROR if isinstance(refusal, EnvironmentFailure) else USAGE
    return PASSED


def _list_checks(name: str = "") -> bytes:
    """Every check, or all of one."""
    import msgspec

    from assay.checks.describe import describe
    from assay.errors import UsageError
    from assay.errors.nearest import did_you_mean
    from assay.host import parts
    from assay.settings import load

    found = [describe(checker) for checker in parts.registry(load(), [])]
    chosen = sorted((one for one in found if name in ("", one.type)), key=lambda one: (one.type, one.version))
    if not chosen:
        types = sorted({one.type for one in found})
        near = did_you_mean(name, types) or f"there are {', '.join(types)}"
        raise UsageError(f"check: expected the type of a check, got {name[:100]!r}; {near}")
    rows: list[Any] = [
        msgspec.to_builtins(one) if name else {"type": one.type, "description": one.description}
        for one in chosen
    ]
    return msgspec.json.encode(rows)


def _read_from_server(name: str) -> bytes:
    """What the arguments on standard input ask of a server."""
    import msgspec

    from assay.cli.coding_agents.server_jobs import JOBS
    from assay.cli.console.client import HostClient

    given = msgspec.json.decode(sys.stdin.buffer.read())
    return JOBS[name](HostClient(given["server"], given["key_file"]), given["arguments"])


if __name__ == "__main__":
    main()
