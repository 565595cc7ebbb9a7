"""The standard checks of every host (FEP 2.3.5, 2.3.6, and our own)."""

from assay.checks.contains import Contains
from assay.checks.exact_match import ExactMatch
from assay.checks.exists import Exists
from assay.checks.has_items import HasItems
from assay.checks.json_match import JsonMatch
from assay.checks.json_schema import JsonSchema
from assay.checks.llm_judge import LlmJudge
from assay.checks.regex import Regex
from assay.checks.registry import Registry
from assay.checks.safety import DETECTORS, JUDGES, SIGNALS
from assay.checks.semantic_similarity import SemanticSimilarity
from assay.checks.threshold import Threshold

STANDARD = Registry(
    [
        ExactMatch,
        Contains,
        Regex,
        Threshold,
        SemanticSimilarity,
        LlmJudge,
        JsonMatch,
        JsonSchema,
        Exists,
        HasItems,
    ],
    deferred=DETECTORS | SIGNALS | JUDGES,
)
