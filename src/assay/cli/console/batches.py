"""The options --batch and --batch-hours of the verbs that ask judges."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.cli.console.console import echo_err
from assay.errors import UsageError
from assay.ports import Run, Store
from assay.ports.batches import BatchBudget, BatchOptions
from assay.settings import Settings

FOLDER = "batches"  # in ASSAY_HOME
WINDOW = 10_000  # cases that may wait in batches at once


def batch_options(
    settings: Settings, *, batch: bool, hours: float | None, max_cost: float | None
) -> BatchOptions | None:
    """The options of batches; None: every call is a single call."""
    if not batch:
        if hours is not None:
            raise UsageError("--batch-hours: expected --batch with it")
        return None
    from assay.backends.models.batches.journal import Journals  # deferred import: few runs use batches

    return BatchOptions(
        journals=Journals(Path(settings.home) / FOLDER),
        budget=BatchBudget(max_cost),
        single_after=None if hours is None else hours * 3600,
        notify=echo_err,
    )


def bind_batches(batch: BatchOptions | None, store: Store, run: Run) -> None:
    """Keep the batches of a run in its store, so that whoever continues the run finds them."""
    if batch is not None:
        batch.journals.bind(store, run)


@contextmanager
def first_signal_cancels() -> Generator[None]:
    """
    The first Ctrl-C, or SIGTERM, cancels this task alone: a batch that is being submitted is then known, and cancelled.

    The next one ends the command as it would have done before.
    """
    import asyncio  # deferred import, as in `evaluation`

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if callable(handler)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def cancel(*_: Any) -> None:
        restore()
        loop.call_soon_threadsafe(task.cancel)

    for number in before:
        signal.signal(number, cancel)
    try:
        yield
    finally:
        restore()
