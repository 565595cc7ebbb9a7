"""
Runs the vectors of FEP with the library flex-evals, and prints a page with what comes otherwise.

It needs flex-evals and nothing of assay: `python flex_evals_page.py ../fep > page.md`.
"""

import dataclasses
import enum
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flex_evals import (  # pyright: ignore[reportMissingImports]
    Check,
    FlexEvalsError,
    Output,
    TestCase,
    evaluate_sync,
)

OPTIONAL = {"resolved_arguments", "experiment"}  # a result may leave them out


def run(request: dict[str, Any]) -> Any:
    """The result as JSON has it, or the exception that refuses the request."""
    try:
        checks = [
            [Check(**check) for check in one] if isinstance(one, list) else Check(**one)
            for one in request["checks"]
        ]
        cases = [TestCase(**one) for one in request["test_cases"]]
        outputs = [Output(**one) for one in request["outputs"]]
        result = evaluate_sync(cases, outputs, checks)
    except (FlexEvalsError, KeyError, TypeError, ValueError) as refusal:  # KeyError: a member is missing
        return refusal
    return json.loads(json.dumps(dataclasses.asdict(result), default=plain))


def plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else str(value)


def unlike(place: str, expected: Any, found: Any) -> str:
    """The first difference: an object has at least the expected members, a list exactly the expected elements."""
    if isinstance(expected, dict) and expected and isinstance(found, dict):
        named = [name for name in expected if name in found or name not in OPTIONAL]
        return next(
            (one for name in named if (one := unlike(f"{place}.{name}", expected[name], found.get(name)))), ""
        )
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return next(
            (one for at, (left, right) in pairs if (one := unlike(f"{place}[{at}]", left, right))), ""
        )
    same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
    return (
        ""
        if same
        else f"{place.lstrip('.')}: expected {json.dumps(expected)[:90]}, got {json.dumps(found)[:90]}"
    )


def difference(vector: dict[str, Any]) -> str:
    found = run(vector["request"])
    if "outcome" in vector:
        errors = (
            []
            if isinstance(found, Exception)
            else [one for case in found["results"] for one in case["check_results"]]
        )
        rejected = errors and all(
            (one.get("error") or {}).get("type") == "validation_error" for one in errors
        )
        taken = isinstance(found, Exception) or (vector["outcome"] == "rejected" and rejected)
        return "" if taken else "expected a refusal, got a result"
    if isinstance(found, Exception):
        return f"expected a result, got {type(found).__name__}: {found}"
    return unlike("", vector["expected"], found)


def main() -> None:
    files = [json.loads(path.read_text("utf-8")) for path in sorted(Path(sys.argv[1]).glob("*.json"))]
    vectors = [(f"{file['topic']}.{one['name']}", one) for file in files for one in file["vectors"]]
    found = [(name, one["reference"], difference(one)) for name, one in vectors if not one.get("decision")]
    wrong = [row for row in found if row[2]]
    lines = [f"# flex-evals {version('flex-evals')} and FEP", ""]
    lines += [f"{len(found) - len(wrong)} of {len(found)} vectors come as the text says.", ""]
    lines += ["| vector | text | what comes |", "|---|---|---|"]
    for name, reference, what in wrong:
        lines.append(f"| `{name}` | {reference} | {' '.join(what.replace('|', '/').split())[:200]} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
