"""golden (contract §6.3): tasks with one right answer, equal to it, containing it, or the same as JSON."""

from assay.agenteval.modes.mode import Mode

GOLDEN = Mode(name="golden", covers="golden")
