"""no_repeated_calls (an extension to FEP): an agent made no call again with equal arguments."""

from collections import Counter
from typing import Annotated, Any

from msgspec import Meta, field

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.standard.has_items import item_key
from assay.checks.trajectory.read_calls import DEFAULT_PATH, Call, read_trajectory
from assay.checks.trajectory.wording import call_text
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.ports import Services

LISTED = 20  # repeated calls that an answer has
NAMED = 3  # and its reason


class NoRepeatedCalls(Checker):
    type = "no_repeated_calls"
    waits = False
    default_paths = {"trajectory": DEFAULT_PATH}  # noqa: RUF012  # declared a ClassVar in Checker
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "reason": {"type": "string"},
            "repeated": {"type": "array", "description": "each call that was made too often, with `times`"},
        },
        optional=("repeated",),
    )

    trajectory: list[Any]
    limit: Annotated[int, Meta(ge=1)] = 1
    ignore_tools: list[str] = field(default_factory=list[str])

    def run(self, services: Services) -> Answer | WorkerTask:
        return offload(self) if is_large(self.trajectory) else self.answer(services)

    def answer(self, services: Services) -> Answer:
        ignored = frozenset(self.ignore_tools)
        times = Counter[tuple[str, str]]()
        calls: dict[tuple[str, str], Call] = {}
        for call in read_trajectory(self.trajectory).calls:
            if call.tool not in ignored:
                call.require_arguments()
                key = call.tool, item_key(call.arguments)
                times[key] += 1
                calls.setdefault(key, call)
        repeated = [
            {**calls[key].document, "times": count} for key, count in times.items() if count > self.limit
        ]
        if not repeated:
            most = "twice" if self.limit == 1 else f"more than {self.limit:,} times"
            return {"passed": True, "reason": f"made no call {most}"}
        named = ", ".join(f"{call_text(one)} {one['times']:,} times" for one in repeated[:NAMED])
        more = f" and {len(repeated) - NAMED:,} more" if len(repeated) > NAMED else ""
        once = "once" if self.limit == 1 else f"at most {self.limit:,} times"
        reason = f"expected each call {once}, got {named}{more}"
        return {"passed": False, "reason": reason, "repeated": repeated[:LISTED]}
