"""What reaches a terminal deceives nobody: no control, no hidden sign, no line that passes for ours; a machine gets the same document."""

import ast
import csv
import io
import json
import logging
import re
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.cli.stored_runs.run_list import RunRow, show_rows
from assay.fep.outputs.result_tables import encode_row
from assay.ports import Run
from assay.runs.run_statistics import CaseCounts, Cost, RunStatistics, Score
from assay.serve.web.logging import JsonFormatter, TextFormatter
from assay.terminal import as_json_escapes, lines, one_line
from support.commands.command import run_on_terminal
from support.evals import golden, suite_of

HOSTILE = "\x1b]0;pwned\x07\x1b[31m\x9b2J\x7f\r\u202egood\u200b\u2028\U000e0041\ngoal reached"
VISIBLE = r"\x1b]0;pwned\x07\x1b[31m\x9b2J\x7f\r\u202egood\u200b\u2028\U000e0041\ngoal reached"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
JOINED = {"\u200c", "\u200d"}


def deceives(text, *, newlines=True):
    """The signs of a text that no terminal may get."""
    return {
        sign
        for sign in text
        if (unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") and sign not in JOINED)
        and not (newlines and sign == "\n")
    }


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_deceives(text):
    shown = one_line(text)
    assert not deceives(shown, newlines=False) - {"\u06dd", "\u070f"} - {
        sign for sign in shown if 0x600 <= ord(sign) <= 0x605 or 0x890 <= ord(sign) <= 0x891
        or ord(sign) == 0x8E2 or 0x110BD <= ord(sign) <= 0x1D17A
    }  # fmt: skip  # signs of scripts and of music, which are seen
    assert one_line(shown) == shown
    assert not deceives(lines(text)) & set(HOSTILE)
    assert all(line.startswith("  ") for line in lines(text).split("\n")[1:])


@given(st.recursive(st.text() | st.integers(), lambda some: st.dictionaries(st.text(), some, max_size=3)))
def test_a_document_is_the_same_with_its_escapes(value):
    encoded = msgspec.json.encode(value).decode()
    shown = as_json_escapes(encoded)
    assert json.loads(shown) == value
    assert not deceives(shown) & set(HOSTILE)


@pytest.mark.parametrize(
    "text",
    ["", "plain", "naïve café", "हिन्दी", "می‌خواهم", "日本語", "👨‍👩‍👧", "❤️‍🔥", "1️⃣", r"C:\new", "ŝ“”–…✓"],
)
def test_words_of_any_script_stay_as_they_are(text):
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, VISIBLE),
        ("a\u200db", "a\\u200db"),
        ("x\ufe0f", "x\\ufe0f"),
        ("é\u200d\u200d", "é\u200d\\u200d"),
        ("\ud83d", "\\ud83d"),
        ("\0", "\\x00"),
    ],
)
def test_a_sign_that_hides_is_its_escape(text, shown):
    assert one_line(text) == shown


CHECK = """
from assay import Checker, Text

class Bad(Checker):
    type = "bad"
    waits = False
    text: Text
    def run(self, services):
        raise ValueError(self.text)

def agent(task):
    if task == "raise":
        raise ValueError(HOSTILE)
    return task

def critic(about):
    raise ValueError(HOSTILE)

HOSTILE = {hostile!r}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "mine.py").write_text(CHECK.replace("{hostile!r}", repr(HOSTILE)))
    named = HOSTILE.replace("\n", "").replace("\u2028", "")
    (folder / f"{named}.jsonl").write_text("not json\n")
    cases = [{"test_case": {"id": HOSTILE, "input": 1}, "output": {"value": HOSTILE, "id": "=1+1"}}]
    (folder / "contexts.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    checks = [{"type": "bad", "arguments": {"text": "$.output.value"}}]
    (folder / "checks.json").write_text(json.dumps(checks))
    (folder / "named.json").write_text(json.dumps([{"type": HOSTILE, "arguments": {}}]))
    suite = suite_of(golden("a", HOSTILE, "raise"), golden("b", HOSTILE, HOSTILE + "!"))
    (folder / "suite.json").write_text(json.dumps(suite))
    (folder / "wrong.json").write_text(json.dumps({**suite, "suiteId": HOSTILE, HOSTILE: 1}))
    quoted = '"' + "".join(f"\\U{ord(sign):08x}" for sign in HOSTILE) + '"'
    (folder / "assay.toml").write_text(
        f'[providers.{quoted}]\nkind = "openai_compatible"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    return folder


EVALUATE = (
    "evaluate",
    "--contexts",
    "contexts.jsonl",
    "--checks",
    "checks.json",
    "--check-module",
    "mine:Bad",
)
VERIFY = ("verify", "--actor", "mine:agent", "--critic", "mine:critic", "--max-turns", "1")
ROWS = [
    (*EVALUATE, "--save", "--experiment", "mine"),
    (*EVALUATE, "--json"),
    (*EVALUATE, "-o", f"{HOSTILE}.jsonl", "-o", "results.csv"),
    ("evaluate", "--contexts", "contexts.jsonl", "--checks", "named.json"),
    ("evaluate", "--check-module", "mine:Bad", "--contexts", HOSTILE.replace("\n", "").replace("\u2028", "") + ".jsonl", "--checks", "checks.json"),
    ("evaluate", "--contexts", f"missing{HOSTILE}.jsonl", "--checks", "checks.json"),
    ("evaluate", f"--{HOSTILE}"),
    ("evaluate", "--jobs", HOSTILE),
    (HOSTILE,),
    ("list",),
    ("list", "--experiment", HOSTILE + "?"),
    ("list", "--json"),
    ("show", "latest"),
    ("show", "latest", "--json"),
    ("show", HOSTILE),
    ("run", "suite.json", "--agent", "mine:agent", "--tag", f"k={HOSTILE}"),
    ("run", "suite.json", "--agent", f"mine:{HOSTILE}"),
    ("run", "wrong.json", "--agent", "mine:agent"),
    ("show", "latest"),
    ("list",),
    ("annotate", "latest", "--task", HOSTILE, "--passed"),
    ("annotate", "latest", "--task", "a", "--rating", "1", "--note", HOSTILE),
    ("suite", "show", "suite.json"),
    ("suite", "show", "suite.json", "--json"),
    ("validate", "suite.json", "wrong.json"),
    (*VERIFY, "--task", HOSTILE),
    (*VERIFY, "--task", HOSTILE, "--json"),
    (*VERIFY, "--task", "raise", "--criterion", HOSTILE),
    ("show", "latest"),
    ("respond", "latest", "--accept"),
    ("respond", "latest", "--answer", HOSTILE),
    ("admin", "key", "create", "--tenant", "t", "--note", HOSTILE),
    ("admin", "key", "create", "--tenant", HOSTILE),
    ("admin", "key", "list"),
    ("admin", "key", "list", "--json"),
    ("admin", "key", "revoke", HOSTILE),
    ("admin", "audit", "show"),
    ("admin", "audit", "verify", "--heads", HOSTILE),
    ("providers", "list"),
    ("providers", "list", "--json"),
    ("schema", HOSTILE),
    ("export", "latest", "-o", HOSTILE),
    ("admin", "delete", HOSTILE, "--yes"),
    ("admin", "delete", "latest", "--yes"),
    ("show", "latest"),
]  # fmt: skip


def test_no_verb_prints_a_control_character(command, folder):
    output = list(zip(ROWS, command.each(ROWS, folder=folder), strict=True))
    through = [(row, found) for row, done in output if (found := deceives(done.out + done.err))]
    assert not through
    forged = [row for row, done in output if "goal reached" in (done.out + done.err).split("\n")]
    assert not forged
    bugs = [(row, done.err) for row, done in output if "a bug in assay" in done.err]
    assert not bugs
    shown = [row for row, done in output if r"\x1b[31m" in done.out + done.err]
    assert len(shown) > 25, "the text was shown, as its escapes"


def test_results_on_a_terminal_are_escaped_and_in_a_file_as_they_are(folder):
    shown = run_on_terminal(*EVALUATE, "-o", "-", folder=folder)
    document = next(line for line in shown.splitlines() if line.startswith("{"))
    assert not deceives(document) & set(HOSTILE)
    assert json.loads(document)["execution_context"]["output"]["value"] == HOSTILE


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        (" =1", "' =1"),
        ("＝1", "'＝1"),
        ("-", "'-"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        ("a=1", "a=1"),
        ("'=1", "''=1"),
        (-5, "-5"),
        ("", ""),
        ('=HYPERLINK("http://x";"y")', '\'=HYPERLINK("http://x";"y")'),
    ],
)
def test_a_cell_is_no_formula(value, cell):
    (read,) = csv.reader(io.StringIO(encode_row([value, "end"]).decode(), newline=""))
    assert read == [cell, "end"]


def test_every_csv_goes_through_that_row():
    source = Path(assay.__file__).parent
    writers = [path.name for path in source.rglob("*.py") if "csv.writer" in path.read_text()]
    assert writers == ["result_tables.py"]


def test_only_the_console_prints_and_only_its_tables_import_rich():
    """`print` only in console.py, rich only in console_table.py."""
    folder = Path(assay.__file__).parent / "cli"
    elsewhere = []
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and ast.unparse(node.func)
            if (
                called in ("print", "typer.echo", "typer.secho", "sys.stdout.write")
                and path.name != "console.py"
            ):
                elsewhere.append(f"{path.name}:{node.lineno}")
            loads = isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "rich"
            if loads and path.name != "console_table.py":
                elsewhere.append(f"{path.name}:{node.lineno}")
    assert not elsewhere


@pytest.mark.parametrize("form", [TextFormatter(), JsonFormatter()])
def test_a_log_line_is_one_line(form):
    record = logging.LogRecord("assay", logging.ERROR, __file__, 1, "run %s", (HOSTILE,), None)
    record.route = HOSTILE
    line = form.format(record)
    assert not deceives(line, newlines=False)
    assert r"\u202e" in line


LIBRARY = """
import logging
from assay.cli.main import _prepare_streams
_prepare_streams()
logging.warning("first \\x1b[31m")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("library").exception("second\\nline")
"""


def test_a_library_that_logs_an_exception_prints_one_line():
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    assert first == "first \\x1b[31m"
    assert second.startswith("second")
    assert done.stdout == ""


@pytest.mark.parametrize(("width", "headings"), [
    (60, "check passed failed pass rate (95%)"),
    (72, "check passed failed cases pass rate (95%)"),
    (100, "check passed failed error skip cases pass rate (95%)"),
])  # fmt: skip
def test_the_table_of_checks_fits_a_narrow_terminal_with_all_its_numbers(width, headings, tmp_path):
    contexts = [{"test_case": {"id": id, "input": 1}, "output": {"value": id}} for id in "ab"]
    (tmp_path / "contexts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in contexts))
    arguments = {"text": "$.output.value", "phrases": ["a"]}
    names = ("a-name-of-a-check-that-is-long", "short")
    checks = [{"type": "contains", "name": name, "arguments": arguments} for name in names]
    (tmp_path / "checks.json").write_text(json.dumps(checks))
    options = ("--contexts", "contexts.jsonl", "--checks", "checks.json")
    shown = ANSI.sub("", run_on_terminal("evaluate", *options, folder=tmp_path, columns=width, code=0))
    assert all(len(line.rstrip()) <= width for line in shown.splitlines()), shown
    lines = [line.split() for line in shown.splitlines()]
    start = next(
        at for at, line in enumerate(lines) if line[:1] == ["check"]
    )  # after a line of progress on a busy machine
    heading, *rows = lines[start : start + 4]
    assert " ".join(heading) == headings
    assert len([row for row in rows if row[1:3] == ["1", "1"] and row[-2:] == ["50.0%", "(9.5–90.5%)"]]) == 2


@pytest.mark.parametrize("width", [40, 50, 60, 80])
def test_the_list_of_runs_fits_a_narrow_terminal(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    made = datetime.now(UTC)
    runs = [
        Run(
            id=f"eval_{at:010}{at:018}",
            tenant="t",
            kind="evaluation",
            created=made,
            metadata={"total": 34_567},
        )
        for at in range(2)
    ]
    statistics = RunStatistics(
        score=Score(name="case pass rate", scale="rate", value=0.123, cases=12),
        cases=12,
        results=12,
        counts=CaseCounts(failed=12),
        cost=Cost(known_usd=1.5),
    )
    rows = [RunRow(run=run, statistics=statistics) for run in runs]
    show_rows(rows)
    shown = ANSI.sub("", capsys.readouterr().out)
    assert all(len(line) <= width for line in shown.split("\n")), shown
    assert shown.count("12.3%") == shown.count("12 of 34,567") == shown.count("$1.5") == 2
