"""What the command line of `assay run` asks for, and how it may end."""

from collections.abc import Sequence

from msgspec import Struct

from assay.errors import UsageError

PASSED, BROKEN, NOT_PASSED = 0, 1, 3


class RunOptions(Struct, frozen=True, kw_only=True):
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


def compares(modes: Sequence[str]) -> None:
    """A baseline is for one of them."""
    if "regression" not in modes:
        raise UsageError(
            f"--baseline is for the mode regression, and this run has {', '.join(modes)}: give --mode regression too,"
            " and have it among the modes of the suite"
        )
