"""What the command line of `assay run` asks for, and how it may end."""

from msgspec import Struct

PASSED, BROKEN, NOT_PASSED = 0, 1, 3


class Wanted(Struct, frozen=True, kw_only=True):
    """What the command line says."""

    suite: str | None = None
    agent: str | None = None
    modes: tuple[str, ...] | None = None
    baseline: str | None = None
    trials: int = 1
    model: str | None = None
    judge: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    resume: str | None = None
    tags: tuple[str, ...] = ()
    any_agent: bool = False
    to: tuple[str, ...] = ()
    json: bool = False
    server: str | None = None
    key_file: str | None = None
