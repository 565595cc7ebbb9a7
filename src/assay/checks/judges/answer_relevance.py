"""answer_relevance: a judge says whether an output answers what was asked. Agreement with people: not measured."""

from typing import Any

from assay.checks.judges.ready_judge import INPUT, OUTPUT, ReadyJudge


class AnswerRelevance(ReadyJudge):
    type = "answer_relevance"
    default_paths = {"input": INPUT, "output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    verdict = "true if the output answers what the request asks"
    question = """You judge whether `output` answers `request`.
- It passes if it addresses what the request asks, in whole, and stays with it. A short answer can be relevant.
- It fails if it answers another question, leaves out a part that the request asks for, only repeats the request, \
or has mostly text that the request did not ask for.
- Whether the output is true, polite or well written does not matter here. An output that says that it cannot \
answer, and why, passes only if the request cannot be answered from what it has.

First weigh in `reason` which parts the request has and which of them the output addresses. Then give `passed`."""

    input: Any
    output: Any

    def material(self) -> dict[str, Any]:
        return {"request": self.input, "output": self.output}
