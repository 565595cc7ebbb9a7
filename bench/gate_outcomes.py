"""How often `assay gate` passes, fails or is undecided about a system that did not change: the table of docs/compare.md, by simulation."""

from typing import Any

from assay.comparison.compare import compare_runs
from assay.comparison.gate_run import newly_failing
from assay.comparison.gate_verdict import GateFacts, GateOutcome, decide
from assay.comparison.metric import PASSED
from assay.comparison.policy import PRESETS, GatePolicy, PresetName
from assay.comparison.run_level import LevelReader
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.stats.distributions import numpy

SIZES, TRIALS, ROUNDS, SEED = (15, 50, 200, 1_000), (1, 3), 1_000, 34
OUTCOMES: tuple[GateOutcome, ...] = ("passed", "undecided", "failed")
UNSTEADY, STEADY_RATE = 0.2, 0.98  # the share of unsteady cases, and the rate at which the others pass

Shares = dict[tuple[PresetName, int, int], dict[GateOutcome, float]]


def simulate(rounds: int, sizes: tuple[int, ...] = SIZES) -> Shares:
    """The share of each outcome, by preset, cases and trials. Equal rounds have equal shares."""
    shares: Shares = {}
    for size in sizes:
        for trials in TRIALS:
            counts: dict[PresetName, dict[GateOutcome, int]] = {
                preset: dict.fromkeys(OUTCOMES, 0) for preset in PRESETS
            }
            rng = numpy().random.default_rng([SEED, size, trials])
            for _ in range(rounds):
                for preset, outcome in _outcomes(rng, size, trials):
                    counts[preset][outcome] += 1
            for preset, found in counts.items():
                shares[preset, size, trials] = {one: found[one] / rounds for one in OUTCOMES}
    return shares


def _outcomes(rng: Any, size: int, trials: int) -> list[tuple[PresetName, GateOutcome]]:
    """The outcomes of one comparison of two runs of one system."""
    np = numpy()
    rates = np.where(rng.random(size) < UNSTEADY, rng.random(size), STEADY_RATE)
    baseline, run = (_run(name, rng.binomial(trials, rates).tolist(), trials) for name in ("before", "after"))
    comparison = compare_runs([baseline, run], limit=0).comparisons[0]
    level, newly = LevelReader(run, PASSED).level(), newly_failing(baseline, run)
    facts = (
        GateFacts(
            run=run,
            level=level,
            policy=GatePolicy(preset=preset),
            comparison=comparison,
            newly_failing=newly,
        )
        for preset in PRESETS
    )
    return [(one.policy.preset, decide(one)[0]) for one in facts]


def _run(name: str, passes: list[int], trials: int) -> RunScores:
    run = RunScores(name, ReadOptions(metric=PASSED))
    for case, passed in enumerate(passes):
        for trial in range(trials):
            run.add_score(f"c{case}", None, trial < passed)
    return run


def table(shares: Shares) -> list[str]:
    lines = ["| preset | cases | trials | passed | undecided | failed |", "|---|---|---|---|---|---|"]
    for (preset, size, trials), found in sorted(shares.items(), key=lambda item: _order(item[0])):
        numbers = " | ".join(f"{found[one]:.3f}" for one in OUTCOMES)
        lines.append(f"| `{preset}` | {size:,} | {trials} | {numbers} |")
    return lines


def _order(key: tuple[PresetName, int, int]) -> tuple[int, int, int]:
    return list(PRESETS).index(key[0]), key[1], key[2]


if __name__ == "__main__":
    print("\n".join(table(simulate(ROUNDS))))
