"""JSON Schemas of the protocol's types, generated from the types."""

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.protocol import agent_evals, evaluation, results, suite_extension

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
NOUNS[agent_evals.AgentEvalSuite.__name__] = suite_extension.SuiteOfFile  # what a file may have


def schema_of(name: str) -> str:
    """The schema of a type of the protocol."""
    return schema_of_types([NOUNS[name]], title=name)


def schema_of_types(types: Sequence[Any], *, title: str = "") -> str:
    """The schema of a document of one of these types: draft 2020-12, indented. `title` replaces that of the type."""
    tops, parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    described: dict[str, Any] = {"anyOf": list(tops)} if len(types) > 1 else tops[0]
    name = described.get("$ref", "").removeprefix("#/$defs/")
    if name in parts and msgspec.json.encode(parts).count(f'"#/$defs/{name}"'.encode()) == 0:
        described = parts.pop(name)
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
    if title:
        document["title"] = title
    if parts:
        document["$defs"] = parts
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
