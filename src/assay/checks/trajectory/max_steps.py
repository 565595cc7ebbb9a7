"""max_steps (an extension to FEP): an agent needed at most this many steps."""

from typing import Annotated, Any

from msgspec import Meta

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.trajectory.read_calls import DEFAULT_PATH, read_trajectory
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.ports import Services


class MaxSteps(Checker):
    type = "max_steps"
    waits = False
    default_paths = {"trajectory": DEFAULT_PATH}  # noqa: RUF012  # declared a ClassVar in Checker
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "reason": {"type": "string"},
            "steps": {"type": "integer", "description": "how many there were"},
        },
    )

    trajectory: list[Any]
    limit: Annotated[int, Meta(ge=0)]

    def run(self, services: Services) -> Answer | WorkerTask:
        return offload(self) if is_large(self.trajectory) else self.answer(services)

    def answer(self, services: Services) -> Answer:
        steps = read_trajectory(self.trajectory).steps
        passed = steps <= self.limit
        wanted = f"at most {self.limit:,} step{'' if self.limit == 1 else 's'}"
        reason = f"{steps:,} is {wanted}" if passed else f"expected {wanted}, got {steps:,}"
        return {"passed": passed, "reason": reason, "steps": steps}
