"""What a run that had decided did not run: no report counts it, and every report says how many there are (ADR-0239)."""

import json
import re
import zipfile

import pytest

from support.report_file import report_text

CHECKS = [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "yes"}}]
MATCH = {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}}
TASKS = [{"taskId": f"t{at}", "input": str(at), "expected": MATCH} for at in range(100)]
SUITE = {"suiteId": "local.evals.until", "version": "1.0.0", "modes": ["golden"], "tasks": TASKS}
AGENT = "def answer(text):\n    return 'no' if int(text) % 4 == 0 else 'yes'\n"
EARLY = ("--until", "decided", "--min-pass-rate", "0.3", "--name", "early")
VERBS = {
    "evaluate": ("evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", *EARLY),
    "run": ("run", "suite.json", "--agent", "mine:answer", *EARLY),
}
GATE = ("gate", "early", "--allow-partial", "--min-mean")
TABLES = ("results.csv", "results.jsonl", "results.parquet", "results.xlsx")
DOORS = {  # the reports that a command makes of the run
    ("export", "early", *(word for name in TABLES for word in ("-o", name))): TABLES,
    ("report", "early", "-o", "report.md"): ("report.md",),
    ("report", "early", "-o", "report.html"): ("report.html",),
    ("report", "results.csv", "-o", "copy.md"): ("copy.md",),
    (*GATE, "0.1", "--markdown", "passed.md", "--junit", "passed.xml"): ("passed.md", "passed.xml"),
    (*GATE, "0.99", "--markdown", "failed.md", "--junit", "failed.xml"): ("failed.md", "failed.xml"),
    ("gate", "early", "--min-mean", "0.1", "--junit", "undecided.xml"): ("undecided.xml",),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_report_says_how_many_were_not_run_and_counts_none_of_them(command, tmp_path, verb):
    values = ["no" if at % 4 == 0 else "yes" for at in range(100)]
    lines = [
        {"test_case": {"id": f"t{at}", "input": at}, "output": {"value": one}}
        for at, one in enumerate(values)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    (tmp_path / "mine.py").write_text(AGENT)
    until = json.loads(command(*VERBS[verb], "--json", folder=tmp_path).out)["until"]
    ran, left = until["run"], until["not_run"]
    assert ran + left == 100
    assert left > 0
    for arguments, names in DOORS.items():
        done = command(*arguments, folder=tmp_path)
        assert done.code in (0, 1, 3), done.err
        for name in names:
            found = last_line_of(tmp_path / name)
            in_words = re.search(rf"{ran} of 100 .*until the run had decided \({left} not run\)", found)
            in_numbers = f'"cases":{ran},"of":100,"rule":"decided"' in found
            assert in_words or in_numbers, (name, found[-2_000:])
            if name.endswith(".xml"):
                failed = sum(f'name="t{at}"' in found for at, value in enumerate(values) if value == "no")
                assert dict(re.findall(r'(\w+)="(\d+)"', found.splitlines()[1])) == counts(name, ran, failed)


def counts(name: str, ran: int, failed: int) -> dict[str, str]:
    """Those of JUnit: each case that was run, and the gate."""
    failures, errors = {"passed": (0, 0), "failed": (failed + 1, 0), "undecided": (0, 1)}[name[:-4]]
    found = {"tests": ran + 1, "failures": failures, "errors": errors, "skipped": 0 if failures else failed}
    return {key: str(value) for key, value in found.items()}


def last_line_of(path) -> str:
    """The text of a report, or what a file says about its run."""
    if path.suffix == ".html":
        return report_text(path)
    if path.suffix == ".xlsx":
        return zipfile.ZipFile(path).read("docProps/core.xml").decode()
    return path.read_bytes().decode(errors="replace").replace('""', '"').replace("\\", "")
