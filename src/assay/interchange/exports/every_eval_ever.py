"""
Records of Every Eval Ever 0.3: the aggregate of each check (`.json`), and an instance for each verdict (`.jsonl`).

Both have the same `evaluation_id`, which depends on the run alone.
"""

import hashlib
from math import sqrt
from typing import Any

import msgspec

from assay.interchange.exports.exported import UNKNOWN, ExportedCase, ExportedRun, Write, text_of
from assay.protocol.json_types import JSON, is_list

SCHEMA = "0.3.0"
UNTOLD = {"deployment_type": UNKNOWN, "model_availability": UNKNOWN}  # a run does not say it


def evaluation_id(run: ExportedRun) -> str:
    return f"{run.name or run.id}/{run.id}/{run.ended.timestamp():.0f}"


def result_id(run: ExportedRun, label: str) -> str:
    return f"{run.id}#{label}"


class EveryEvalEverInstances:
    """An instance requires a verdict, so a check without one has none. What was not measured has no instance."""

    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._run, self._write = run, write

    def add(self, case: ExportedCase) -> None:
        raw, reference = text_of(case.input), _references(case)
        digest = hashlib.sha256("".join((raw, *reference)).encode()).hexdigest()
        for one in case.measured:
            if one.passed is None:
                continue
            instance: JSON = {
                "schema_version": SCHEMA,
                "evaluation_id": evaluation_id(self._run),
                "model_id": case.system or UNKNOWN,
                "evaluation_name": one.label,
                "evaluation_result_id": result_id(self._run, one.label),
                "sample_id": case.id,
                "sample_hash": digest,
                "interaction_type": "single_turn",
                "input": {"raw": raw, "reference": reference},
                "output": {"raw": [text_of(case.output)]},
                "answer_attribution": [
                    {
                        "turn_idx": 0,
                        "source": "output.raw",
                        "extracted_value": text_of(case.output),
                        "extraction_method": one.type,
                        "is_terminal": True,
                    }
                ],
                "evaluation": {"score": one.score, "is_correct": one.passed},
                "metadata": {"trial": str(case.trial), "reason": one.reason}
                | {f"case.{name}": text_of(value) for name, value in case.metadata.items()},
            }
            if len(case.usage) == 2:
                instance["token_usage"] = {**case.usage, "total_tokens": sum(case.usage.values())}
            self._write(msgspec.json.encode(instance) + b"\n")

    def close(self) -> None: ...


class _Check:
    """The scores of one check: their number, their mean and their spread in one pass."""

    def __init__(self, type: str) -> None:
        self.type, self.count, self.unmeasured = type, 0, 0
        self.mean = self._squares = 0.0
        self.low, self.high = 0.0, 1.0
        self.is_binary = True

    def add(self, score: float) -> None:
        self.count += 1
        before = score - self.mean
        self.mean += before / self.count
        self._squares += before * (score - self.mean)
        self.low, self.high = min(self.low, score), max(self.high, score)
        self.is_binary = self.is_binary and score in (0.0, 1.0)

    @property
    def deviation(self) -> float | None:
        return sqrt(self._squares / (self.count - 1)) if self.count > 1 else None


class EveryEvalEverAggregate:
    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._run, self._write = run, write
        self._checks: dict[str, _Check] = {}
        self._systems: dict[str, None] = {}

    def add(self, case: ExportedCase) -> None:
        self._systems.setdefault(case.system or UNKNOWN)
        for one in case.scores:
            check = self._checks.setdefault(one.label, _Check(one.type))
            if one.is_measured and one.score is not None:
                check.add(one.score)
            else:
                check.unmeasured += 1

    def close(self) -> None:
        run = self._run
        model = next(iter(self._systems)) if len(self._systems) == 1 else UNKNOWN
        lost = {
            f"not measured: {label}": str(one.unmeasured)
            for label, one in self._checks.items()
            if not one.count
        }
        record: JSON = {
            "schema_version": SCHEMA,
            "evaluation_id": evaluation_id(run),
            "evaluation_timestamp": f"{run.started.timestamp():.0f}",
            "retrieved_timestamp": f"{run.ended.timestamp():.0f}",
            "source_metadata": {
                "source_name": "assay",
                "source_type": "evaluation_run",
                "source_organization_name": UNKNOWN,
                "evaluator_relationship": "other",
                "additional_details": {"run_status": run.status, **lost},
            },
            "eval_library": {"name": "openassay", "version": run.version},
            "model_info": {"name": model, "id": model, "additional_details": UNTOLD},
            "evaluation_results": [
                self._result(label, check) for label, check in self._checks.items() if check.count
            ],
        }
        self._write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")

    def _result(self, label: str, check: _Check) -> JSON:
        bounded = check.low >= 0 and check.high <= 1
        metric: JSON = {"metric_name": label, "metric_kind": check.type, "lower_is_better": False}
        if check.is_binary:
            metric["score_type"] = "binary"
        else:
            metric |= {
                "score_type": "continuous",
                "min_score": 0 if bounded else "-Infinity",
                "max_score": 1 if bounded else "Infinity",
            }
        uncertainty: dict[str, Any] = {"num_samples": check.count}
        if check.deviation is not None:
            uncertainty["standard_deviation"] = check.deviation
        return {
            "evaluation_result_id": result_id(self._run, label),
            "evaluation_name": label,
            "source_data": {"dataset_name": self._run.name or self._run.id, "source_type": "other"},
            "metric_config": metric,
            "score_details": {
                "score": check.mean,
                "details": {"not_measured": str(check.unmeasured)},
                "uncertainty": uncertainty,
            },
        }


def _references(case: ExportedCase) -> list[str]:
    if not case.has_expected:
        return []
    return [text_of(one) for one in (case.expected if is_list(case.expected) else [case.expected])]
