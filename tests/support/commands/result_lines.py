"""Result lines as `assay evaluate -o` writes them, made from a few values."""

import json

MOMENT = "2026-01-02T03:04:05Z"


def check_result(passed, *, type="contains", name=None, error="", expected="x", got="y", **results):
    check = {
        "check_type": type,
        "status": "error" if error else "completed",
        "results": {} if error else ({} if passed is None else {"passed": passed}) | results,
        "evaluated_at": MOMENT,
        "resolved_arguments": {"text": {"value": got}, "phrases": {"value": [expected]}},
    }
    check |= {"metadata": {"check_name": name}} if name else {}
    return check | ({"error": {"type": "unknown_error", "message": error}} if error else {})


def result_line(id, *checks, input="?", tags=(), output=None, expected=None):
    checks = [one if isinstance(one, dict) else check_result(one) for one in checks]
    wrong = sum(one["status"] == "error" for one in checks)
    case = {"id": id, "input": input} | ({"metadata": {"tags": list(tags)}} if tags else {})
    case |= {} if expected is None else {"expected": expected}
    counts = {"total_checks": len(checks), "completed_checks": len(checks) - wrong}
    return {
        "status": "error" if wrong else "completed",
        "execution_context": {"test_case": case, "output": {"value": "y", "metadata": output or {}}},
        "check_results": checks,
        "summary": counts | {"error_checks": wrong, "skipped_checks": 0},
    }


def complete(lines):
    """The lines of a run that says that it is complete."""
    lines = [dict(line) for line in lines]
    if lines:
        end = {"planned": len(lines), "results": len(lines), "complete": True}
        lines[-1]["metadata"] = {**lines[-1].get("metadata", {}), "run": end}
    return lines


def write_jsonl(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path.name


def run_document(lines):
    wrong = sum(line["status"] == "error" for line in lines)
    return {
        "evaluation_id": "eval_1",
        "started_at": MOMENT,
        "completed_at": MOMENT,
        "status": "error" if wrong else "completed",
        "summary": {
            "total_test_cases": len(lines),
            "completed_test_cases": len(lines) - wrong,
            "error_test_cases": wrong,
            "skipped_test_cases": 0,
        },
        "results": lines,
    }
