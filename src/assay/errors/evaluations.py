"""The refusal of a result that will never be complete."""

from assay.errors import Refusal


class EvaluationFailed(Refusal):
    """An evaluation that a caller waited for has failed (FEP-54). What was measured before is stored."""

    code = "internal_error"

    def __init__(self, evaluation: str, message: str, code: str) -> None:
        self._details = {"evaluation_id": evaluation, "reason": code}
        super().__init__(
            f"evaluation {evaluation} failed: {message}; what was measured before is its stored result"
        )
