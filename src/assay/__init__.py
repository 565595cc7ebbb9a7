"""assay: is it good enough to ship? The public API; every name is imported when it is first used."""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.version import __version__ as __version__

if TYPE_CHECKING:
    from assay import jsonpath
    from assay.api.compare import Comparison, compare
    from assay.api.evaluate import evaluate, evaluate_stream, evaluate_sync
    from assay.api.evaluation import Progress
    from assay.api.gate import gate
    from assay.api.history import SuiteHistory, history
    from assay.api.judge_check import JudgeCheck, judge_check
    from assay.api.load import load_cases, load_contexts, read_traces
    from assay.api.report import report
    from assay.api.suites import SuiteRun, run_suite
    from assay.api.verify import verify
    from assay.checks import STANDARD
    from assay.checks.checker import Answer, Checker, Nodes, Number, Opaque, Schema, Template, Text
    from assay.checks.registry import Registry
    from assay.checks.safety.detector import Detection, Detector, texts_in
    from assay.comparison.gate_run import GateDecision
    from assay.errors import (
        BadLine,
        EnvironmentFailure,
        Fault,
        ForeignFault,
        InvalidRequest,
        MalformedPath,
        NotMeasured,
        PathFault,
        Refusal,
        TimeFault,
        UsageError,
        ValueFault,
    )
    from assay.fep.outputs.failing_cases import FailingCase
    from assay.fep.outputs.run_result import RunResult
    from assay.ports import Limits, Services
    from assay.ports.agents import AgentContext, AgentRefusal, ToolFailure
    from assay.protocol.agent_evals import AgentEvalSuite, EvalSummary
    from assay.protocol.agents import InvocationResult
    from assay.protocol.evaluation import Check, EvaluationRequest, ExperimentMetadata, Output, TestCase
    from assay.protocol.results import (
        CheckError,
        CheckResult,
        EvaluationRunResult,
        EvaluationSummary,
        TestCaseResult,
        TestCaseSummary,
    )
    from assay.protocol.verification import Verification
    from assay.results.pass_rate import PassRate, Slice

_MODULES = {
    "assay.api.compare": ("Comparison", "compare"),
    "assay.api.evaluate": ("evaluate", "evaluate_stream", "evaluate_sync"),
    "assay.api.evaluation": ("Progress",),
    "assay.api.gate": ("gate",),
    "assay.api.history": ("SuiteHistory", "history"),
    "assay.api.judge_check": ("JudgeCheck", "judge_check"),
    "assay.api.load": ("load_cases", "load_contexts", "read_traces"),
    "assay.api.report": ("report",),
    "assay.api.suites": ("SuiteRun", "run_suite"),
    "assay.api.verify": ("verify",),
    "assay.checks": ("STANDARD",),
    "assay.checks.checker": ("Answer", "Checker", "Nodes", "Number", "Opaque", "Schema", "Template", "Text"),
    "assay.checks.registry": ("Registry",),
    "assay.checks.safety.detector": ("Detection", "Detector", "texts_in"),
    "assay.fep.outputs.failing_cases": ("FailingCase",),
    "assay.fep.outputs.run_result": ("RunResult",),
    "assay.comparison.gate_run": ("GateDecision",),
    "assay.errors": (
        "BadLine", "EnvironmentFailure", "Fault", "ForeignFault", "InvalidRequest", "MalformedPath", "NotMeasured",
        "PathFault", "Refusal", "TimeFault", "UsageError", "ValueFault",
    ),
    "assay.ports": ("Limits", "Services"),
    "assay.ports.agents": ("AgentRefusal", "AgentContext", "ToolFailure"),
    "assay.protocol.agents": ("InvocationResult",),
    "assay.protocol.evaluation": ("Check", "EvaluationRequest", "ExperimentMetadata", "Output", "TestCase"),
    "assay.protocol.results": (
        "CheckError", "CheckResult", "EvaluationRunResult", "EvaluationSummary", "TestCaseResult", "TestCaseSummary",
    ),
    "assay.protocol.agent_evals": ("AgentEvalSuite", "EvalSummary"),
    "assay.protocol.verification": ("Verification",),
    "assay.results.pass_rate": ("PassRate", "Slice"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "STANDARD",
    "AgentContext",
    "AgentEvalSuite",
    "AgentRefusal",
    "Answer",
    "BadLine",
    "Check",
    "CheckError",
    "CheckResult",
    "Checker",
    "Comparison",
    "Detection",
    "Detector",
    "EnvironmentFailure",
    "EvalSummary",
    "EvaluationRequest",
    "EvaluationRunResult",
    "EvaluationSummary",
    "ExperimentMetadata",
    "FailingCase",
    "Fault",
    "ForeignFault",
    "GateDecision",
    "InvalidRequest",
    "InvocationResult",
    "JudgeCheck",
    "Limits",
    "MalformedPath",
    "Nodes",
    "NotMeasured",
    "Number",
    "Opaque",
    "Output",
    "PassRate",
    "PathFault",
    "Progress",
    "Refusal",
    "Registry",
    "RunResult",
    "Schema",
    "Services",
    "Slice",
    "SuiteHistory",
    "SuiteRun",
    "Template",
    "TestCase",
    "TestCaseResult",
    "TestCaseSummary",
    "Text",
    "TimeFault",
    "ToolFailure",
    "UsageError",
    "ValueFault",
    "Verification",
    "compare",
    "evaluate",
    "evaluate_stream",
    "evaluate_sync",
    "gate",
    "history",
    "jsonpath",
    "judge_check",
    "load_cases",
    "load_contexts",
    "read_traces",
    "report",
    "run_suite",
    "texts_in",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "jsonpath":
        return import_module("assay.jsonpath")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    collecting = gc.isenabled()
    gc.disable()  # a module makes many objects and no garbage; searching them would take a sixth of the time
    try:
        return getattr(import_module(_MODULE_OF[name]), name)
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    return __all__
