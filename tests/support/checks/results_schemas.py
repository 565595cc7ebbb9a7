"""A check's answer is what its `results_schema` says."""

import jsonschema_rs

from assay.checks import STANDARD
from assay.protocol.results import CheckResult


def fits(result: CheckResult, checker=None) -> CheckResult:
    """The result; an answer that breaks the schema of its check fails the test."""
    if result.status == "completed":
        schema = (checker or STANDARD.find(result.check_type, None)).results_schema
        jsonschema_rs.validator_for(schema).validate(result.results)
    return result
