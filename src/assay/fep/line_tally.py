"""Counts result lines, as the scheduler counted them when they were scored."""

from collections import Counter
from collections.abc import Iterable

from assay.fep.scorer import read_result
from assay.protocol.results import TestCaseResult
from assay.results.check_names import result_label
from assay.results.spending import spending_of_all
from assay.results.tally import Tally


def count_lines(tally: Tally, lines: Iterable[bytes | str]) -> None:
    for line in lines:
        result = read_result(line)
        id = str(result.execution_context.test_case.get("id", ""))
        answers, code = tally.answers(_labels(result)), 0
        for number, check in enumerate(result.check_results):
            message = check.error.message if check.error else ""
            code |= answers.record(number, check.status, check.results, id, message)
        answers.close(id, code)
        tally.count_case(result.status, spending_of_all(result.check_results))
    tally.fold()


def _labels(result: TestCaseResult) -> tuple[str, ...]:
    """The rows of the checks, as `results/check_names.py` numbers them: `contains #2`."""
    names = [
        result_label({"check_type": check.check_type, "metadata": check.metadata or {}})
        for check in result.check_results
    ]
    total, seen = Counter(names), Counter[str]()
    labels: list[str] = []
    for name in names:
        seen[name] += 1
        labels.append(f"{name} #{seen[name]}" if total[name] > 1 else name)
    return tuple(labels)
