"""
Bad input through the real command: one clear line with the file, the line and the place, the right exit code, and
what was done is kept. No traceback, ever.

2: refused before anything ran, for what was given. 1: a bad line, a disk, an interrupt, nothing to measure or
something not measured.
"""

import fcntl
import gzip
import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from support.commands.command import CommandResult
from support.waiting import PATIENCE, wait_until

MATCH = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
GOOD = b'{"test_case":{"id":"a","input":"q","expected":"x"},"output":{"value":"x"}}\n'
BAD = GOOD.replace(b'"value":"x"', b'"value":"bad"')
CASE, OUTPUT = b'{"id":"a","input":"q","expected":"x"}\n', b'{"value":"x"}\n'
EVALUATE = [sys.executable, "-m", "assay", "evaluate"]
CONTEXTS = ["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "out.jsonl"]


def context(input: bytes = b'"q"', output: bytes = b'"x"') -> bytes:
    return GOOD.replace(b'"q"', input).replace(b'"value":"x"', b'"value":' + output)


def write(folder: Path, **files: Any) -> None:
    """`x_jsonl=…` is the file x.jsonl; what is not bytes is written as JSON."""
    for name, content in {"checks_json": [MATCH], **files}.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("_", ".")).write_bytes(data)


def results_in(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]


def statuses_in(folder: Path) -> list[str]:
    return [one["status"] for one in results_in(folder)]


def errors_in(folder: Path) -> list[Any]:
    checks = [check for one in results_in(folder) for check in one["check_results"]]
    return [check["error"] for check in checks if "error" in check]


@pytest.fixture
def run(command, tmp_path):
    """Write files, and run the command among them."""

    def run(
        *arguments: str, stdin: bytes = b"", limits: dict[str, int] | None = None, **files: Any
    ) -> CommandResult:
        write(tmp_path, **files)
        return command("evaluate", *arguments, folder=tmp_path, stdin=stdin, limits=limits)

    return run


@pytest.fixture
def run_each(command, tmp_path):
    """Run the command for each of several (arguments, files), in a folder of its own: (folder, result) of each, from one process."""

    def run_each(
        *runs: tuple[list[str], dict[str, Any]], links: dict[str, str] | None = None
    ) -> list[tuple[Path, CommandResult]]:
        folders = [tmp_path / str(number) for number in range(len(runs))]
        for folder, (_, files) in zip(folders, runs, strict=True):
            folder.mkdir()
            write(folder, **files)
            for name, target in (links or {}).items():
                (folder / name).symlink_to(target)
        jobs = [
            {"command": ["evaluate", *arguments], "folder": str(folder)}
            for folder, (arguments, _) in zip(folders, runs, strict=True)
        ]
        return list(zip(folders, command.batch(jobs, folder=tmp_path), strict=True))

    return run_each


# a line in a stream


BAD_LINES = [
    (b"nope", "not JSON: invalid character"),
    (b"[]", "expected an object with test_case and output, got a list"),
    (GOOD[:-9], "not JSON: input data was truncated"),
    (GOOD[:-1] + b"}", "not JSON: trailing characters"),
    (b'{"test_case":{"id":1,"input":1},"output":{"value":1}}', "test_case.id: expected a string, got a number"),
    (b'{"test_case":{"id":"a"},"output":{"value":1}}', "test_case.input: expected any JSON value, got nothing"),
    (b'{"test_case":{"id":"a","input":1},"output":3}', "output: expected an object with value, got a number"),
    (b'{"test_case":{"id":"a","input":1}}', "output: expected an object with value, got nothing"),
    (GOOD[:-2] + b',"more":1}', "more: a context has no such member; it has test_case and output"),
    (context(b'["9e999\\"", -1e999]'), "a number is too large: expected a number within ±1.8e308 and of at most 4300 digits, got -1e999"),
    (context(b"1" * 5000), "a number is too large: expected a number within ±1.8e308 and of at most 4300 digits, got 1111"),
    (context(b"NaN"), "not JSON"),
    (context(b"-Infinity"), "not JSON"),
    (context(b'"\\ud800"'), "surrogate"),
    (context(b'"\\udc00 x"'), "surrogate"),
    (context(b'"\xff"'), "not UTF-8 (byte 32)"),
    (context(b'"\xed\xa0\x80"'), "not UTF-8 (byte 32)"),  # a surrogate, encoded
    (context(b"[" * 2000 + b"]" * 2000), "nested too deeply"),
    (context(b'{"a":' * 2000 + b"1" + b"}" * 2000), "nested too deeply"),
    (context(b"[" * 600 + b"]" * 600), "nested more than 500 deep, which is the limit"),
    (b"[" * 100_000, "nested too deeply"),
]  # fmt: skip


def test_a_bad_line_stops_the_stream_there(run_each):
    runs = [(CONTEXTS, {"x_jsonl": GOOD + b"\n" + line + b"\n" + GOOD}) for line, _ in BAD_LINES]
    for (folder, ended), (_, words) in zip(run_each(*runs), BAD_LINES, strict=True):
        assert ended.code == 1
        assert statuses_in(folder) == ["completed"]
        first, second = ended.err.splitlines()
        assert first.startswith("assay: x.jsonl:3: ")  # blank lines are counted
        assert words in first
        assert second == "assay: stopped after 1 case; the others were not measured"


ODD_LINES = [
    context(b"1" * 400),  # an integer may be long
    context(b'"a\\u0000b"'),
    context('"\u2028"'.encode()),  # a line break for some, not for JSON lines
    context(b"[" * 300 + b"]" * 300),
    GOOD.replace(b"\n", b"\r\n"),
    b"\xef\xbb\xbf" + GOOD,
    b"\n  \n\t\n" + GOOD + b"\r\n\n",
    GOOD.strip(),
]


def test_an_odd_line_is_evaluated(run_each):
    for folder, ended in run_each(*((CONTEXTS, {"x_jsonl": line}) for line in ODD_LINES)):
        assert (ended.code, statuses_in(folder), ended.err) == (0, ["completed"], "")


def test_bad_lines_can_be_skipped_and_are_counted(run, tmp_path):
    ended = run(*CONTEXTS, "--skip-bad-lines", x_jsonl=GOOD + b"nope\n" + GOOD + b"[]\n" + GOOD)
    assert (ended.code, len(statuses_in(tmp_path))) == (1, 3)
    assert [line.partition(": ")[2][:18] for line in ended.err.splitlines()] == [
        "skipped x.jsonl:2:",
        "skipped x.jsonl:4:",
        "2 lines skipped an",
    ]


WAITING = b"""
import assay

class Waiting(assay.Checker):
    type = "waiting"

    async def run(self, services):
        return {"passed": True}
"""


@pytest.mark.parametrize("waits", [False, True])
def test_a_case_with_own_checks_is_a_bad_line_if_checks_are_given(run, tmp_path, waits):
    own = json.loads(GOOD)
    own["test_case"]["checks"] = [MATCH]
    files = {"x_jsonl": GOOD + json.dumps(own).encode() + b"\n" + GOOD}
    options = CONTEXTS
    if waits:
        options, files["mine_py"] = (*CONTEXTS, "--check-module", "mine.py:Waiting"), WAITING
        files["checks_json"] = [MATCH, {"type": "waiting", "arguments": {}}]
    problem = "x.jsonl:2: test_case.checks: expected checks in this case or in the request, got both"
    ended = run(*options, **files)
    assert (ended.code, len(statuses_in(tmp_path)), ended.err.splitlines()[0]) == (1, 1, f"assay: {problem}")
    ended = run(*options, "--skip-bad-lines", **files)
    assert (ended.code, len(statuses_in(tmp_path))) == (1, 2)
    assert ended.err.splitlines()[0] == f"assay: skipped {problem}"


def test_a_line_of_a_hundred_megabytes_is_refused_and_not_held(tmp_path):
    long = context(b'"' + b"q" * 100_000_000 + b'"')
    write(tmp_path, x_jsonl=GOOD + long + GOOD)
    # the limit is 64 MB a line: room for that twice and for Python, not for the line and its copies
    script = f"ulimit -v {450 << 10}; exec {' '.join([*EVALUATE, *CONTEXTS])}"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    ended = CommandResult(done.returncode, done.stdout, done.stderr)
    assert (ended.code, statuses_in(tmp_path)) == (1, ["completed"])
    assert ended.err.startswith("assay: x.jsonl:2: longer than 67108864 bytes, which is the limit for a line")


# files


BAD_FILES = [
    (["--contexts", "no.jsonl", "--checks", "checks.json"], 2, "no.jsonl: there is no such file"),
    (["--contexts", "x.jsonl", "--checks", "no.json"], 2, "no.json: there is no such file"),
    (["no.json"], 2, "no.json: there is no such file"),
    (["--cases", "no.jsonl", "--outputs", "-", "--checks", "checks.json"], 2, "no.jsonl: there is no such file"),
    (["--contexts", "folder.jsonl", "--checks", "checks.json"], 2, "folder.jsonl: expected "),
    (["--contexts", "x", "--checks", "checks.json"], 2, "x: expected a file that ends in .json, "),
    (["--contexts", "empty.jsonl", "--checks", "checks.json"], 1, "there was nothing to evaluate"),
    (["--contexts", "empty.yaml", "--checks", "checks.json"], 1, "there was nothing to evaluate"),
    (["--contexts", "empty.csv", "--checks", "checks.json"], 1, "there was nothing to evaluate"),
    (["--contexts", "empty.jsonl.gz", "--checks", "checks.json"], 1, "there was nothing to evaluate"),
    (["--contexts", "blank.jsonl", "--checks", "checks.json"], 1, "there was nothing to evaluate"),
    (["--contexts", "-", "--checks", "checks.json"], 1, "there was nothing to evaluate"),
    (["empty.json"], 2, "empty.json: not JSON: input data was truncated"),
    (["--contexts", "x.jsonl", "--checks", "empty.json"], 2, "empty.json: not JSON: input data was truncated"),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "no/o.jsonl"], 2, "no/o.jsonl: there is no folder no"),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "folder.jsonl"], 2, "folder.jsonl: expected "),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "x.jsonl/o.csv"], 2, "x.jsonl/o.csv: expected a file that can be written, got Not a directory"),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "o.txt"], 2, "o.txt: expected an output that ends in .jsonl, .json, .csv, .xlsx or .parquet"),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "full.jsonl"], 1, "full.jsonl: expected a file that can be written, got No space left on device"),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "full.json"], 1, "full.json: expected a file that can be written, got No space left on device"),
    (["--contexts", "x.jsonl", "--checks", "checks.json", "-o", "full.csv"], 1, "full.csv: expected a file that can be written, got No space left on device"),
    ([], 2, "expected one of FILE, --contexts, --cases and --outputs, --traces; got none"),
    (["r.json", "--contexts", "x.jsonl"], 2, "got FILE and --contexts"),
    (["--cases", "x.jsonl"], 2, "--cases x.jsonl: expected --outputs or --agent with it"),
    (["--outputs", "x.jsonl"], 2, "--outputs x.jsonl: expected --cases with it"),
    (["--cases", "-", "--outputs", "-"], 2, "expected at most one '-' (standard input)"),
]  # fmt: skip


def test_a_file_that_cannot_be_read_or_written_is_refused(run_each, tmp_path):
    empty = {f"empty_{ending}": b"" for ending in ("json", "jsonl", "yaml", "csv", "jsonl_gz")}
    yesterday = b'{"status":"of yesterday"}\n'
    files = {"x_jsonl": GOOD, "blank_jsonl": b"\n \r\n", "out_jsonl": yesterday, **empty}
    (tmp_path / "a-folder").mkdir()
    links = {
        "folder.jsonl": "../a-folder",
        **{f"full.{ending}": "/dev/full" for ending in ("jsonl", "json", "csv")},
    }
    runs = [([*arguments, "-o", "out.jsonl"], files) for arguments, _, _ in BAD_FILES]
    for (folder, ended), (_, code, words) in zip(run_each(*runs, links=links), BAD_FILES, strict=True):
        assert ended.code == code
        (line,) = ended.err.splitlines()
        assert line.startswith("assay: ")
        assert words in line
        if code == 2:
            assert statuses_in(folder) == ["of yesterday"]  # nothing ran, so nothing is lost


def test_every_file_keeps_what_was_done_when_one_is_full(run, tmp_path):
    (tmp_path / "full.json").symlink_to("/dev/full")
    ended = run(*CONTEXTS, "-o", "full.json", x_jsonl=GOOD * 3000)
    assert ended.code == 1
    assert len(statuses_in(tmp_path)) > 100


def test_a_disk_that_fills_up_keeps_what_fits(run, tmp_path):
    ended = run(*CONTEXTS, limits={"RLIMIT_FSIZE": 100_000}, x_jsonl=GOOD * 3000)
    assert (ended.code, ended.err) == (
        1,
        "assay: out.jsonl: expected a file that can be written, got File too large\n",
    )
    *whole, cut = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert {json.loads(line)["status"] for line in whole} == {"completed"}
    assert sum(map(len, whole)) + len(whole) + len(cut) == 100_000


BROKEN = gzip.compress(GOOD * 12_000)


@pytest.mark.parametrize(
    ("data", "kept"),
    [(BROKEN[: len(BROKEN) // 2], 3_000), (BROKEN[:-8] + b"12345678", 8_000), (GOOD, 0)],
    ids=["cut", "wrong sum", "not zipped"],
)
def test_broken_gzip_keeps_what_could_be_read(run, tmp_path, data, kept):
    ended = run("--contexts", "x.jsonl.gz", *CONTEXTS[2:], x_jsonl_gz=data)
    assert ended.code == 1
    assert ended.err.startswith("assay: x.jsonl.gz: the gzip data is broken: ")
    assert not kept or len(statuses_in(tmp_path)) >= kept


# two files side by side


@pytest.mark.parametrize(
    ("cases", "outputs", "code", "words", "kept"),
    [
        (CASE * 2, OUTPUT * 3, 2, "outputs: k.jsonl has 2 test cases and v.jsonl has 3 outputs: expected one for each", None),
        (CASE * 2, OUTPUT, 2, "k.jsonl has 2 test cases and v.jsonl has 1 outputs", None),
        (CASE * 2, OUTPUT + b"nope\n", 1, "v.jsonl:2: not JSON", 1),
        (CASE + b"3\n", OUTPUT * 2, 1, "k.jsonl:2 with v.jsonl:2: test_case: expected an object with id and input", 1),
        (CASE * 2, OUTPUT + b'{"value":1},"x":1\n', 1, "v.jsonl:2: not JSON: trailing characters", 1),  # no way out of its place
    ],
)  # fmt: skip
def test_two_files_that_do_not_fit(run, tmp_path, cases, outputs, code, words, kept):
    ended = run("--cases", "k.jsonl", "--outputs", "v.jsonl", *CONTEXTS[2:], k_jsonl=cases, v_jsonl=outputs)
    assert ended.code == code
    assert ended.err.startswith("assay: ")
    assert words in ended.err.splitlines()[0]
    assert kept is None or len(statuses_in(tmp_path)) == kept


def test_outputs_on_a_pipe_that_ends_early_are_an_error(run, tmp_path):
    ended = run("--cases", "k.jsonl", "--outputs", "-", *CONTEXTS[2:], stdin=OUTPUT, k_jsonl=CASE * 2)
    assert (ended.code, len(statuses_in(tmp_path))) == (1, 1)
    assert "k.jsonl has more than 1 test cases and - has 1 outputs" in ended.err


# YAML and CSV

BOMB = "- &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"- &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML = "- {test_case: {id: a, input: q, expected: x}, output: {value: x}}\n"
CSV = "id,input,expected,output\na,q,x,x\n"


BAD_TEXTS = [
    ("yaml", BOMB, "x.yaml: its aliases expand to more than 20000000 values", 0),
    ("yaml", "- &a [*a]\n", "x.yaml: expected an alias of another collection, got one of the collection around it", 0),
    ("yaml", "[" * 100_000, "x.yaml: nested more than 1000 deep", 0),
    ("yaml", "- " * 5_000 + "x", "x.yaml: nested more than 1000 deep", 0),
    ("yaml", YAML + YAML.replace("q", ".nan"), "x.yaml[1]: test_case.input: NaN and infinity are not JSON numbers", 1),
    ("yaml", YAML + YAML.replace("q", "1" * 5000), "x.yaml:2: not YAML that can be read: a number is too large", 0),
    ("yaml", YAML + "- [\n", "x.yaml:3: not YAML: ", 0),
    ("yaml", YAML + "- !!python/object/apply:os.system [ls]\n", "x.yaml:2: not YAML that can be read: unknown tag !!python/object/apply:os.system; the tags are !!str", 0),
    ("yaml", YAML + YAML.replace("input: q", "1: q"), "x.yaml:2: not YAML that can be read: a key must be text, got 1; put it in quotes: \"1\"", 0),
    ("yaml", YAML + YAML.replace("input: q", "true: q"), "x.yaml:2: not YAML that can be read: a key must be text, got true", 0),
    ("yaml", YAML + YAML.replace("input: q", "? [q]\n : q"), "x.yaml:2: not YAML that can be read: a key must be text, got a list", 0),
    ("yaml", YAML + YAML.replace("input: q", "input: q, input: r"), "x.yaml:2: not YAML that can be read: the key 'input' occurs twice", 0),
    ("yaml", YAML + YAML.replace("input: q", "<<: {input: q}"), "x.yaml:2: not YAML that can be read: << merges in YAML 1.1 only", 0),
    ("yaml", YAML + YAML.replace("input: q", "input: !!int 012"), "x.yaml:2: not YAML that can be read: '012' is not a valid !!int", 0),
    ("yaml", YAML + YAML.replace("input: q", "input: *q"), "x.yaml:2: not YAML: found undefined alias 'q'", 0),
    ("yaml", YAML + "---\n" + YAML, "x.yaml:2: not YAML: expected one document, got another one here", 0),
    ("yaml", YAML + "- \udcff\n", "x.yaml: not UTF-8 (byte ", 0),
    ("yaml", YAML + '- "\\ud800"\n', "x.yaml:2: not YAML: found invalid Unicode", 0),
    ("yaml", "a: 1\n", "x.yaml: expected a list", 0),
    ("json", "[\n\n{]", "x.json:3: not JSON: ", 0),
    ("json", '[{"test_case":{"id":"a"', "x.json: not JSON: input data was truncated", 0),
    ("csv", CSV + "a,q,x,x,more\n", "x.csv:3: expected 4 cells, as in the header, got 5", 1),
    ("csv", CSV + 'a,"q,x,x\n', "x.csv:3: not CSV: unexpected end of data", 1),
    ("csv", CSV + 'a,"q"q,x,x\n', "x.csv:3: not CSV: ',' expected after '\"'", 1),
    ("csv", "id,id,input,output\na,b,c,d\n", "x.csv:1: expected different columns, got 'id' twice", 0),
    ("csv", "id,input,expected,output.value,output\na,b,x,c,d\n", "x.csv:2: output: expected one column for this member, got two", 0),
    ("csv", "id,input,expected,output,output.value\na,b,x,c,d\n", "x.csv:2: output.value: expected a column 'output' or columns for its members", 0),
    ("csv", "id,input:json,expected,output\na,{,x,c\n", "x.csv:2: input: not JSON: input data was truncated", 0),
]  # fmt: skip


def test_a_bad_text_names_its_file_and_place(run_each):
    runs = [
        (
            ["--contexts", f"x.{ending}", *CONTEXTS[2:]],
            {f"x_{ending}": text.encode("utf-8", "surrogateescape")},
        )
        for ending, text, _, _ in BAD_TEXTS
    ]
    for (folder, ended), (_, _, words, kept) in zip(run_each(*runs), BAD_TEXTS, strict=True):
        assert (ended.code, len(statuses_in(folder))) == (1, kept)
        assert ended.err.startswith(f"assay: {words}")
        assert len(ended.err.splitlines()) == (2 if kept else 1)


@pytest.mark.parametrize(
    ("ending", "text"),
    [("csv", CSV + "a,q,x,x,more\na,q,x,x\n"), ("yaml", YAML + YAML.replace("q", ".nan") + YAML)],
)
def test_a_bad_row_or_item_can_be_skipped_like_a_line(run, tmp_path, ending, text):
    ended = run(
        "--contexts", f"x.{ending}", *CONTEXTS[2:], "--skip-bad-lines", **{f"x_{ending}": text.encode()}
    )
    assert (ended.code, len(statuses_in(tmp_path))) == (1, 2)


# a request, and checks


def request(checks: Any = None, **members: Any) -> Any:
    whole = {
        "test_cases": [{"id": "a", "input": "q", "expected": "x"}],
        "outputs": [{"value": "x"}],
        "checks": [MATCH] if checks is None else checks,
    }
    return {**whole, **members}


def check(type: str, **arguments: Any) -> Any:
    return {"type": type, "arguments": arguments}


TWO = [{"id": "a", "input": "q"}, {"id": "a", "input": "other"}]
NESTED = json.loads("[" * 600 + "]" * 600)


BAD_REQUESTS = [
    (b'{\n"test_cases":[\n', "request.json:2: not JSON: input data was truncated"),
    ([], "request.json: expected an object with test_cases, outputs and checks"),
    (request(more=1), "request.json: more: a request has no such member"),
    (request(outputs=[]), "outputs: 0 outputs for 1 test cases: expected one for each"),
    (request(outputs=3), "outputs: expected a list"),
    (request(test_cases=[{"id": 1, "input": 1}]), "test_cases[0].id: expected a string, got a number"),
    (request(test_cases=TWO, outputs=[{"value": 1}] * 2), "test_cases[1].id: 'a' is already the id of another test case"),
    (request([check("vibes")]), "checks[0].type: there is no check 'vibes'; there are answer_relevance, bleu, "),
    (request([{**MATCH, "version": "9.0.0"}]), "checks[0].version: there is no check 'exact_match@9.0.0'; there are exact_match@1.0.0"),
    (request([{**MATCH, "version": "one"}]), "checks[0].version: expected a semantic version"),
    (request([{**MATCH, "more": 1}]), "checks[0].more: no such member; there are type, arguments, version"),
    (request([check("contains", text="$.output.value", phrases=["x"], fuzzy=True)]), "checks[0].arguments.fuzzy: contains takes no such argument"),
    (request([check("contains", text="$.output.value")]), "checks[0].arguments.phrases: contains needs this argument"),
    (request([check("threshold", value="$.output.value", min_value="3")]), "checks[0].arguments.min_value: expected a number"),
    (request([check("regex", text="x", pattern="(")]), "checks[0].arguments.pattern: not a regular expression: missing )"),
    (request([check("regex", text="x", pattern="(" * 5000 + ")" * 5000)]), "checks[0].arguments.pattern: not a regular expression: it is too large or nested too deeply"),
    (request([check("regex", text="x", pattern="a{99999999999}")]), "checks[0].arguments.pattern: not a regular expression: it is too large"),
    (request([check("json_schema", value=1, schema={"type": "nope"})]), "checks[0].arguments.schema: not a JSON Schema"),
    (request([check("json_match", actual=1, expected=NESTED)]), "checks[0]: nested more than 500 deep, which is the limit"),
    (request([MATCH, [MATCH]]), "checks: expected one list of checks for all cases, or one list a case; got a mixture"),
    (request([[MATCH], [MATCH]]), "checks: 2 lists of checks for 1 test cases: expected one for each"),
    (request(test_cases=[{"id": "a", "input": 1, "checks": [MATCH]}]), "test_cases[0].checks: expected checks in this case or in the request, got both"),
    (request(experiment_metadata=3), "request.json: experiment_metadata: "),
]  # fmt: skip


def test_a_bad_request_is_refused(run_each):
    runs = [(["request.json", "-o", "out.jsonl"], {"request_json": body}) for body, _ in BAD_REQUESTS]
    for (folder, ended), (_, words) in zip(run_each(*runs), BAD_REQUESTS, strict=True):
        assert (ended.code, ended.out) == (2, "")
        (line,) = ended.err.splitlines()
        assert line.startswith("assay: ")
        assert words in line
        assert not (folder / "out.jsonl").exists()


PROBLEMS = [
    ({"type": "vibes"}, ["arguments", "type"]),
    ({"type": "vibes", "arguments": [], "version": 1}, ["arguments", "version", "type"]),
    ({"type": "regex", "arguments": []}, ["arguments"]),  # which are not missing besides
    ({**check("regex", text="x", pattern="("), "more": 1}, ["more", "arguments.pattern"]),
    (check("regex", text="x", pattern="(", flags={"loud": 1}), ["arguments.flags.loud", "arguments.pattern"]),
]  # fmt: skip


@pytest.mark.parametrize("where", ["checks", "test_cases[0].checks", "test_case.checks"])
def test_no_problem_of_a_check_hides_another(run_each, where):
    runs = []
    for one, _ in PROBLEMS:
        case = {"id": "a", "input": 1, "checks": [one]}
        body = {"test_cases": [case], "outputs": [{"value": 1}]} if "[0]" in where else request([one])
        line = json.dumps({"test_case": case, "output": {"value": 1}}).encode()
        arguments = ["--contexts", "x.jsonl"] if where == "test_case.checks" else ["request.json"]
        runs.append((arguments, {"request_json": body, "x_jsonl": line}))
    for (_, ended), (_, places) in zip(run_each(*runs), PROBLEMS, strict=True):
        if where == "test_case.checks":  # the problems of a line are one message
            assert ended.code == 1
            assert [place for place in places if f"{where}[0].{place}: " not in ended.err] == []
            continue
        assert ended.code == 2
        lines = zip(ended.err.splitlines(), places, strict=True)
        assert [line for line, place in lines if f" {where}[0].{place}: " not in line] == []


BAD_CHECKS = [
    (
        b"- {type: threshold, arguments: {value: 1, min_value: .nan}}",
        "NaN and infinity are not JSON numbers",
    ),
    (
        b"- &a [*a]",
        "checks.yaml: expected an alias of another collection, got one of the collection around it",
    ),
    (b"- [", "checks.yaml:2: not YAML"),
    (b"- {[1]: 2}", "checks.yaml:1: not YAML"),
    (b"a: 1", "checks.yaml: expected a list of checks"),
    (
        b"- {type: contains, version: 1.0, arguments: {text: a, phrases: [a]}}",
        "checks.yaml: checks[0].version: expected a string or null, got a number",
    ),
]


def test_a_bad_file_of_checks_is_refused(run_each):
    arguments = ["--contexts", "x.jsonl", "--checks", "checks.yaml", "-o", "out.jsonl"]
    runs = [(arguments, {"x_jsonl": GOOD, "checks_yaml": text}) for text, _ in BAD_CHECKS]
    for (folder, ended), (_, words) in zip(run_each(*runs), BAD_CHECKS, strict=True):
        assert ended.code == 2
        (line,) = ended.err.splitlines()
        assert words in line
        assert not (folder / "out.jsonl").exists()


DEEP = json.loads('{"a":' * 150 + "[1, 2, 3]" + "}" * 150)


CASE_ERRORS = [
    (check("exact_match", actual="$.output[", expected="x"), "jsonpath_error", "malformed path '$.output[' at position 9"),
    (check("exact_match", actual="$.", expected="x"), "jsonpath_error", "malformed path '$.' at position 2"),
    (check("exact_match", actual="$.a[?" + "(" * 3000 + "@" + ")" * 3000 + "]", expected="x"), "jsonpath_error", "malformed path"),
    (check("exact_match", actual="$.output.no", expected="x"), "jsonpath_error", "actual: $.output.no finds nothing"),
    (check("exact_match", actual="$..id", expected="x"), "jsonpath_error", "finds 2 values; this argument takes one"),
    (check("exists", path="$.output[?@..*..*..*..* == 1]"), "jsonpath_error", "malformed path"),
    (check("exists", path="$..[?search(@, '(a+)+b')]"), "jsonpath_error", "path: the path takes more than 1 seconds"),
    (check("regex", text="$.output.text", pattern="(a+)+$"), "timeout_error", "this pattern backtracks too much on this text"),
    (check("regex", text="$.output.text", pattern="$.output.pattern"), "validation_error", "pattern: not a regular expression: it is too large or nested too deeply"),
    (check("threshold", value="$.output.text", min_value=1), "validation_error", "value: expected a number"),
    (check("exact_match", actual="$.output.nothing", expected="x"), "validation_error", "expected a text or a value that can be written as text"),
]  # fmt: skip


def test_a_problem_of_one_case_is_an_error_of_its_check(run, tmp_path):
    output = {
        "id": "b", "value": "x", "deep": DEEP, "text": "a" * 5000 + "!", "pattern": "(" * 5000 + ")" * 5000, "nothing": None,
    }  # fmt: skip
    checks = [row[0] for row in CASE_ERRORS]
    ended = run("request.json", "-o", "out.jsonl", request_json=request([*checks, MATCH], outputs=[output]))
    assert (ended.code, ended.messages) == (1, [])
    errors = errors_in(tmp_path)
    assert [error["type"] for error in errors] == [type for _, type, _ in CASE_ERRORS]
    for error, (_, _, words) in zip(errors, CASE_ERRORS, strict=True):
        assert words in error["message"]
    (result,) = results_in(tmp_path)
    assert result["check_results"][-1]["results"] == {"passed": True}


# checks that misbehave


NO_ANSWER = "no answer within 5 s"
MISBEHAVIOUR = {  # each row is one run; what blocks the event loop or takes a process with it has a run of its own
    "Sync": [
        {
            "spins": NO_ANSWER,
            "sleeps": NO_ANSWER,
            "waits": NO_ANSWER,
        },  # the last one gives something to wait for
        {
            "raises": "mine failed with ValueError: boom",
            "raises mute": "mine failed with Mute: (no message",
            "raises beyond": "mine failed with Beyond: boom",
            "exits": "mine failed with SystemExit: 0",
            "nothing": "mine answered nothing; expected an object",
            "a list": "mine answered list; expected an object",
            "nan": "mine answered NaN or infinity",
            "yes": "mine answered passed: 'yes'; expected true or false",
            "no json": "mine answered something that is not JSON",
            "surrogate": "mine answered something that is not JSON",
            "itself": "mine answered something that is not JSON",
            "huge": "mine answered score: a number beyond 1.8e+308, the range of a score",
        },
    ],
    "Async": [
        {"waits": NO_ANSWER, "stubborn": f"{NO_ANSWER}, and the check ignores cancellation"},
        {"spins": f"{NO_ANSWER}: the check blocks the event loop"},
        {"sleeps": f"{NO_ANSWER}: the check blocks the event loop"},
        {
            "cancels itself": "mine cancelled itself",
            "raises": "mine failed with ValueError: boom",
            "raises mute": "mine failed with Mute: (no message",
            "raises beyond": "mine failed with Beyond: boom",
            "exits": "mine failed with SystemExit: 0",
            "nothing": "mine answered nothing; expected an object",
        },
    ],
    "Quick": [
        {
            "raises beyond": "mine failed with Beyond: boom",
            "waits": "mine answered coroutine; expected an object",
        }
    ],
    "Apart": [
        {
            "dies": "mine ended its process (exit code 7)",
            "is killed": "mine ended its process (killed by signal 9)",
            "exits": "mine failed with SystemExit: 0",
            "yes": "mine answered passed: 'yes'",
        },
        {"spins": "no answer within 30 s; its process was killed"},
    ],
}


# what waits for most of a minute begins first, beside the others
LONG = pytest.mark.together("a check that spins in its process")


@pytest.mark.parametrize(
    ("kind", "ways"),
    [
        pytest.param(kind, ways, marks=LONG if kind == "Apart" and "spins" in ways else ())
        for kind, rows in MISBEHAVIOUR.items()
        for ways in rows
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_check_that_misbehaves_harms_only_itself(run, tmp_path, kind, ways):
    # a process is slow to answer on a busy machine
    seconds = 5 if kind != "Apart" else 30 if "spins" in ways else 100
    after = {"spins": seconds - 0.5}  # it spins when its time is up, and takes no CPU time before
    ended = run(
        *CONTEXTS,
        *(
            "--check-module",
            f"support.checks.bad_checks:{kind}",
            "--timeout",
            f"{seconds}",
            "--concurrency",
            "3",
        ),
        x_jsonl=GOOD * 3 + BAD + GOOD * 3,
        checks_json=[
            *(check("mine", how=how, text="$.output.value", after=after.get(how, 0)) for how in ways),
            MATCH,
        ],
    )
    assert (ended.code, ended.messages) == (1, [])
    assert statuses_in(tmp_path) == ["completed"] * 3 + ["error"] + ["completed"] * 3
    errors = errors_in(tmp_path)
    assert len(errors) == len(ways)
    for error, words in zip(errors, ways.values(), strict=True):
        assert words in error["message"]
        assert error["type"] == ("timeout_error" if "no answer within" in words else "unknown_error")


BAD_MODULES = [
    ("no_such_module:Check", "expected code that can be loaded, got ModuleNotFoundError"),
    (
        "no_such_module.py:Check",
        "expected code that can be loaded, got ImportError: there is no file no_such_module.py",
    ),
    ("support.checks.bad_checks:Nobody", "expected code that can be loaded, got AttributeError"),
    ("support.checks.bad_checks", "expected module:name or file.py:name of a class or function"),
    ("support.checks.bad_checks:spins", "spins: expected parameters with names, such as output"),
    ("support.checks.bad_checks:__name__", "expected a function or a subclass of assay.Checker"),
    ("leaves:Check", "expected code that can be loaded, got SystemExit"),
    ("clumsy:Check", "expected code that can be loaded, got SyntaxError"),
    ("nameless:Check", "has no `type`"),
]


def test_a_module_of_checks_that_cannot_be_used_is_refused(run_each):
    files = {
        "x_jsonl": GOOD,
        "leaves_py": b"import sys; sys.exit(0)",
        "clumsy_py": b"class Check(",
        "nameless_py": b"import assay\nclass Check(assay.Checker):\n    def run(self, services): ...",
    }
    runs = [([*CONTEXTS, "--check-module", module], files) for module, _ in BAD_MODULES]
    for (_, ended), (_, words) in zip(run_each(*runs), BAD_MODULES, strict=True):
        assert ended.code == 2
        (line,) = ended.err.splitlines()
        assert words in line


# the world around it


def unread_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["quick", "waiting", "slow"])
def test_an_interrupted_evaluation_keeps_its_results(zygote, tmp_path, kind, sign):
    """
    `quick` and `waiting` read from a pipe that stays open until the command has ended, the latter on an event loop.
    `slow` waits for a check.
    """
    slow = [check("mine", how="sleeps", text="$.output.value")]
    write(tmp_path, checks_json=[MATCH] if kind == "quick" else slow)
    more = [] if kind == "quick" else ["--check-module", "support.checks.bad_checks:Sync"]
    reading, writing = os.pipe()
    arguments = ["--contexts", "-", *CONTEXTS[2:], *more]
    process = zygote.start("evaluate", *arguments, folder=tmp_path, stdin=reading)
    with os.fdopen(reading), os.fdopen(writing, "wb") as lines:
        lines.write(GOOD * 1500 + (BAD if kind == "slow" else b""))
        lines.flush()
        if kind == "slow":
            lines.close()
        results = tmp_path / "out.jsonl"
        wait_until(lambda: results.exists() and results.stat().st_size)
        wait_until(lambda: unread_bytes(reading) == 0 and is_asleep(process.pid))
        process.send_signal(sign)
        process.wait(PATIENCE)
    ended = CommandResult(process.returncode, *process.communicate())
    assert ended.code == 1
    assert ended.err.startswith("assay: interrupted after ")
    assert ended.err.endswith("; the others were not measured\n")
    kept = len(statuses_in(tmp_path))
    assert kept > 0
    assert f"after 1 case, {kept:,} trials;" in ended.err


@pytest.mark.sample(2)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("$ASSAY -o - | head -1 | grep -c completed; exit ${PIPESTATUS[0]}", 1, "assay: -: expected a file that can be written, got Broken pipe"),
        ("$ASSAY | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("$ASSAY --json | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("$ASSAY >/dev/full", 1, "assay: standard output: No space left on device"),
        ("$ASSAY --json >/dev/full", 1, "assay: standard output: No space left on device"),
        ("$ASSAY -o - >/dev/full", 1, "assay: -: expected a file that can be written, got No space left on device"),
        ("$ASSAY >&-", 0, ""),
        ("$ASSAY 2>&-", 0, ""),
        ("$ASSAY >&- 2>&- <&-", 0, ""),
        ("PYTHONIOENCODING=ascii PYTHONUTF8=0 LC_ALL=C $ASSAY", 0, ""),
    ],
)  # fmt: skip
def test_a_reader_that_closes_the_pipe_ends_the_command_quietly(
    zygote, tmp_path, script, code, words, unbuffered
):
    write(tmp_path, x_jsonl=GOOD * 2_000)
    needs_own_start = "&-" in script or "PYTHON" in script  # what only Python's own start can show
    evaluate = EVALUATE if needs_own_start else [str(zygote.bin / "assay"), "evaluate"]
    assay = " ".join([*evaluate, "--contexts x.jsonl --checks checks.json"])
    done = subprocess.run(
        ["bash", "-c", script.replace("$ASSAY", assay)],
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    ended = CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert ended.code == code
    assert ended.err.strip() == words
