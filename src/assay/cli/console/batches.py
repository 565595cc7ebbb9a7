"""The options --batch and --batch-hours of the verbs that ask judges."""

from pathlib import Path

from assay.backends.models.batches.journal import Journals
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
