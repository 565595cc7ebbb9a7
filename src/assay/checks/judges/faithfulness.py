"""
faithfulness: a judge holds every claim of an output against a context. Agreement with people: not measured.

It passes if the context supports all claims.
"""

from typing import Any

from assay.checks.checker import closed_object
from assay.checks.judges.ready_judge import OUTPUT, REASON, ReadyJudge, listed


class Faithfulness(ReadyJudge):
    type = "faithfulness"
    default_paths = {"output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    members = {  # noqa: RUF012  # declared a ClassVar in ReadyJudge
        "claims": {
            "type": "array",
            "items": closed_object(
                {"claim": {"type": "string"}, "reason": REASON, "supported": {"type": "boolean"}}
            ),
        }
    }
    verdict = "true if every claim is supported"
    question = """You judge whether `context` supports what `output` claims.
- List in `claims` every statement of fact in the output, each as one short sentence. Greetings, questions and \
statements about the output itself are no claims.
- A claim is `supported` if it follows from the context alone. What you know yourself does not count, also if it is \
true. A claim that the context contradicts, or does not have, is not supported.
- For each claim, first weigh in its `reason` which part of the context speaks for or against it.

Say in the outer `reason` which claims are not supported, or that all are. `passed` is true exactly if all claims are \
supported; an output without claims passes."""

    context: Any
    output: Any

    def material(self) -> dict[str, Any]:
        return {"context": self.context, "output": self.output}

    def contradiction(self, response: Any) -> str | None:
        return listed(response, "claims", "supported")
