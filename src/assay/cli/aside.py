"""Standard output is for what assay says: what an agent, a tool or a check prints while it runs goes to standard error."""

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def prints_aside() -> Generator[None]:
    """Also what foreign code writes to the descriptor itself, or lets its own processes write."""
    out, err = sys.stdout, sys.stderr
    try:
        ours, theirs = out.fileno(), err.fileno()
    except io.UnsupportedOperation:  # somebody's own stream, which no descriptor leads to
        with redirect_stdout(err):
            yield
        return
    out.flush()
    kept = os.dup(ours)
    os.dup2(theirs, ours)
    try:
        yield
    finally:
        out.flush()
        os.dup2(kept, ours)
        os.close(kept)
