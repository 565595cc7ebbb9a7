"""
The first workload through flex-evals, in its own environment: `python with_flex.py CONTEXTS CHECKS RESULTS`.

Prints one JSON line: CPU seconds from file to file, those of its `evaluate` alone, and how many checks passed.
"""

import json
import resource
import sys
from pathlib import Path

from flex_evals import Check, Output, TestCase, evaluate_sync


def cpu() -> float:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def main(contexts: str, checks: str, results: str) -> None:
    began = cpu()
    with Path(contexts).open("rb") as file:
        pairs = [json.loads(line) for line in file]
    cases = [TestCase(**pair["test_case"]) for pair in pairs]
    outputs = [Output(**pair["output"]) for pair in pairs]
    wanted = [Check(**check) for check in json.loads(Path(checks).read_text("utf-8"))]
    asked = cpu()
    run = evaluate_sync(cases, outputs, wanted)
    answered = cpu()
    Path(results).write_text(json.dumps(run.serialize()), "utf-8")
    spent = cpu() - began
    passed = sum(check.results["passed"] for case in run.results for check in case.check_results)
    print(json.dumps({"cpu": spent, "inner": answered - asked, "passed": passed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
