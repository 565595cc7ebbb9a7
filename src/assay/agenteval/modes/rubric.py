"""rubric (contract §6.3): tasks whose answers a judge holds against weighted criteria. Without a judge there is none."""

from assay.agenteval.modes.mode import Mode

RUBRIC = Mode(name="rubric", covers="rubric", judge=True)
