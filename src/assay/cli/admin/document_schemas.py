"""
The type of the `--json` document of every verb, for `assay schema VERB`.

The names are texts, so that the list costs nothing: a type is loaded when its schema is asked for.
"""

from importlib import import_module
from typing import Any

LIST = "list of "
EVALUATE, RUNS, OTHER = (f"assay.cli.render.{name}_documents:" for name in ("evaluate", "run", "other"))
ADMIN = "assay.cli.admin.admin_documents:"
FAILING = "assay.cli.render.failing_cases:"
VERIFICATION = "assay.protocol.verification:Verification"

DOCUMENTS: dict[str, tuple[str, ...]] = {
    "evaluate": (f"{EVALUATE}Evaluated",),
    "evaluate --traces A --traces B": (f"{EVALUATE}EvaluatedWindows",),
    "merge": (f"{EVALUATE}Evaluated",),
    "run": (f"{RUNS}RunDocument",),
    "verify": (VERIFICATION,),
    "judge sample": (f"{OTHER}SampleDocument",),
    "judge check": (f"{OTHER}JudgeDocument",),
    "try": (f"{FAILING}TriedCase",),
    "list": (f"{LIST}{RUNS}ListedRun",),
    "show": (
        f"{RUNS}EvaluationDocument",
        f"{RUNS}RunDocument",
        f"{RUNS}WorkflowDocument",
        f"{RUNS}TransitionDocument",
        f"{RUNS}ErasedRun",
    ),
    "show --failing": (f"{FAILING}FailingCases",),
    "diff": (f"{RUNS}DiffDocument",),
    "history": (f"{RUNS}HistoryDocument",),
    "compare": ("assay.api.compare:Comparison",),
    "compare --regressed": (f"{FAILING}RegressedCases",),
    "gate": ("assay.comparison.gate_verdict:GateResult",),
    "watch": ("assay.api.watch:Watch",),
    "respond": (VERIFICATION, f"{OTHER}ResponseDocument"),
    "deploy promote": (f"{OTHER}TransitionOutcome",),
    "deploy rollback": (f"{OTHER}TransitionOutcome",),
    "deploy list": (f"{LIST}assay.protocol.deployments:AgentDeployment",),
    "validate": ("assay.cli.evaluate.validate:ValidatedFiles",),
    "conform": ("assay.conform.reports:ConformDocument",),
    "conform --list": (f"{LIST}assay.conform.reports:ListedRule",),
    "suite show": (
        "assay.protocol.agent_evals:AgentEvalSuite",
        "assay.protocol.suite_extension:ExtendedSuite",
    ),
    "skills list": (f"{LIST}{OTHER}SkillDocument",),
    "pack build": (f"{ADMIN}BuiltDocument",),
    "pack verify": (f"{ADMIN}VerifiedPack",),
    "pack install": ("assay.packs.store:PackRecord",),
    "pack list": (f"{LIST}assay.packs.store:PackRecord",),
    "pack show": ("assay.packs.store:PackRecord",),
    "worker": (f"{LIST}{OTHER}WorkerDocument",),
    "admin key create": (f"{ADMIN}KeyDocument",),
    "admin key list": (f"{LIST}{ADMIN}KeyDocument",),
    "admin audit show": ("assay.ports.audit:AuditPayload",),
    "admin audit verify": ("assay.cli.admin.audit:AuditSummary",),
    "admin delete": (f"{LIST}assay.protocol.runs:EraseResponse",),
    "admin delete --all": ("assay.fep.records.erase:DeletionReport",),
    "admin gc": ("assay.runs.retention:RetentionReport",),
    "admin migrate": (f"{ADMIN}MigrationDocument",),
    "admin rekey": (f"{ADMIN}RekeyDocument",),
    "providers list": (f"{LIST}assay.cli.admin.providers:ProviderInfo",),
    "providers check": (f"{LIST}assay.cli.admin.providers:ProviderCheck",),
}


def document_types(verb: str) -> list[Any]:
    """The types of the documents that a verb writes."""
    return [_type(name) for name in DOCUMENTS[verb]]


def _type(name: str) -> Any:
    module, _, member = name.removeprefix(LIST).partition(":")
    found = getattr(import_module(module), member)
    return list[found] if name.startswith(LIST) else found
