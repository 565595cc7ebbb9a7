"""
Points at which a test can kill the process: `ASSAY_FAILPOINT=commit.written:3` kills it at the third pass, and
`commit.written:3:STOP` stops it.

    migrate.before       before the tables are created or migrated
    migrate.written      after that, inside the transaction
    migrate.after        after its commit
    commit.before        transactions were taken from the queue; nothing is written
    commit.written       they are written, inside the database transaction
    commit.after         it is committed; no caller has an answer
    commit.acknowledged  all callers have their answers
"""

import os
import signal
from collections.abc import Callable

VARIABLE = "ASSAY_FAILPOINT"
Reach = Callable[[str], None]


def from_environment() -> Reach:
    """The function to call at failpoints. Without the variable it does nothing."""
    target, count, action = (*os.environ.get(VARIABLE, "").split(":"), "", "")[:3]
    if not target:
        return _ignore
    left = int(count or 1)
    sent = signal.Signals[f"SIG{action or 'KILL'}"]

    def reach(name: str) -> None:
        nonlocal left
        left -= name == target
        if name == target and left == 0:
            os.kill(os.getpid(), sent)

    return reach


def _ignore(name: str) -> None:
    pass
