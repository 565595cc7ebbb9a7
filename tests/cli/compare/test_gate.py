"""`assay gate`: one verdict, one sentence, an exit code; reports hold content as text and nothing else."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from assay.cli.compare.gate import GateOptions, main
from assay.comparison.gate_reports import plain
from assay.comparison.policy import PRESETS
from assay.comparison.run_level import RunLevel, level_text
from assay.terminal import as_json_escapes, one_line
from support.commands.command import run_on_terminal, unwrap
from support.commands.result_lines import check_result, complete, result_line, run_document
from support.commands.result_lines import write_jsonl as write_lines

HOSTILE = (
    "</details>\n| a | [x](http://e.example) `b` @team <img src=x> ::error:: %0A \x1b[31m &amp; www.e.example"
)


def write_jsonl(path, lines):
    return write_lines(path, complete(lines))


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
        "lower": {"min_mean": 0.9, "decide_by": "lower"}, "loose": {"max_unmeasured": 1, "min_mean": 0.5},
        "missing": {"allow_missing_cases": True}, "leaks": {"max_findings": {"critical": 1}, "min_mean": 0.5},
        "low": {"max_findings": {"low": 5000}, "min_mean": 0}, "unknown": {"minimum": 1}, "marginless": {"require": "equivalent"},
    }  # fmt: skip
    for name, policy in policies.items():
        (path / f"{name}.yaml").write_text(json.dumps(policy), "utf-8")
    return path


VERDICTS = [
    ("20.jsonl", {}, 0, "every case passed (the case pass rate is 100.0%"),
    ("19.jsonl", {}, 3, "not every case passed"),
    (
        "19.jsonl",
        {"min_mean": 0.9},
        0,
        ": the case pass rate is 95.0%, at least 90.0% (95% 76.4…99.1%, 20 cases)",
    ),
    (
        "10.jsonl",
        {"min_mean": 0.9},
        3,
        ": the case pass rate is 50.0%, below 90.0% (95% 29.9…70.1%, 20 cases)",
    ),
    (
        "19.jsonl",
        {"policy": "lower.yaml"},
        3,
        "the lower limit of the case pass rate is 76.4%, below 90.0% (95.0%, 95% 76.4…",
    ),
    (
        "19.jsonl",
        {"min_mean": 0.9, "baseline": "20.jsonl"},
        0,
        "the case pass rate is 95.0%, at least 90.0% (95% 76.4…99.1%, 20 cases); no regression was shown against 20.jsonl: 100.0%",
    ),
    (
        "19.jsonl",
        {"min_mean": 0.99, "baseline": "20.jsonl"},
        3,
        "below 99.0% (95% 76.4…99.1%, 20 cases); against 20.jsonl: 100.0%",
    ),
    ("19.jsonl", {"metric": "score"}, 1, "no rule decides on the mean score: give"),
    ("empty.jsonl", {}, 1, "empty.jsonl is empty"),
    ("empty.jsonl", {"baseline": "20.jsonl"}, 1, "empty.jsonl is empty"),
    (
        "partial.json",
        {"min_mean": 0},
        1,
        "is not complete: it has 5 of 20 results; allow_partial=True decides on what it has",
    ),
    ("error.jsonl", {"min_mean": 0}, 1, "(c3); the policy allows 0, and max_unmeasured=1 would allow it"),
    ("error.jsonl", {"min_mean": 0.5, "max_unmeasured": 1}, 0, "at least 50.0%"),
    ("error.jsonl", {"policy": "loose.yaml"}, 0, "at least 50.0%"),
    ("errors.jsonl", {"min_mean": 0}, 1, "20 cases not measured (c0, c1, c2 and 17 more)"),
    (
        "half.jsonl",
        {"baseline": "20.jsonl"},
        1,
        "(c10, c11, c12 and 7 more); a policy with allow_missing_cases: true",
    ),
    ("half.jsonl", {"baseline": "20.jsonl", "policy": "missing.yaml"}, 0, "no regression was shown"),
    ("19.jsonl", {"baseline": "20.jsonl"}, 0, "no regression was shown"),
    ("19.jsonl", {"baseline": "20.jsonl"}, 0, "(80% power); 1 case got worse (c19)"),
    ("10.jsonl", {"baseline": "20.jsonl"}, 3, " regressed; 10 cases got worse (c10, c11, c12 and 7 more)"),
    ("19.jsonl", {"min_mean": 0.99, "baseline": "20.jsonl"}, 3, "; 1 case got worse (c19)"),
    ("10.jsonl", {"baseline": "20.jsonl"}, 3, "it regressed against"),
    ("20.jsonl", {"baseline": "10.jsonl", "policy": "improve.yaml"}, 0, "it improved against"),
    ("20.jsonl", {"baseline": "19.jsonl", "policy": "improve.yaml"}, 1, "the policy requires improved"),
    ("20.jsonl", {"baseline": "19.jsonl", "policy": "same.yaml"}, 1, "the policy requires equivalent"),
    ("leak.jsonl", {"min_mean": 0}, 3, "1 critical finding (secret-leak), at most 0 allowed"),
    ("leak.jsonl", {"policy": "leaks.yaml"}, 0, "at least 50.0%"),
    ("many.jsonl", {"policy": "low.yaml"}, 3, "1 critical finding ("),
    ("a b#%.jsonl", {"min_mean": 0}, 3, "1 critical finding ("),
    ("unjudged.jsonl", {}, 1, "1 case not measured (c19)"),
    ("unjudged.jsonl", {"baseline": "20.jsonl"}, 1, "1 case not measured (c19)"),
    ("worse.jsonl", {"baseline": "gaps.jsonl"}, 1, "only unmeasured ones could change that (c17, c18, c19)"),
    ("card.json", {}, 3, "the scorecard of"),
]


@pytest.mark.parametrize(("run", "options", "code", "reason"), VERDICTS)
def test_a_verdict_decides_the_exit_code_and_is_one_line(
    folder, capsys, monkeypatch, run, options, code, reason
):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert main(GateOptions(run=run, **options)) == code
    (line,) = unwrap(capsys.readouterr().out).splitlines()
    assert line.startswith({0: "passed: ", 1: "undecided: ", 3: "failed: "}[code])
    assert reason in line


def trial_lines(passes, trials=3):
    """Cases with this many passed trials of three."""
    return [
        result_line(f"t{at}", trial < passed, output={"trial": trial})
        for at, passed in enumerate(passes)
        for trial in range(trials)
    ]


SEEN = (
    [3] * 12 + [2, 1, 3],
    [0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 1, 1],
)  # 15 tasks, 3 trials: two newly fail
SLIGHT = ([3] * 12 + [2, 1, 3], [3] * 12 + [1, 2, 2])
UNTRIED = ([1] * 15, [0, 0] + [1] * 13)


@pytest.fixture
def trials(folder):
    def write(before, after, trials=3):
        write_jsonl(folder / "was.jsonl", trial_lines(before, trials))
        write_jsonl(folder / "is.jsonl", trial_lines(after, trials))

    return write


VISIBLE = [
    (SEEN, 3, "balanced", "undecided", "2 cases passed in all trials before and pass in none now (t0, t1)"),
    (SEEN, 3, "strict", "failed", "2 cases passed in all trials before and pass in none now (t0, t1)"),
    (SEEN, 3, "lenient", "passed", "no regression was shown"),
    (SLIGHT, 3, "balanced", "passed", "no regression was shown"),  # 0.91 → 0.89
    (
        SLIGHT,
        3,
        "strict",
        "undecided",
        "the case pass rate is worse than in was.jsonl by 2.2 points, and max_drop is 0 points",
    ),
    (SLIGHT, 3, "lenient", "passed", "no regression was shown"),
    (SLIGHT, 3, "lenient", "passed", "; 2 cases got worse (t14, t12), 1 got better"),
    (UNTRIED, 1, "balanced", "undecided", "; 2 cases got worse (t0, t1)"),
    (
        UNTRIED,
        1,
        "balanced",
        "undecided",
        "by 13 points, and max_drop is 5 points",
    ),  # one trial: no case newly fails
    (UNTRIED, 1, "strict", "undecided", "by 13 points, and max_drop is 0 points"),
    (([3] * 20, [0] * 20), 3, "lenient", "failed", "it regressed"),
]
CODES = {"passed": 0, "undecided": 1, "failed": 3}


@pytest.mark.parametrize(("runs", "count", "preset", "outcome", "reason"), VISIBLE)
def test_a_visible_drop_is_not_green_and_all_reports_agree(
    folder, capsys, monkeypatch, tmp_path, trials, runs, count, preset, outcome, reason
):
    trials(*runs, count)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    names = {name: str(tmp_path / name) for name in ("markdown", "junit", "sarif")}
    options = GateOptions(run="is.jsonl", baseline="was.jsonl", preset=preset, **names)
    assert main(options) == CODES[outcome]
    line, annotation, *_ = unwrap(capsys.readouterr().out).splitlines()
    assert line.startswith(f"{outcome}: ")
    assert reason in line
    if outcome != "failed":
        assert "cases can show a drop of" in line
    if outcome == "undecided":
        assert re.search(r"a difference of \S+ points needs about [\d,]+ more cases", line)
        assert "again" not in line
    assert annotation.startswith(
        {"passed": "::notice ", "undecided": "::warning ", "failed": "::error "}[outcome]
    )
    alert = {"passed": "[!TIP]", "undecided": "[!WARNING]", "failed": "[!CAUTION]"}[outcome]
    assert (tmp_path / "markdown").read_text("utf-8").startswith(f"> {alert}\n> **")
    root = ElementTree.parse(tmp_path / "junit").getroot()
    failures, errors = int(root.attrib["failures"]), int(root.attrib["errors"])
    assert (failures > 0, errors > 0) == (outcome == "failed", outcome == "undecided")
    (run,) = json.loads((tmp_path / "sarif").read_text("utf-8"))["runs"]
    levels = [one["level"] for one in run["results"] if "suppressions" not in one]
    assert levels == {"passed": [], "undecided": ["warning"], "failed": ["error"]}[outcome]
    assert run["invocations"][0]["exitCode"] == CODES[outcome]
    main(msgspec.structs.replace(options, json=True, markdown=None, junit=None, sarif=None))
    document = json.loads(unwrap(capsys.readouterr().out).splitlines()[0])
    assert (document["outcome"], document["exit_code"], document["preset"]) == (
        outcome, CODES[outcome], preset,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "code", "look"),
    [("lenient", 0, "\x1b[1;32mpassed\x1b[0m: no"), ("balanced", 1, "\x1b[1;33mundecided\x1b[0m: "), ("strict", 3, "\x1b[1;31mfailed\x1b[0m: ")],
)  # fmt: skip
def test_each_outcome_has_its_look_on_a_terminal(folder, trials, preset, code, look):
    trials(*SEEN)
    arguments = ("gate", "is.jsonl", "--baseline", "was.jsonl", "--preset", preset)
    assert run_on_terminal(*arguments, folder=folder, code=code).startswith(look)


def test_a_policy_sets_the_rules_of_a_preset_itself(folder, capsys, monkeypatch, trials):
    trials(*SEEN)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    rules = [
        ({"max_drop": "off", "max_newly_failing": "off"}, 0),
        ({"max_drop": "off"}, 1),
        ({"max_drop": 0.5, "max_newly_failing": 2}, 0),
        ({"preset": "lenient", "max_drop": 0.1}, 1),
        ({"preset": "strict", "max_newly_failing": 2}, 1),
    ]
    for policy, code in rules:
        (folder / "own.yaml").write_text(json.dumps(policy), "utf-8")
        options = GateOptions(run="is.jsonl", baseline="was.jsonl", policy="own.yaml")
        assert main(options) == code, policy
    capsys.readouterr()


def test_a_drop_of_a_number_without_a_range_has_no_preset(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    write_jsonl(folder / "slower.jsonl", lines(20, output={"latency_ms": 901}))
    options = GateOptions(run="slower.jsonl", baseline="late.jsonl", metric="latency_ms")
    main(options)
    assert "max_drop" not in capsys.readouterr().out


def sliced(passes, cases=12):
    """The lines of slices, by name with the number of cases that passed."""
    return [
        result_line(f"{name}-{at}", at < passed, tags=[name])
        for name, passed in passes.items()
        for at in range(cases)
    ]


COLLAPSED = ({"law": 8, "tax": 6, "art": 6, "law ": 6}, {"law": 1, "tax": 9, "art": 9, "law ": 5})
GONE = ({"law": 12, "tax": 6}, {"law": 0, "tax": 12})


@pytest.mark.parametrize(
    ("runs", "options", "code", "reason"),
    [
        (
            COLLAPSED, {"by": ("tag",)}, 0,
            "worse, and not shown to be a regression: tag law 66.7% → 8.3% (12 cases), tag 'law ' 50.0% → 41.7% (12 cases)",
        ),
        (COLLAPSED, {}, 0, "no regression was shown against was.jsonl"),
        (GONE, {"by": ("tag",)}, 3, "the slice tag law regressed: 100.0% → 0.0%"),
    ],
)  # fmt: skip
def test_a_slice_that_got_worse_is_named_and_one_that_regressed_decides(
    folder, capsys, monkeypatch, runs, options, code, reason
):
    monkeypatch.chdir(folder)
    for name, passes in zip(("was.jsonl", "is.jsonl"), runs, strict=True):
        write_jsonl(folder / name, sliced(passes))
    files = {"markdown": "slices.md"}
    assert (
        main(GateOptions(run="is.jsonl", baseline="was.jsonl", preset="lenient", **options, **files)) == code
    )
    assert reason in " ".join(capsys.readouterr().out.split())
    rows = [
        line for line in (folder / "slices.md").read_text("utf-8").splitlines() if line.startswith("| tag | ")
    ]
    assert [row.split(" | ")[1] for row in rows][:1] == (["law"] if options else [])


def test_the_presets_in_the_documents_are_those_of_the_code():
    page = (Path(__file__).parents[3] / "docs" / "compare.md").read_text("utf-8")
    rows = [
        f"| `{name}` | {'off' if one.max_drop is None else f'{one.max_drop:g}'} |"
        f" {'off' if one.max_newly_failing is None else one.max_newly_failing} | {one.newly_failing} |"
        for name, one in PRESETS.items()
    ]
    table = page.split("| preset | `max_drop` |")[1].splitlines()[2:5]
    assert table == rows


REFUSED = [
    (["20.jsonl", "--preset", "loose"], "--preset: expected strict, balanced, lenient, got 'loose'"),
    (
        ["20.jsonl", "--policy", "unknown.yaml"],
        "unknown.yaml: minimum: no such member; there are",
    ),
    (["20.jsonl", "--policy", "marginless.yaml"], "require: equivalent needs a margin"),
    (["20.jsonl", "--baseline", "20.jsonl"], "expected another run, got 20.jsonl itself"),
    (
        ["20.jsonl", "--baseline", "./20.jsonl"],
        "--baseline ./20.jsonl: expected another run, got 20.jsonl itself",
    ),
    (["nothing.jsonl"], "nothing.jsonl: there is no such file"),
    (["20.jsonl", "--min-mean", "nan"], "--min-mean: expected a number, got nan"),
    (
        ["20.jsonl", "--min-mean", "70"],
        "--min-mean: expected a fraction between 0 and 1, such as 0.9, got 70; did you mean 0.7?",
    ),
    (
        ["20.jsonl", "--min-mean", "-0.1"],
        "--min-mean: expected a fraction between 0 and 1, such as 0.9, got -0.1",
    ),
    (["20.jsonl", "--max-unmeasured", "-1"], "--max-unmeasured"),
    (["20.jsonl", "--policy", "improve.yaml"], "the policy requires improved: expected --baseline"),
    (["late.jsonl", "--metric", "latency_ms:p95"], "expected a metric with a mean, got latency_ms:p95"),
    (["late.jsonl", "--metric", "latency_ms", "--min-mean", "5"], "expected a metric where higher is better"),
]


def test_a_wrong_gate_is_refused_with_its_reason(command, folder):
    results = command.each([["gate", *arguments] for arguments, _ in REFUSED], folder=folder)
    for (_, message), done in zip(REFUSED, results, strict=True):
        assert (done.code, done.out) == (2, "")
        assert message in done.err


def test_reports_hold_hostile_content_as_text(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    names = {name: str(tmp_path / name) for name in ("markdown", "junit", "sarif")}
    assert main(GateOptions(run="hostile.jsonl", **names)) == 3
    verdict, *commands = unwrap(capsys.readouterr().out).splitlines()
    assert verdict.startswith("failed: ")
    assert [line.partition(" ")[0] for line in commands] == ["::error", "::warning"]
    assert "\x1b" not in "".join(commands)
    report = (tmp_path / "markdown").read_text("utf-8")
    assert report == (tmp_path / "summary.md").read_text("utf-8")
    assert report.count("</details>") == report.count("<details>") == 1
    row = next(line for line in report.splitlines() if "team" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 4
    assert not re.search(r"(?<!\\)[`<\[]|\x1b|@\w|www\.|http:/", row)
    root = ElementTree.parse(tmp_path / "junit").getroot()
    (_, case) = root.iter("testcase")
    assert case.attrib["name"].startswith("</details>\n| a |")
    assert root.attrib == {"name": "assay", "tests": "2", "failures": "2", "errors": "0", "skipped": "0"}


def test_every_finding_of_a_judge_counts(folder, capsys, monkeypatch):
    """`kind` and `severity` are those of the worst; `found` has all."""
    found = [{"kind": "jailbreak", "severity": "high"}, {"kind": "pii-leak", "severity": "medium"}]
    both = check_result(False, type="safety_judge", **found[0], found=found, reason="r")
    write_jsonl(folder / "judged.jsonl", [result_line("a", both)])
    monkeypatch.chdir(folder)
    assert main(GateOptions(run="judged.jsonl", allow_partial=True, json=True)) == 3
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert findings == [{"case": "a", "count": 1, **one} for one in found]


def test_sarif_has_findings_without_content(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    main(GateOptions(run="leak.jsonl", sarif=str(tmp_path / "s.sarif"), json=True))
    assert json.loads(capsys.readouterr().out)["findings"] == [
        {"case": "leak", "kind": "secret-leak", "severity": "critical", "count": 1}
    ]
    (run,) = json.loads((tmp_path / "s.sarif").read_text("utf-8"))["runs"]
    gate, result = run["results"]
    assert (gate["ruleId"], gate["level"], run["invocations"][0]["exitCode"]) == ("gate", "error", 3)
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


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("passed 0.917 (95% 0.853…0.954, 120 cases)", "passed 0.917 (95% 0.853…0.954, 120 cases)"),
        ("expected 'a', got \"b\"; model_a: 50.0%", "expected 'a', got \"b\"; model_a: 50.0%"),
        ("a*b_ <i> [x](y) `c` | d", r"a\*b\_ \<i\> \[x\](y) \`c\` \| d"),
        ("# a", r"\# a"),
        ("1. a", r"1\. a"),
        ("@team #1 !2 50% x@", "@\u200bteam #\u200b1 !\u200b2 50% x@"),
        ("see https://a.example and www.a.example", "see https:\u200b//a.example and www\u200b.a.example"),
        ("a\n# b", "a # b"),
    ],
)
def test_text_for_markdown_is_readable_as_it_is(text, written):
    assert plain(text) == written
    assert len(plain("x" * 999)) == 200


@given(st.text(st.sampled_from("ab1 .)(*_`[]<>|~$&{}\\@#!%:/-+=é\n\"'")) | st.text(max_size=40))
def test_text_for_markdown_stays_text(text):
    """In a cell of a table, in a paragraph and in a quote: no element, no link, no second cell, and the same characters."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    shown = " ".join(
        re.sub(
            "[\\x00-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]+", " ", text
        ).split()
    )
    for frame in ("| a | b |\n|---|---|\n| {} | b |", "{}", "> **x** {}"):
        tokens = reader.parse(frame.format(plain(text, 1000)))
        cells = [one for one in tokens if one.type == "inline"]
        read = cells[2] if frame.startswith("|") else cells[0] if cells else None
        if frame.startswith("|"):
            assert len(cells) == 4
        if read is None:
            assert not shown
            continue
        kinds = {child.type for child in read.children or ()} - {
            "text",
            "text_special",
            "strong_open",
            "strong_close",
        }
        assert kinds == set(), (plain(text), kinds)
        found = "".join(child.content for child in read.children or ()).replace("\u200b", "")
        assert " ".join(found.removeprefix("x" * frame.startswith(">")).split()) == shown


def test_the_interval_of_a_level_is_named():
    level = RunLevel(metric="passed", mean=0.9, low=0.8, high=0.95, method="gaffke", cases=3)
    assert level_text(level) == "the case pass rate is 90.0%, 95% 80.0…95.0%, 3 cases"
