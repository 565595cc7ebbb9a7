"""`python -m assay`, and the command `assay`: the start and the end of its process."""

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

# A command loads hundreds of thousands of objects and no garbage; the usual threshold would search all of them many
# times.
gc.set_threshold(200_000, 20, 50)


def main() -> NoReturn:
    """
    Run the command. Its process ends without the destruction of every object, which takes longer than most commands.
    """
    codes = list[int]()
    atexit.register(
        _leave, codes
    )  # the first one, so it runs after those of all modules that the command loads
    try:
        from assay.cli.main import main as run_command  # deferred import: the threshold is for it

        run_command()
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise


def _leave(codes: list[int]) -> None:
    """Python has joined all threads before this."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # it is closed, or its reader has gone
            stream.flush()
    if codes:
        os._exit(codes[0])


if __name__ == "__main__":
    main()
