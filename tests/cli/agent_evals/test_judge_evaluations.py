"""`assay judge` and `assay annotate` for evaluations: stored ones, and result files."""

import csv
import json

import pytest

from support.commands.result_lines import check_result, complete, result_line, write_jsonl


def judged_line(number, passed, **labels):
    """The result of a case of a judge; None: the judge gave no answer."""
    check = (
        check_result(None, type="llm_judge", name="kind", error="the judge refused")
        if passed is None
        else check_result(None, type="llm_judge", name="kind", response={"passed": passed}, metadata={})
    )
    line = result_line(f"c{number}", check, input=f"question {number}")
    line["execution_context"]["test_case"]["metadata"] = labels
    return line


@pytest.fixture
def results(tmp_path):
    """Nine cases with an answer of the judge, who passes all but c0 and c1, and one without."""
    lines = [
        judged_line(at, at > 1, human_a="yes" if at > 2 else "no", human_b=int(at > 1)) for at in range(9)
    ]
    return write_jsonl(tmp_path / "results.jsonl", complete([*lines, judged_line(9, None, human_a="no")]))


def test_a_result_file_is_held_against_a_column(command, tmp_path, results):
    done = command("judge", "check", results, "--labels", "human_a", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    *lines, rate = done.out.splitlines(keepends=True)
    assert "".join(lines) == (
        "results.jsonl  kind: 9 of 9 judged cases labelled by people\n"
        "agreement  88.9% over 9; Cohen's κ 0.73 (95% 0.24…1.00)\n"
        "confusion  judge passed: people passed 6, failed 1\n"
        "           judge failed: people failed 2\n"
        "judge      1 case without an answer of the judge: not measured\n"
    )
    assert rate.startswith("pass rate  77.8% by the judge, 66.7% (95% PPI++ ")


def test_two_annotators_are_shown_beside_the_judge_and_each_other(command, tmp_path, results):
    done = command("judge", "check", results, "--labels", "human_a", "--labels", "human_b", folder=tmp_path)
    assert done.code == 0, done.err
    assert "human_a    88.9% over 9; Cohen's κ 0.73" in done.out
    assert "human_b    100.0% over 9; Cohen's κ 1.00\n" in done.out
    assert "majority   100.0% over 8; Cohen's κ 1.00\n" in done.out
    assert (
        "ties       1 case without a majority: in no agreement, half a pass in the pass rate\n           c2\n"
        in done.out
    )
    assert "people     human_a and human_b: 88.9% over 9; Cohen's κ 0.73" in done.out
    found = json.loads(
        command(
            "judge", "check", results, "--labels", "human_a", "--labels", "human_b", "--json", folder=tmp_path
        ).out
    )
    assert (found["file"], found["unmeasured"], found["ties"]) == ("results.jsonl", 1, ["c2"])
    assert [one["name"] for one in found["annotators"]] == ["human_a", "human_b"]


def test_a_sample_of_a_file_is_labelled_in_a_table(command, tmp_path, results):
    drawn = command("judge", "sample", results, "-n", "4", "--seed", "3", "-o", "labels.csv", folder=tmp_path)
    assert (drawn.code, drawn.err) == (0, "")
    assert "4 of 9 judged cases drawn with the seed 3, each with probability 0.444" in drawn.out
    assert "then: assay judge check results.jsonl --labels labels.csv --seed 3" in drawn.out
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [["test_case_id", "input", "expected", "output", "passed"]] * 4
    assert {row["input"] for row in rows} == {f"question {row['test_case_id'][1:]}" for row in rows}
    again = command("judge", "sample", results, "-n", "4", "-o", "labels.csv", folder=tmp_path)
    assert (
        again.code,
        "expected a new file, got one that exists, whose labels would be lost" in again.err,
    ) == (2, True)
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "passed": "pass"} for row in rows)
    checked = ("judge", "check", results, "--labels", "labels.csv")
    unseeded = command(*checked, folder=tmp_path)
    assert "no corrected mean: no sample was drawn" in unseeded.out
    assert "if `assay judge sample` drew the labelled cases, add --seed N with its seed" in unseeded.out
    seeded = command(*checked, "--seed", "3", folder=tmp_path)
    assert "sample     4 cases drawn with the seed 3\n" in seeded.out
    assert "corrected by 4 labels" in seeded.out
    other = command(*checked, "--seed", "4", folder=tmp_path)
    assert (other.code, "--seed 4: the labelled cases are not a draw with this seed" in other.err) == (
        2,
        True,
    )


def test_a_file_without_its_end_is_partial(command, tmp_path, results):
    file = tmp_path / results
    file.write_text(file.read_text()[:-30])
    done = command("judge", "check", results, "--labels", "human_a", folder=tmp_path)
    assert "partial    the file has not all results: its last line is cut off\n" in done.out


def test_a_file_needs_labels(command, tmp_path, results):
    refused = command("judge", "check", results, folder=tmp_path)
    assert (refused.code, "--labels: expected a member of the cases" in refused.err) == (2, True)


@pytest.fixture
def stored(command, tmp_path):
    """A stored evaluation of six answers; three contain the word, and the column `human` has a label for each."""
    (tmp_path / "assay.toml").write_text(f'database_url = "sqlite:///{tmp_path}/runs.db"\n')
    rows = "".join(f"c{at},?,{'yes' if at < 3 else 'nope'},{int(at != 2)}\n" for at in range(6))
    (tmp_path / "cases.csv").write_text(f"id,input,output,human\n{rows}")
    (tmp_path / "checks.yaml").write_text("- contains: yes\n  name: word\n")
    done = command(
        "evaluate", "--contexts", "cases.csv", "--checks", "checks.yaml", "--save", folder=tmp_path
    )
    assert done.code == 0, done.err
    return lambda *arguments: command(*arguments, folder=tmp_path)


def test_a_stored_evaluation_is_sampled_annotated_and_checked(stored):
    drawn = json.loads(stored("judge", "sample", "latest", "-n", "2", "--check", "word", "--json").out)
    names = [case["caseId"] for case in drawn["cases"]]
    for name in names:
        done = stored("annotate", "latest", "--case", name, "--passed")
        assert (done.code, done.err) == (0, "")
    checked = stored("judge", "check", "latest", "--check", "word")
    assert checked.code == 0, checked.err
    assert "word: 2 of 6 judged cases labelled by people\n" in checked.out
    assert "sample     2 cases drawn with the seed 0\n" in checked.out
    assert "pass rate  50.0% by the judge, 100.0%" in checked.out
    column = stored("judge", "check", "latest", "--check", "word", "--labels", "human")
    assert "agreement  33.3% over 6" in column.out
    second = stored("judge", "sample", "latest", "-n", "3", "--seed", "1", "--check", "word")
    assert (second.code, "has a sample with the seed 0" in second.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("annotate", "latest", "--case", "c9", "--passed"), "--case c9: eval_"),
        (
            ("annotate", "latest", "--event", "ev-1", "--passed"),
            "is an evaluation, which has cases",
        ),
        (("annotate", "latest", "--passed"), "expected --task ID or --case ID"),
        (
            ("judge", "check", "latest"),
            "there is no check in these results that asks a judge; the checks are word",
        ),
        (("judge", "sample", "latest", "-n", "7", "--check", "word"), "expected 1 to 6 cases"),
    ],
)
def test_labels_for_absent_cases_or_checks_are_refused(stored, arguments, message):
    refused = stored(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


def test_a_score_of_a_person_needs_a_bar(stored):
    assert stored("annotate", "latest", "--case", "c0", "--score", "0.8").code == 0
    refused = stored("judge", "check", "latest", "--check", "word")
    assert "--bar N says from which number on a label is a pass" in refused.err
    done = stored("judge", "check", "latest", "--check", "word", "--bar", "0.7")
    assert "agreement  100.0% over 1" in done.out
    assert "bias       +0.200: over the labelled cases, the judge's score is higher than people" in done.out
