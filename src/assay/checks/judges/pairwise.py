"""
pairwise: a judge says which of two texts is better, the output or a reference, and is asked in both orders. Agreement
with people: not measured.

Judges prefer a place, often the first. So the output comes first in one question and second in the other. Two different
winners are a tie.
"""

import asyncio
from typing import Any

from assay.checks.judges.ready_judge import EXPECTED, INPUT, OUTPUT, ReadyJudge
from assay.checks.standard.model_usage import ModelUsage
from assay.errors import Fault
from assay.ports import Services

TIE = "tie"
SCORES = {"output": 1.0, TIE: 0.5, "reference": 0.0}


class Pairwise(ReadyJudge):
    type = "pairwise"
    default_paths = {"reference": EXPECTED, "input": INPUT, "output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    members = {"winner": {"type": "string", "enum": ["first", "second", TIE]}}  # noqa: RUF012  # declared a ClassVar in ReadyJudge
    question = """You judge which of two answers to `request` is better, `first` or `second`.
- The better one is more correct, more complete and more useful for the request. Length and style do not matter, \
unless the request asks for them. The order of the two means nothing.
- If neither is better, the winner is "tie".

First weigh in `reason` what speaks for each of the two. Then give the `winner`."""

    reference: Any
    input: Any
    output: Any
    ties_pass: bool = False

    async def answer(
        self, services: Services, usages: list[ModelUsage]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        orders = ("output", "reference"), ("reference", "output")
        answers = await asyncio.gather(
            *(self._ask(services, usages, order) for order in orders), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        replies = [answer for answer in answers if not isinstance(answer, BaseException)]
        winners = [winner for winner, _, _ in replies]
        winner = winners[0] if winners[0] == winners[1] else TIE
        reasons = [
            f"{order[0]} first: {reason}" for order, (_, reason, _) in zip(orders, replies, strict=True)
        ]
        response = {
            "reason": "; ".join(reasons),
            "winner": winner,
            "orders": winners,
            "score": SCORES[winner],
            "passed": winner == "output" or (winner == TIE and self.ties_pass),
        }
        panels = [about["panel"] for _, _, about in replies if "panel" in about]
        return {"response": response}, {"panels": panels} if panels else {}

    async def _ask(
        self, services: Services, usages: list[ModelUsage], order: tuple[str, str]
    ) -> tuple[str, str, dict[str, Any]]:
        """The winner, the reason, and what else is known, with the two texts in this order."""
        texts = {"output": self.output, "reference": self.reference}
        first, second = order
        material = {"request": self.input, "first": texts[first], "second": texts[second]}
        try:
            response, about = await self.asks(material).ask(services, usages)
        except Fault as fault:
            fault.args = (f"with the {first} first: {fault}",)
            raise
        return {"first": first, "second": second, TIE: TIE}[response["winner"]], response["reason"], about
