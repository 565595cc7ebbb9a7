"""The standard checks of every host (FEP 2.3.5, 2.3.6, and our own). Each is imported when its type is first used."""

from assay.checks.judges import READY_JUDGES
from assay.checks.markup import MARKUP_CHECKS
from assay.checks.programs import PROGRAMS
from assay.checks.registry import Registry
from assay.checks.safety import DETECTORS, JUDGES, SIGNALS
from assay.checks.trajectory import TRAJECTORY_CHECKS

_CHECKS = {
    "exact_match": "ExactMatch",
    "contains": "Contains",
    "regex": "Regex",
    "threshold": "Threshold",
    "semantic_similarity": "SemanticSimilarity",
    "llm_judge": "LlmJudge",
    "json_match": "JsonMatch",
    "json_schema": "JsonSchema",
    "exists": "Exists",
    "has_items": "HasItems",
    "number": "Number",
    "choice": "Choice",
    "f1": "F1",
    "edit_distance": "EditDistance",
    "rouge": "Rouge",
    "bleu": "Bleu",
    "ngram_overlap": "NgramOverlap",
}  # each in a module of its name

JUDGE_TYPES = frozenset({"llm_judge", *READY_JUDGES, *JUDGES})  # a model gives their verdicts

STANDARD = Registry(
    deferred={name: f"assay.checks.standard.{name}:{check}" for name, check in _CHECKS.items()}
    | MARKUP_CHECKS
    | PROGRAMS
    | TRAJECTORY_CHECKS
    | READY_JUDGES
    | DETECTORS
    | SIGNALS
    | JUDGES,
)
