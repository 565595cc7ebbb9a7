"""`assay evaluate --until decided`: cases in a random order, in rounds, until limits that hold at every look decide."""

from collections.abc import Iterator
from typing import Any

from assay.cli.console.console import echo, echo_err
from assay.cli.evaluate.baseline_results import ScoresSink, read_baseline
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.inputs_outputs import Inputs
from assay.cli.evaluate.until_options import DECIDED
from assay.cli.render.decision import RunDecision
from assay.comparison.metric import PASSED
from assay.comparison.run_scores import ReadOptions
from assay.comparison.stopping import BarRule, DifferenceRule, StoppingRule
from assay.extras import require
from assay.inputs.context import Context
from assay.inputs.shuffled import ShuffledContexts
from assay.results.last_look import LastLook
from assay.results.run_part import RunPart
from assay.results.tally import Tally
from assay.settings import Limits
from assay.stats.sequential import round_size


class UntilDecided(ScoresSink):
    """The rule of a run beside the numbers of its results. The baseline is read before anything runs."""

    name = "--until"

    def __init__(self, options: EvaluateOptions, bar: float | None, tally: Tally) -> None:
        require("a run that stops when it has decided", "compare")
        self._seed, self._tally = options.seed, tally
        self.title = ""
        self._rule: StoppingRule
        if options.baseline is not None:
            baseline = read_baseline(options.baseline, ReadOptions())
            super().__init__("this run", baseline.options)
            self.title, self._bar = baseline.title, None
            self._rule = DifferenceRule(baseline, options.margin)
        else:
            assert bar is not None
            super().__init__("this run", ReadOptions(metric=PASSED))
            self._rule, self._bar = BarRule(bar), bar
        self.last: LastLook | None = None
        self.total = 0

    def rounds(self, inputs: Inputs, limits: Limits) -> Iterator[Iterator[Context]]:
        """The cases of each round, until the rule has decided or every case has run. The caller scores each."""
        with ShuffledContexts(inputs.contexts, limits, self._seed) as cases:
            self.total = inputs.total = cases.cases
            for number, part in enumerate(cases.rounds(round_size(cases.cases)), 1):
                yield part
                self.last = LastLook(
                    look=self._rule.look(self.scores),
                    bar=self._bar,
                    rounds=number,
                    cases=self._tally.distinct_cases,
                    total=self.total,
                )
                if self.last.look.decision is not None:
                    return

    @property
    def note(self) -> str:
        """What the progress line says of the last look."""
        return self.last.text if self.last else ""

    def metadata(self) -> dict[str, Any]:
        """What the stored run says of the last look."""
        return self.last.metadata if self.last else {}

    @property
    def part(self) -> RunPart | None:
        """The part of the cases that ran; None: all of them did."""
        ran = self._tally.distinct_cases
        if not self.total or ran >= self.total:
            return None
        return RunPart(cases=ran, of=self.total, rule=DECIDED)

    @property
    def decision(self) -> RunDecision:
        return RunDecision(
            look=self.last and self.last.look,
            baseline=self.title,
            bar=self._bar,
            seed=self._seed,
            rounds=self.last.rounds if self.last else 0,
            ran=self._tally.distinct_cases,
            total=self.total,
        )

    def show(self, *, to_stderr: bool) -> None:
        """Print the decision; on standard error where standard output has the results."""
        for line in self.decision.lines():
            (echo_err if to_stderr else echo)(line)
