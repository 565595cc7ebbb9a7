"""tone: a judge says whether an output has the tone that you describe. Agreement with people: not measured."""

from typing import Annotated, Any

from msgspec import Meta

from assay.checks.judges.ready_judge import OUTPUT, ReadyJudge


class Tone(ReadyJudge):
    type = "tone"
    default_paths = {"output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    verdict = "true if the output has the tone"
    question = """You judge whether `output` has the tone that `tone` describes.
- It passes if a reader would describe its tone so, from the first sentence to the last.
- It fails if a part of it has another tone, also if the rest fits.
- Whether the output is true, complete or useful does not matter here.

First weigh in `reason` which words of the output fit the tone and which do not. Then give `passed`."""

    tone: Annotated[str, Meta(min_length=1)]
    output: Any

    def material(self) -> dict[str, Any]:
        return {"tone": self.tone, "output": self.output}
