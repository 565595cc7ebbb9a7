"""Standard output is for what assay says: what an agent, a tool or a check prints while it runs goes to standard error."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def prints_aside() -> Generator[None]:
    """Also what foreign code writes to the descriptor itself, or lets its own processes write."""
    out, err = sys.stdout, sys.stderr
    out.flush()
    kept = os.dup(out.fileno())
    os.dup2(err.fileno(), out.fileno())
    try:
        yield
    finally:
        out.flush()
        os.dup2(kept, out.fileno())
        os.close(kept)
