"""What checks that measure texts share: references, the bounds of a score, and long texts in a worker process."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from assay.checks.checker import Answer, Checker, Text, closed_object
from assay.checks.standard.semantic_similarity import SimilarityThreshold
from assay.checks.worker_tasks import WorkerTask, offload
from assay.concurrency.workers.batch import Outcome
from assay.errors import Fault
from assay.extras import require
from assay.ports import Services

EXTRA = "text"
INLINE_CHARACTERS = 10_000  # that are read in place: at most 30 ms, usually less than one
References = Annotated[list[Text], Meta(min_length=1, max_length=100)]
SCORE = {"type": "number", "minimum": 0, "maximum": 1}
PASSED = {"type": "boolean", "description": "where there is a threshold"}


def score_schema(**members: Any) -> dict[str, Any]:
    """The schema of an answer with a score, these members, and `passed` where there is a bound."""
    metadata = {"type": "object", "description": "the library that measured, with its version"}
    return closed_object(
        {"score": SCORE, **members, "passed": PASSED, "metadata": metadata}, optional=("passed", "metadata")
    )


class ReferenceMeasure(Checker):
    """
    A check that measures how near a text is to the nearest of its references.

    `answer` measures, here or in a worker process. `judge` compares the score with the threshold.
    """

    package: ClassVar[str | None] = None  # that measures

    text: Text
    references: References
    threshold: SimilarityThreshold | UnsetType = UNSET

    def run(self, services: Services) -> Answer | WorkerTask:
        if self.is_long():
            return _measure_elsewhere(replace(self, threshold=UNSET), self.judge)
        return self.judge(self.answer(services))

    def is_long(self) -> bool:
        """Whether a worker process measures, which is killed at its limit."""
        return self.characters > INLINE_CHARACTERS

    def answer(self, services: Services) -> Answer:
        """The score, and what else there is to say."""
        raise TypeError(f"{type(self).__name__} has no answer()")

    def judge(self, answer: Answer) -> Answer:
        """The answer with a verdict, if there is a threshold."""
        if self.threshold is UNSET:
            return answer
        return {**answer, "passed": self.threshold.is_met(answer["score"])}

    @property
    def characters(self) -> int:
        return len(self.text) + sum(map(len, self.references))

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        """Refuse a check whose library is not installed; the message has the command that installs it."""
        if cls.package is not None:
            require(f"the check {cls.type}", EXTRA, package=cls.package)


def _measure_elsewhere(checker: ReferenceMeasure, judge: Callable[[Answer], Answer]) -> WorkerTask:
    """A task that measures in a worker process. This process judges."""
    task = offload(checker)

    def answer_of(outcome: Outcome) -> Answer | Fault:
        answer = task.to_answer(outcome)
        return answer if isinstance(answer, Fault) else judge(answer)

    return replace(task, to_answer=answer_of)


@lru_cache(maxsize=16)
def library(package: str) -> dict[str, str]:
    """What an answer says of the library that measured: `{"library": "rapidfuzz 3.14.6"}`."""
    from importlib.metadata import version  # deferred import: 10 ms

    return {"library": f"{package} {version(package)}"}


def words_of(items: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""
