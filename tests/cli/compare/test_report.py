"""`assay report`: Markdown of a run and of a comparison, `--redact`, the limit, and bad input."""

import gzip
import json
import random
import re
import string
import sys

import pytest
import zstandard

from assay.api.report import ReportRequest
from assay.cli.compare import report as report_command
from assay.errors import EnvironmentFailure
from assay.serve.overview import report_file
from assay.serve.overview.report import MAX_TEXT, cut_texts
from assay.serve.page.built_files import page_folder
from support.canaries import Canaries
from support.commands.result_lines import write_jsonl
from support.models.provider_server import ProviderServer
from support.report_file import report_data, report_text

CHECKS = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]
TEMPLATE = b'<script type="text/plain" id="report">__ASSAY_REPORT__</script>'


def save(command, folder, cases, name="capitals"):
    """Store an evaluation of (id, input, expected, output), and return its id."""
    lines = [
        {
            "test_case": {
                "id": id,
                "input": input,
                "expected": expected,
                "metadata": {"tags": [f"tag {input}"]},
            },
            "output": {"value": output},
        }
        for id, input, expected, output in cases
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    done = command(
        "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--experiment", name,
        "--save", "--json", folder=folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = json.loads(command("list", "--json", "--limit", "1", folder=folder).out)
    return rows[0]["operation_id"]


@pytest.fixture(scope="module")
def stored(command, tmp_path_factory):
    """A folder with two runs of the same cases. Every text of a case is a canary."""
    folder, canaries = tmp_path_factory.mktemp("report"), Canaries()
    before = [
        (canaries(f"id {n}"), canaries(f"input {n}"), canaries(f"expected {n}"), canaries(f"output {n}"))
        for n in range(4)
    ]
    after = [(id, input, expected, expected if n < 2 else out) for n, (id, input, expected, out) in enumerate(before)]  # fmt: skip
    after.append((canaries("id of one run"), "x", "y", canaries("output of one run")))
    return folder, canaries, save(command, folder, before), save(command, folder, after)


def write(command, folder, name, *arguments):
    done = command("report", *arguments, "-o", name, folder=folder)
    assert done.code == 0, done.err
    return done.out, report_text(folder / name) or (folder / name).read_text()


def test_markdown_of_a_run_has_the_verdict_first_and_escapes_content(command, tmp_path):
    hostile = "<img src=x onerror=alert(1)> | @team [x](javascript:alert(1))\n# heading"
    save(command, tmp_path, [("good", "1", "a", "a"), (hostile, hostile, "b", hostile)])
    out, text = write(command, tmp_path, "run.md", "latest")
    assert out == "2 results in run.md\n"
    first = text.splitlines()[:4]
    assert first[0] == "# capitals"
    assert first[3].startswith("> **No bar.** No bar decides this run. Case pass rate 50.0%")
    assert "<details><summary>1 did not pass</summary>" in text
    assert "| cases | 1 passed, 1 failed |" in text
    for active in (r"(?<!\\)<img", "@team", r"(?<!\\)\]\(", "\n# heading"):
        assert not re.search(active, text)
    by_table = [line.count(" | ") for line in text.splitlines() if "\\<img" in line]
    assert by_table == [
        3,
        3,
        4,
    ]  # the slice; the reason; the input, the output, the expected value and the tags


def test_markdown_of_a_comparison_has_each_pair_and_each_run(command, stored):
    folder, canaries, before, after = stored
    out, text = write(command, folder, "pair.md", before, after)
    assert out == "9 results of 2 runs in pair.md\n"
    assert text.startswith("# Comparison by passed\n\n> [!WARNING]\n> **Not enough data.** 0.0% → 50.0%")
    assert "<details><summary>2 changed</summary>" in text
    assert "<details><summary>1 only in the run</summary>" in text
    assert canaries("id 0") in text
    assert text.count("### capitals") == 2


@pytest.mark.parametrize("name", ["redacted.md", "redacted.html"])
def test_a_redacted_report_has_no_content(command, stored, name):
    folder, canaries, before, after = stored
    if name.endswith(".html") and not (page_folder() / report_file.TEMPLATE).is_file():
        pytest.skip("the page is not built: make web")
    _, full = write(command, folder, f"full-{name}", before, after)
    assert canaries.found_in(full) >= {"id 3", "input 3", "expected 3", "output 3", "id of one run"}
    out, text = write(command, folder, name, before, after, "--redact")
    assert out == f"9 results of 2 runs without content in {name}\n"
    assert canaries.found_in(text) == set()
    assert "tag " + canaries("input 0") not in text
    assert "only in" in text
    _, one = write(command, folder, name, before, "--redact")
    assert canaries.found_in(one) == set()


TOPICS = ("law", "tax")
RUN_TABLE = "| by {} | cases | cases passed (95%) | checks passed (95%) |"
PAIR_TABLE = "| by {} | cases | before | after | difference (adjusted) | verdict |"


def save_tagged(command, folder, tags, passes=4):
    """Store an evaluation of eight cases with these tags and a topic, of which the first ones pass."""
    lines = [
        {
            "test_case": {"id": f"c{at}", "input": f"q{at}", "expected": "yes", "tags": tags(at), "topic": TOPICS[at % 2]},
            "output": {"value": "yes" if at < passes else "no"},
        }
        for at in range(8)
    ]  # fmt: skip
    (folder / "tagged.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    done = command(
        "evaluate", "--contexts", "tagged.jsonl", "--checks", "checks.json", "--save", "--by", "topic",
        "-o", f"{passes}.jsonl", "-o", f"{passes}.csv", folder=folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    return done.out


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (lambda at: [TOPICS[at % 2]], ["law", "tax"]),
        (lambda at: ["law"] if at % 2 else [], ["law", "(none)"]),
        (lambda at: ["law", "tax"], ["law", "tax"]),
        (lambda at: ["law"], []),
        (lambda at: None, []),
        (lambda at: [f"{at}-{number}" for number in range(200)], []),  # more slices than there may be
    ],
)
def test_a_report_has_the_slices_by_tag_if_tags_tell_cases_apart(command, tmp_path, tags, names):
    save_tagged(command, tmp_path, tags)
    text = write(command, tmp_path, "run.md", "latest")[1]
    rows = text.partition(RUN_TABLE.format("tag"))[2].partition("\n\n")[0].splitlines()[2:]
    assert [line.split("|")[1].strip().replace("\\", "") for line in rows] == names
    save_tagged(command, tmp_path, tags, passes=6)
    pair = write(command, tmp_path, "pair.md", "previous", "latest")[1]
    assert (PAIR_TABLE.format("tag") in pair) == bool(names)
    assert pair.count(RUN_TABLE.format("tag")) == (2 if names else 0)


def test_a_report_by_a_member_has_the_numbers_of_evaluate_and_compare(command, tmp_path):
    printed = save_tagged(command, tmp_path, lambda at: [f"t{at}"])
    save_tagged(command, tmp_path, lambda at: [f"t{at}"], passes=6)
    runs = "previous", "latest"
    text = write(command, tmp_path, "pair.md", *runs, "--by", "topic", "--by", "check")[1]
    assert "by tag" not in text
    numbers = re.search(r"law +(4) +(\S+ \(\S+\)) +(\S+ \(\S+\))", printed)
    assert text.count(f"| law | {' | '.join(numbers.groups())} |") == 1  # of the first run
    compared = json.loads(command("compare", *runs, "--by", "topic", "--json", folder=tmp_path).out)
    verdicts = [one["result"]["verdict"] for one in compared["comparisons"][0]["slices"]]
    rows = text.partition(PAIR_TABLE.format("topic"))[2].splitlines()[2:4]
    assert [line.split(" | ")[-1].removesuffix(" |") for line in rows] == verdicts
    assert rows[0].startswith("| law | 4 | 50.0% | 75.0% | \\+25.0 points (")
    assert text.index("by topic") < text.index("<details>")
    assert PAIR_TABLE.format("check") in text
    for one in ("4.jsonl", "4.csv"):
        assert RUN_TABLE.format("tag") in write(command, tmp_path, "file.md", one)[1]


def test_a_redacted_report_has_slices_by_check_alone(command, tmp_path):
    for passes in (4, 6):
        save_tagged(command, tmp_path, lambda at: [TOPICS[at % 2]], passes)
    by = ("--by", "topic", "--by", "check", "--redact")
    text = write(command, tmp_path, "pair.md", "previous", "latest", *by)[1]
    assert PAIR_TABLE.format("check") in text
    assert [word for word in (*TOPICS, "by tag", "by topic") if word in text] == []
    assert "by tag" not in write(command, tmp_path, "run.md", "latest", "--redact")[1]


def test_a_name_that_no_case_has_is_refused_with_the_nearest(command, tmp_path):
    for passes in (4, 6):
        save_tagged(command, tmp_path, lambda at: None, passes)
    refused = "--by topci: no case has a value there; the members are tags, topic; did you mean topic?"
    calls = [
        (["latest", "--by", "topci"], refused),
        (["previous", "latest", "--by", "topci"], refused),
        (["latest", "--by", "topci", "--redact"], refused),
        (["latest", "--by", "$.["], "--by: expected a path, got $.["),
        (["latest", "--by", "a=b"], "--by: expected tag, the name of a member or a path"),
        (["latest", "--by", "criterion"], "--by criterion: expected two runs or more: criteria are compared"),
    ]
    done = command.each([["report", *arguments, "-o", "r.md"] for arguments, _ in calls], folder=tmp_path)
    for (_, words), one in zip(calls, done, strict=True):
        assert (one.code, words in one.err) == (2, True), one.err
    assert not (tmp_path / "r.md").exists()


AGENT = """
def answer(task, ctx):
    ctx.reason({reason!r})
    return {output!r} if ctx.trial else task

def write(task):
    return {output!r}

def review(task):
    return {{"verdict": "fail", "notes": {notes!r}}}
"""


def test_a_redacted_report_of_agent_evals_has_no_content(command, tmp_path):
    canaries = Canaries()
    texts = {name: canaries(name) for name in ("reason", "output", "notes")}
    (tmp_path / "shop.py").write_text(AGENT.format(**texts))
    match = {"strategy": "contains", "value": canaries("expected")}
    task = {
        "taskId": canaries("task"),
        "input": canaries("input"),
        "expected": {"kind": "golden", "match": match},
    }
    suite = {"suiteId": "local.shop.evals.canaries", "version": "1.0.0", "modes": ["golden"], "tasks": [task]}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    run = ("run", "suite.json", "--agent", "shop:answer", "--trials", "2")
    for _ in range(2):
        assert command(*run, folder=tmp_path).code == 3
    stored = json.loads(command("list", "--json", folder=tmp_path).out)
    pair = [row["runId"] for row in stored]
    for runs in (["latest"], pair):
        _, full = write(command, tmp_path, "full.md", *runs)
        assert canaries.found_in(full) >= {"task", "expected"}
        assert canaries.found_in(write(command, tmp_path, "r.md", *runs, "--redact")[1]) == set()
    verify = ("verify", "--task", canaries("goal"), "--actor", "shop:write", "--critic", "shop:review")
    assert command(*verify, "--on-fail", "give-up", folder=tmp_path).code == 3
    workflow = json.loads(command("list", "--json", "--limit", "1", folder=tmp_path).out)[0]["runId"]
    refused = command("report", workflow, "-o", "w.md", folder=tmp_path)
    assert (refused.code, "it is a workflow run" in refused.err) == (2, True)
    assert canaries.found_in(refused.err) == set()


def test_a_limit_keeps_failures_and_counts_the_cases_left_out(command, stored):
    folder, _, _, after = stored
    out, text = write(command, folder, "few.md", after, "--limit", "2")
    assert out == "2 of 5 results, failures first, in few.md\n"
    assert "| cases | 2 passed, 3 failed |" in text
    assert "… and 1 more" in text


def test_data_cannot_end_its_element_and_long_texts_are_cut(tmp_path):
    texts = cut_texts({"a": ["x" * (MAX_TEXT + 5)], "b": 1, "c": "</script><!--&"})
    assert texts["a"][0].endswith("x… [5 more]")
    page = report_file.html(TEMPLATE, texts, "</title>")
    (tmp_path / "r.html").write_bytes(page)
    assert report_data(tmp_path / "r.html") == texts
    assert page.count(b"<") == 2


@pytest.mark.parametrize("text", ["", "a<b", "x" * 300_000])
def test_data_is_a_frame_of_zstd_also_without_the_library(monkeypatch, text):
    data = json.dumps(text).encode()
    packed = report_file.zstd_frame(data)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    plain = report_file.zstd_frame(data)
    assert [zstandard.ZstdDecompressor().decompress(frame) for frame in (packed, plain)] == [data, data]


def test_a_report_is_little_larger_than_its_compressed_input_and_the_program(command, tmp_path):
    """300 conversations of words that do not repeat much."""
    if not (page_folder() / report_file.TEMPLATE).is_file():
        pytest.skip("the page is not built: make web")
    draw = random.Random(1)
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(4_000)]
    cases = [
        (f"c{at}", *(" ".join(draw.choices(words, k=many)) for many in (250, 3, 80))) for at in range(300)
    ]
    save(command, tmp_path, cases)
    done = command("report", "latest", "-o", "r.html", folder=tmp_path)
    assert done.code == 0, done.err
    program = len(report_file.report_template())
    contexts = len(gzip.compress((tmp_path / "cases.jsonl").read_bytes(), 9))
    assert (tmp_path / "r.html").stat().st_size <= program + 1.5 * contexts


TALKER = """
import random
import string
import sys

draw = random.Random(3)
WORDS = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(4_000)]

def answer(task, ctx, version="before"):
    draw = random.Random(f"{version} {ctx.trial} {task['messages'][-1]['content']}")
    for _ in range(3):
        ctx.reason(" ".join(draw.choices(WORDS, k=40)))
    return {"text": " ".join(draw.choices(WORDS, k=80))}

def after(task, ctx):
    return answer(task, ctx, "after")
"""
JUDGE = {
    "type": "llm_judge",
    "name": "helpful",
    "arguments": {
        "prompt": "Does the answer help?\n\n{{$.test_case.input}}\n---\n{{$.output.value}}",
        "response_format": {
            "type": "object",
            "required": ["passed"],
            "properties": {"reason": {"type": "string"}, "passed": {"type": "boolean"}},
        },
    },
}


def test_prompts_steps_trials_and_a_second_run_do_not_make_a_report_much_larger(
    command, tmp_path, monkeypatch
):
    """Conversations with an agent of two trials and a judge: its prompt repeats the case and the answer."""
    if not (page_folder() / report_file.TEMPLATE).is_file():
        pytest.skip("the page is not built: make web")
    draw = random.Random(2)
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(4_000)]
    talks = [
        [{"role": role, "content": " ".join(draw.choices(words, k=60))} for role in ("system", "user")]
        for _ in range(60)
    ]
    cases = [{"id": f"c{at}", "input": {"messages": talk}} for at, talk in enumerate(talks)]
    write_jsonl(tmp_path / "cases.jsonl", cases)
    (tmp_path / "talker.py").write_text(TALKER)
    (tmp_path / "checks.json").write_text(json.dumps([JUDGE]))
    inputs = []
    with ProviderServer(lambda _: {"reason": "It names no date.", "passed": False}) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("ASSAY_MODEL_JUDGE", "openai:gpt-4o-mini")
        for agent in ("talker:answer", "talker:after"):
            done = command(
                "evaluate", "cases.jsonl", "--agent", agent, "--trials", "2", "--checks", "checks.json",
                "--save", "-o", "results.jsonl", folder=tmp_path,
            )  # fmt: skip
            assert done.code == 0, done.err
            lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
            inputs.append([line["execution_context"] for line in lines])
    assert all(len(one["output"]["metadata"]["trajectory"]) >= 3 for run in inputs for one in run)
    program = len(report_file.report_template())
    for runs, contexts in ((["latest"], inputs[1]), (["previous", "latest"], inputs[0] + inputs[1])):
        done = command("report", *runs, "-o", "r.html", folder=tmp_path)
        assert done.code == 0, done.err
        text = "".join(json.dumps(one) + "\n" for one in contexts)
        size = (tmp_path / "r.html").stat().st_size
        assert size <= program + 1.5 * len(gzip.compress(text.encode(), 9))
        assert "Does the answer help?" in report_text(tmp_path / "r.html")


REFUSED = [
    (["-o", "r.md"], 2, "RUN: expected a value, got none"),
    (["latest"], 2, "-o: expected a value, got none"),
    (["nothing", "-o", "r.md"], 2, "there is no run 'nothing'"),
    (["latest", "-o", "r.pdf"], 2, "r.pdf: expected a file that ends with .html or .md"),
    (["latest", "-o", "-"], 2, "expected a file that ends with .html or .md"),
    (["latest", "latest", "-o", "r.md"], 2, "expected runs that differ"),
    (["latest"] * 9 + ["-o", "r.md"], 2, "expected at most 8 runs, got 9"),
    (["latest", "-o", "r.md", "--limit", "0"], 2, "--limit: expected a whole number from 1 to"),
    (["latest", "-o", "no/such/folder/r.md"], 1, "No such file or directory"),
    (["latest", "-o", "r.md", "--tenant", "other"], 2, "no run of tenant 'other' is stored here"),
]


def test_bad_input_is_refused_with_a_reason(command, stored):
    results = command.each([["report", *arguments] for arguments, _, _ in REFUSED], folder=stored[0])
    for (_, code, words), done in zip(REFUSED, results, strict=True):
        assert (done.code, words in done.err) == (code, True), done.err


def test_without_the_page_the_report_names_the_command_that_builds_it(monkeypatch, tmp_path):
    monkeypatch.setattr(report_file, "TEMPLATE", tmp_path / "report.html")
    request = ReportRequest(("latest",), "r.html", None, redact=False, limit=10)
    with pytest.raises(EnvironmentFailure, match=r"make web.*Markdown"):
        report_command.main(request)
