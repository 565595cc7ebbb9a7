"""JSON Schemas of the protocol's types, generated from the types."""

from typing import Any

import msgspec

from assay.protocol import agent_evals, evaluation, results

NOUNS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        evaluation.TestCase,
        evaluation.Output,
        evaluation.Check,
        evaluation.ExperimentMetadata,
        evaluation.EvaluationRequest,
        results.CheckResult,
        results.CheckError,
        results.ExecutionContext,
        results.TestCaseSummary,
        results.TestCaseResult,
        results.EvaluationSummary,
        results.EvaluationRunResult,
        agent_evals.AgentEvalSuite,
        agent_evals.EvalSummary,
    )
}


def schema_of(name: str) -> str:
    """Draft 2020-12, indented."""
    (top,), parts = msgspec.json.schema_components([NOUNS[name]], ref_template="#/$defs/{name}")
    described = parts.pop(name) if top.get("$ref") == f"#/$defs/{name}" else top
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
    if parts:
        document["$defs"] = parts
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
