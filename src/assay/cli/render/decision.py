"""The decision of a run with `--until decided`, in words, as a document and as an exit code."""

from collections.abc import Iterator

from msgspec import Struct

from assay.cli.console.console import count_of
from assay.cli.render.evaluate_documents import UntilDocument
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.stats.number_text import percent
from assay.stats.stopping import GOOD, UNDECIDED, Look


class RunDecision(Struct, frozen=True, kw_only=True):
    """The last look of a run; None: nothing was looked at. Without a bar, the difference to `baseline` is decided."""

    look: Look | None
    baseline: str = ""
    bar: float | None = None
    seed: int = 0
    rounds: int = 0
    ran: int
    total: int
    noun: str = "case"

    @property
    def word(self) -> str:
        return UNDECIDED if self.look is None or self.look.decision is None else self.look.decision

    @property
    def exit_code(self) -> int:
        if self.look is None or self.look.decision is None:
            return ERROR
        return PASSED if self.look.decision in GOOD else NOT_PASSED

    def document(self) -> UntilDocument:
        """For `--json`."""
        look = self.look
        return UntilDocument(
            decision=UNDECIDED if look is None or look.decision is None else look.decision,
            metric=look and look.metric,
            estimate=look and look.estimate,
            low=look and look.low,
            high=look and look.high,
            measured=look.cases if look else 0,
            unmeasured=look.unmeasured if look else 0,
            baseline=self.baseline or None,
            min_pass_rate=self.bar,
            rounds=self.rounds,
            seed=self.seed,
            run=self.ran,
            not_run=self.total - self.ran,
        )

    def lines(self) -> Iterator[str]:
        look, not_run = self.look, self.total - self.ran
        if look is None or look.estimate is None:
            yield f"{UNDECIDED}: no {self.noun} was measured"
            return
        about = self.baseline if self.bar is None else f"a bar of {percent(self.bar)}"
        yield f"against {about}: {self.word}, {look.text(is_rate=self.bar is not None)}"
        rounds = count_of(self.rounds, "round")
        ran = f"{self.ran:,} of {self.total:,} {self.noun}s in {rounds} (seed {self.seed})"
        yield f"{ran}; {count_of(not_run, self.noun)} not run" if not_run else ran
        if look.unmeasured:
            missing = count_of(look.unmeasured, self.noun)
            yield f"{missing} not measured; a decision that they could turn is not made"
        yield "the limits hold at every look; the intervals of the table assume that a run does not stop early"
