"""
Places where a test may let the process die: `ASSAY_FAILPOINT=commit.written:3` kills it the third time it gets there, and
`commit.written:3:STOP` makes it stand still.

    migrate.before     an older database is about to be brought up
    migrate.written    it has been, and the transaction is still open
    migrate.after      and is committed
    commit.before      some batches are taken from the queue; nothing is written
    commit.written     they are written, and the transaction is still open
    commit.after       it is committed, and nobody has been told
    commit.told        everybody has been told
"""

import os
import signal
from collections.abc import Callable, Mapping

VARIABLE = "ASSAY_FAILPOINT"
Reach = Callable[[str], None]


def from_environment(environ: Mapping[str, str] = os.environ) -> Reach:
    """What to call at a failpoint: with the variable unset, nothing that does anything."""
    wanted, count, how = (*environ.get(VARIABLE, "").split(":"), "", "")[:3]
    if not wanted:
        return _pass_by
    left = int(count or 1)
    sent = signal.Signals[f"SIG{how or 'KILL'}"]

    def reach(name: str) -> None:
        nonlocal left
        left -= name == wanted
        if name == wanted and left == 0:
            os.kill(os.getpid(), sent)

    return reach


def _pass_by(name: str) -> None:
    pass
