"""Counts results that have been scored elsewhere."""

import msgspec

from assay.protocol.json_types import JSON, is_object
from assay.results.check_names import result_labels
from assay.results.spending import Spending
from assay.results.tally import Tally


def count_result(tally: Tally, result: JSON) -> None:
    """Add one TestCaseResult to a tally."""
    id, checks, code = result["execution_context"]["test_case"]["id"], result["check_results"], 0
    answers = tally.answers(tuple(result_labels(checks)))
    for at, check in enumerate(checks):
        error = check.get("error")
        message = str(error.get("message", "")) if is_object(error) else ""
        code |= answers.record(at, check["status"], check["results"], id, message)
    answers.close(id, code)
    metadata = result.get("metadata")
    tally.count_case(result["status"], msgspec.convert(metadata if is_object(metadata) else {}, Spending))
