"""`assay evaluate --until decided`: cases in a random order, in rounds, until limits that hold at every look decide."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from assay.cli.console.console import count_of, echo, echo_err
from assay.cli.evaluate.baseline_results import read_baseline
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.until_options import DECIDED
from assay.comparison.metric import PASSED as PASSED_METRIC
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.stopping import GOOD, BarRule, DifferenceRule, Look, StoppingRule
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.extras import require
from assay.inputs.shuffled import ShuffledContexts
from assay.results.run_part import RunPart
from assay.stats.number_text import change_text, fixed
from assay.stats.sequential import round_size

if TYPE_CHECKING:
    from assay.cli.evaluate.evaluation import Evaluation

UNDECIDED = "not enough data"


class UntilDecided:
    """The rule of the run, and a sink of its results that keeps their numbers. The baseline is read before anything runs."""

    name = "--until"

    def __init__(self, options: EvaluateOptions, bar: float | None) -> None:
        require("a run that stops when it has decided", "compare")
        self._seed, self._json = options.seed, options.json
        self.title = ""
        self._rule: StoppingRule
        if options.baseline is not None:
            baseline = read_baseline(options.baseline)
            self.title, self._bar = baseline.title, None
            self._rule, self._run = (
                DifferenceRule(baseline, options.margin),
                RunScores("this run", baseline.options),
            )
        else:
            assert bar is not None
            self._rule, self._bar = BarRule(bar), bar
            self._run = RunScores("this run", ReadOptions(metric=PASSED_METRIC))
        self.last: Look | None = None
        self.rounds = self.cases = self.total = 0

    def write(self, line: bytes) -> None:
        self._run.add(line, self._run.name)

    def flush(self) -> None:
        """Nothing is written to a file."""

    def close(self, footer: Any) -> None:
        """The decision is made after the rounds."""

    def score(self, evaluation: "Evaluation") -> None:
        """Evaluate round by round until the rule has decided, or every case has run."""
        with ExitStack() as resources:
            limits = evaluation.settings.limits
            cases = resources.enter_context(ShuffledContexts(evaluation.inputs.contexts, limits, self._seed))
            self.total = evaluation.inputs.total = cases.cases
            for part in cases.rounds(round_size(cases.cases)):
                try:
                    evaluation.score(part)
                finally:
                    self.cases = evaluation.tally.distinct_cases
                self.rounds += 1
                self.last = self._rule.look(self._run)
                evaluation.progress.note = self._progress(self.last)
                if self.last.decision is not None:
                    return

    @property
    def decision(self) -> str:
        return UNDECIDED if self.last is None or self.last.decision is None else self.last.decision

    @property
    def part(self) -> RunPart | None:
        """The part of the cases that ran; None: all of them did."""
        if not self.total or self.cases >= self.total:
            return None
        return RunPart(cases=self.cases, of=self.total, rule=DECIDED)

    @property
    def exit_code(self) -> int:
        if self.last is None or self.last.decision is None:
            return ERROR
        return PASSED if self.last.decision in GOOD else NOT_PASSED

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        look: dict[str, Any] = {} if self.last is None else msgspec.to_builtins(self.last)
        about = {"baseline": self.title} if self._bar is None else {"min_pass_rate": self._bar}
        return {
            **look, **about, "decision": self.decision, "rounds": self.rounds, "seed": self._seed,
            "cases_run": self.cases, "cases_not_run": self.total - self.cases,
        }  # fmt: skip

    def show(self, *, to_stderr: bool) -> None:
        """Print the decision; on standard error where standard output has the results."""
        put = echo_err if to_stderr else echo
        look = self.last
        if look is None or look.estimate is None:
            put(f"{UNDECIDED}: no case was measured")
            return
        about = (
            f"against {self.title}: " if self._bar is None else f"against a bar of {fixed(self._bar, 2)}: "
        )
        put(f"{about}{self.decision}, {self._numbers(look)}")
        not_run = self.total - self.cases
        ran = (
            f"{self.cases:,} of {self.total:,} cases in {count_of(self.rounds, 'round')} (seed {self._seed})"
        )
        put(f"{ran}; {count_of(not_run, 'case')} not run" if not_run else ran)
        if look.unmeasured:
            put(
                f"{count_of(look.unmeasured, 'case')} not measured; a decision that they could turn is not made"
            )
        put("the limits hold at every look; the intervals of the table assume that a run does not stop early")

    def _progress(self, look: Look) -> str:
        return self._numbers(look) if look.estimate is not None else ""

    def _numbers(self, look: Look) -> str:
        """`+0.10 (0.02…0.18)` of a difference, `0.93 (0.85…0.97)` of a rate."""
        assert look.estimate is not None
        number = change_text(look.estimate, 2) if self._bar is None else fixed(look.estimate, 2)
        return f"{look.metric} {number} ({fixed(look.low, 2)}…{fixed(look.high, 2)})"
