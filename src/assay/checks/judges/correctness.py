"""correctness: a judge says whether an output says the same as a reference. Agreement with people: not measured."""

from typing import Any

from assay.checks.judges.ready_judge import EXPECTED, INPUT, OUTPUT, ReadyJudge


class Correctness(ReadyJudge):
    type = "correctness"
    default_paths = {"reference": EXPECTED, "input": INPUT, "output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    verdict = "true if the output is correct by the reference"
    question = """You judge whether `output` is a correct answer to `request`. `reference` is a correct answer.
- It passes if it says what the reference says, in whatever words, order or form. Numbers, names, dates and \
negations must be the same; another unit or rounding passes if the value is the same.
- It fails if it contradicts the reference, leaves out a part of it that the request asks for, or says nothing definite.
- More than the reference has does not matter, unless it contradicts the reference.

First weigh in `reason` what is the same and what differs. Then give `passed`."""

    reference: Any
    input: Any
    output: Any

    def material(self) -> dict[str, Any]:
        return {"request": self.input, "reference": self.reference, "output": self.output}
