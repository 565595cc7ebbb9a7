"""Ids of runs."""

import os
import random
import time
from typing import Literal

# The generator is seeded by the system once, and again in a forked child. os.urandom for every id would release the GIL
# and cost more
# than the rest of a small request.
_random = random.Random()  # noqa: S311  # an id is not a secret
os.register_at_fork(after_in_child=_random.seed)


def new_id(prefix: Literal["eval_", "run-"]) -> str:
    """
    A new run's id: `eval_` for an evaluation, `run-` for an agent eval or a workflow.

    Ids sort by the time they were made, so that rows written together lie together in a database.
    """
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{_random.getrandbits(64):016x}"
