"""
instruction_following: a judge lists the instructions of a request, and says which of them an output follows. Agreement
with people: not measured.

It passes if the output follows all of them.
"""

from typing import Any

from assay.checks.checker import closed_object
from assay.checks.judges.ready_judge import INPUT, OUTPUT, REASON, ReadyJudge, listed


class InstructionFollowing(ReadyJudge):
    type = "instruction_following"
    default_paths = {"instructions": INPUT, "output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    members = {  # noqa: RUF012  # declared a ClassVar in ReadyJudge
        "listed": {
            "type": "array",
            "items": closed_object(
                {"instruction": {"type": "string"}, "reason": REASON, "followed": {"type": "boolean"}}
            ),
        }
    }
    verdict = "true if every instruction is followed"
    question = """You judge whether `output` follows `instructions`.
- List in `listed` every single instruction: what to do, what not to do, the form, the length, the language. Take \
them from `instructions` alone.
- An instruction is `followed` if the output does what it says, exactly: "in three sentences" means three. An \
instruction whose condition does not hold is followed.
- For each, first weigh in its `reason` which part of the output follows or breaks it.

Say in the outer `reason` which instructions are not followed, or that all are. `passed` is true exactly if all are \
followed; without an instruction it passes."""

    instructions: Any
    output: Any

    def material(self) -> dict[str, Any]:
        return {"instructions": self.instructions, "output": self.output}

    def contradiction(self, response: Any) -> str | None:
        return listed(response, "listed", "followed")
