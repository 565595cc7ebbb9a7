"""`assay gate`: one verdict, one sentence, an exit code; reports hold content as text and nothing else."""

import json
import re
from xml.etree import ElementTree

import jsonschema_rs
import pytest

from assay.cli.gate import GateOptions, main
from assay.comparison.gate import level_text
from assay.comparison.gate_reports import plain
from assay.comparison.level import RunLevel
from assay.terminal import as_json_escapes, one_line
from support.result_lines import check_result, result_line, run_document, write_jsonl

HOSTILE = (
    "</details>\n| a | [x](http://e.example) `b` @team <img src=x> ::error:: %0A \x1b[31m &amp; www.e.example"
)


def lines(passes, total=20, unmeasured=(), **about):
    checks = [check_result(None, error="down") if at in unmeasured else at < passes for at in range(total)]
    return [result_line(f"c{at}", check, **about) for at, check in enumerate(checks)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gate")
    for passes in (20, 19, 10, 0):
        write_jsonl(path / f"{passes}.jsonl", lines(passes))
    write_jsonl(path / "empty.jsonl", [])
    write_jsonl(path / "error.jsonl", lines(20, unmeasured=(3,)))
    write_jsonl(path / "errors.jsonl", lines(20, unmeasured=range(20)))
    write_jsonl(path / "half.jsonl", lines(10, total=10))
    write_jsonl(path / "tags.jsonl", lines(20, tags=["x"]))
    partial = run_document(lines(20)) | {"results": lines(20)[:5]}
    (path / "partial.json").write_text(json.dumps(partial), "utf-8")
    found = check_result(False, type="secret_leak", kind="secret-leak", severity="critical", findings=[])
    write_jsonl(path / "leak.jsonl", [*lines(19), result_line("leak", found)])
    write_jsonl(path / "hostile.jsonl", [result_line(HOSTILE, check_result(False, got=HOSTILE))])
    low = check_result(False, type="pii_leak", kind="pii-leak", severity="low", findings=[])
    write_jsonl(
        path / "many.jsonl", [*(result_line(f"c{at}", low) for at in range(1001)), result_line("x", found)]
    )
    odd = check_result(False, type="own", kind="own", severity="BLOCKER")
    write_jsonl(path / "a b#%.jsonl", [*lines(20), result_line("odd", odd)])
    write_jsonl(path / "unjudged.jsonl", [*lines(19, total=19), result_line("c19")])
    write_jsonl(path / "late.jsonl", lines(20, output={"latency_ms": 900}))
    write_jsonl(path / "gaps.jsonl", lines(12, unmeasured=(17, 18, 19)))
    write_jsonl(path / "worse.jsonl", [result_line(f"c{at}", at < 6 or at >= 17) for at in range(20)])
    task = {"taskId": "t", "score": 0.4, "passed": False}
    card = {"suiteId": "local.a.evals.b", "suiteVersion": "1.0.0", "aggregateScore": 0.4, "passed": False}
    (path / "card.json").write_text(
        json.dumps(card | {"taskCount": 1, "passedCount": 0, "tasks": [task]}), "utf-8"
    )
    policies = {
        "improve": {"require": "improved"}, "same": {"require": "equivalent", "margin": 0.02},
        "lower": {"min": 0.9, "decide_by": "lower"}, "loose": {"max_unmeasured": 1, "min": 0.5},
        "missing": {"allow_missing_cases": True}, "leaks": {"max_findings": {"critical": 1}, "min": 0.5},
        "low": {"max_findings": {"low": 5000}, "min": 0}, "unknown": {"minimum": 1}, "marginless": {"require": "equivalent"},
    }  # fmt: skip
    for name, policy in policies.items():
        (path / f"{name}.yaml").write_text(json.dumps(policy), "utf-8")
    return path


VERDICTS = [
    ("20.jsonl", {}, 0, "every case passed (passed 1.00"),
    ("19.jsonl", {}, 3, "not every case passed"),
    ("19.jsonl", {"min": 0.9}, 0, "at least 0.9"),
    ("10.jsonl", {"min": 0.9}, 3, "passed is 0.500, below 0.9"),
    ("19.jsonl", {"policy": "lower.yaml"}, 3, "the lower limit of passed"),
    ("empty.jsonl", {}, 1, "empty.jsonl is empty"),
    ("empty.jsonl", {"baseline": "20.jsonl"}, 1, "empty.jsonl is empty"),
    ("partial.json", {"min": 0}, 1, "is not complete: it has 5 of 20 results"),
    ("error.jsonl", {"min": 0}, 1, "1 case not measured (c3); the policy allows 0"),
    ("error.jsonl", {"policy": "loose.yaml"}, 0, "at least 0.5"),
    ("errors.jsonl", {"min": 0}, 1, "20 cases not measured (c0, c1, c2 and 17 more)"),
    ("half.jsonl", {"baseline": "20.jsonl"}, 1, "10 cases of the baseline are not in"),
    ("half.jsonl", {"baseline": "20.jsonl", "policy": "missing.yaml"}, 0, "no regression was shown"),
    ("19.jsonl", {"baseline": "20.jsonl"}, 0, "no regression was shown"),
    ("10.jsonl", {"baseline": "20.jsonl"}, 3, "it regressed against"),
    ("20.jsonl", {"baseline": "10.jsonl", "policy": "improve.yaml"}, 0, "it improved against"),
    ("20.jsonl", {"baseline": "19.jsonl", "policy": "improve.yaml"}, 1, "the policy requires improved"),
    ("20.jsonl", {"baseline": "19.jsonl", "policy": "same.yaml"}, 1, "the policy requires equivalent"),
    ("leak.jsonl", {"min": 0}, 3, "1 safety finding of severity critical, at most 0 allowed"),
    ("leak.jsonl", {"policy": "leaks.yaml"}, 0, "at least 0.5"),
    ("many.jsonl", {"policy": "low.yaml"}, 3, "1 safety finding of severity critical"),
    ("a b#%.jsonl", {"min": 0}, 3, "1 safety finding of severity critical"),
    ("unjudged.jsonl", {}, 1, "1 case not measured (c19)"),
    ("unjudged.jsonl", {"baseline": "20.jsonl"}, 1, "1 case not measured (c19)"),
    ("worse.jsonl", {"baseline": "gaps.jsonl"}, 1, "only unmeasured ones could change that (c17, c18, c19)"),
    ("card.json", {}, 3, "the scorecard of"),
]


@pytest.mark.parametrize(("run", "options", "code", "reason"), VERDICTS)
def test_verdicts(folder, capsys, monkeypatch, run, options, code, reason):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert main(GateOptions(run=run, **options)) == code
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith({0: "passed: ", 1: "refused: ", 3: "failed: "}[code])
    assert reason in line


REFUSED = [
    (
        ["20.jsonl", "--policy", "unknown.yaml"],
        "unknown.yaml: Object contains unknown field `minimum`; the rules are",
    ),
    (["20.jsonl", "--policy", "marginless.yaml"], "require: equivalent needs a margin"),
    (["20.jsonl", "--baseline", "20.jsonl"], "it is 20.jsonl itself"),
    (["20.jsonl", "--baseline", "./20.jsonl"], "--baseline ./20.jsonl: it is 20.jsonl itself"),
    (["nothing.jsonl"], "nothing.jsonl: there is no such file"),
    (["20.jsonl", "--min", "nan"], "--min: expected a number, got nan"),
    (["20.jsonl", "--policy", "improve.yaml"], "the policy requires improved: expected --baseline"),
    (["late.jsonl", "--metric", "latency_ms:p95"], "expected a metric with a mean, got latency_ms:p95"),
    (["late.jsonl", "--metric", "latency_ms", "--min", "5"], "expected a metric where higher is better"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refusals(command, folder, arguments, message):
    done = command("gate", *arguments, folder=folder)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_reports_hold_hostile_content_as_text(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    names = {name: str(tmp_path / name) for name in ("markdown", "junit", "sarif")}
    assert main(GateOptions(run="hostile.jsonl", **names)) == 3
    verdict, *commands = capsys.readouterr().out.splitlines()
    assert verdict.startswith("failed: ")
    assert [line.partition(" ")[0] for line in commands] == ["::error", "::warning"]
    assert "\x1b" not in "".join(commands)
    report = (tmp_path / "markdown").read_text("utf-8")
    assert report == (tmp_path / "summary.md").read_text("utf-8")
    assert report.count("</details>") == report.count("<details>") == 1
    row = next(line for line in report.splitlines() if "team" in line)
    assert row.count("|") == 4
    assert not re.search(r"[@`<\[\x1b]|www\.|http:", row)
    root = ElementTree.parse(tmp_path / "junit").getroot()
    (_, case) = root.iter("testcase")
    assert case.attrib["name"].startswith("</details>\n| a |")
    assert root.attrib == {"name": "assay", "tests": "2", "failures": "2", "errors": "0"}


def test_sarif_has_findings_without_content(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    main(GateOptions(run="leak.jsonl", sarif=str(tmp_path / "s.sarif"), json=True))
    assert json.loads(capsys.readouterr().out)["findings"] == [
        {"case": "leak", "kind": "secret-leak", "severity": "critical", "count": 1}
    ]
    (run,) = json.loads((tmp_path / "s.sarif").read_text("utf-8"))["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"], run["tool"]["driver"]["rules"][0]["id"]) == (
        "secret-leak", "error", "secret-leak",
    )  # fmt: skip
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "leak.jsonl"
    main(GateOptions(run="a b#%.jsonl", sarif=str(tmp_path / "s.sarif")))
    assert '"uri": "a%20b%23%25.jsonl"' in (tmp_path / "s.sarif").read_text("utf-8")


SARIF = {  # the members of SARIF 2.1.0 that assay writes: which are required, and what their values may be
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {"driver": {"required": ["name", "rules"]}},
                    },
                    "results": {
                        "items": {
                            "required": ["message", "ruleId", "level", "locations"],
                            "properties": {
                                "message": {"required": ["text"]},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "locations": {
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "properties": {
                                                    "artifactLocation": {
                                                        "properties": {
                                                            "uri": {"pattern": "^(?!/)[^:\\\\ ]+$"}
                                                        }
                                                    },
                                                    "region": {"properties": {"startLine": {"minimum": 1}}},
                                                }
                                            }
                                        }
                                    }
                                },
                            },
                        }
                    },
                },
            }
        },
    },
}


@pytest.mark.parametrize(("inside", "uri"), [(True, "leak.jsonl"), (False, "leak.jsonl")])
def test_sarif_is_valid_and_has_no_absolute_path(folder, capsys, monkeypatch, tmp_path, inside, uri):
    monkeypatch.chdir(folder if inside else tmp_path)
    main(GateOptions(run=str(folder / "leak.jsonl"), sarif=str(tmp_path / "s.sarif")))
    document = json.loads((tmp_path / "s.sarif").read_text("utf-8"))
    assert [str(one) for one in jsonschema_rs.validator_for(SARIF).iter_errors(document)] == []
    assert (
        document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        == uri
    )
    assert str(folder) not in json.dumps(document["runs"][0]["results"])


def test_a_line_of_content_is_no_command_to_the_runner(monkeypatch):
    texts = ["::error::x", "  ::add-mask::x", "a ##[error]b", "a :: b"]
    assert [one_line(text) for text in texts] == texts
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert [one_line(text) for text in texts] == [
        r"\x3a:error::x", r"  \x3a:add-mask::x", r"a #\x23[error]b", "a :: b"
    ]  # fmt: skip
    assert json.loads(as_json_escapes('"##[error]"')) == "##[error]"
    assert "##[" not in as_json_escapes('"##[error]"')


def test_text_for_markdown():
    assert plain("a_b*c") == "a&#95;b&#42;c"
    assert plain("@team #1 !2 50% x@") == (
        "&#64;&#8203;team &#35;&#8203;1 &#33;&#8203;2 50&#37; x&#64;"
    )  # a host looks for references in decoded text
    assert len(plain("x" * 999)) == 200


def test_the_interval_of_a_level_is_named():
    level = RunLevel(metric="passed", mean=0.9, low=0.8, high=0.95, method="gaffke", cases=3)
    assert level_text(level) == "passed 0.90 (95% Gaffke 0.80…0.95, 3 cases)"
