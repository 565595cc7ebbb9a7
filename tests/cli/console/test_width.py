"""No line that a person reads is wider than the terminal, or than 120 columns. JSON, CSV and Markdown do not wrap.

`tests/golden` looks at every line of its sessions.
"""

import json
import re
import shlex

from hypothesis import given
from hypothesis import strategies as st

from assay.cli.console.console import MIN_WIDTH, WIDEST, columns_of, wrap, wrap_command
from support.commands.command import run_on_terminal
from support.evals import golden, suite_of

TEXTS = st.text(" aé漢́🙂0-:") | st.text(" ab", max_size=400) | st.text(max_size=300)
WIDTHS = st.integers(MIN_WIDTH, WIDEST)


@given(TEXTS, WIDTHS, st.none() | st.text(" ", max_size=90))
def test_no_line_is_wider_than_the_width_and_only_spaces_are_lost(text, width, indent):
    lines = wrap(text, width, indent)
    assert [line for line in lines if columns_of(line) > width and "://" not in line] == []
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.text("ab'\" \\-é", min_size=1, max_size=18), min_size=1, max_size=30), WIDTHS)
def test_a_wrapped_command_is_the_same_command(words, width):
    command = shlex.join(["assay", *words])
    lines = wrap_command(command, width)
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == ["assay", *words]
    assert [
        line for line in lines if columns_of(line) > width and len(shlex.split(line.rstrip("\\"))) > 1
    ] == []


def test_a_terminal_that_is_wider_has_lines_of_120_columns(tmp_path):
    for columns, most in ((60, 60), (300, WIDEST)):
        screen = run_on_terminal("list", *["unexpected"] * 40, folder=tmp_path, columns=columns, code=2)
        widths = [columns_of(line.rstrip("\r")) for line in screen.splitlines()]
        assert most - 20 < max(widths) <= most
        assert len(widths) > 1


def test_a_long_reason_wraps_in_a_pipe_and_no_word_is_lost(tmp_path, command):
    words = [f"word{number}" for number in range(100)] + ["x" * 500]
    done = command("list", " ".join(words), folder=tmp_path)
    lines = done.wrapped_err.splitlines()
    assert done.code == 2
    assert len(lines) > 5
    assert max(map(columns_of, lines)) <= WIDEST
    assert "".join(words) in "".join(lines).replace(" ", "")


def test_a_reason_of_a_run_in_a_pipe_wraps_at_120_columns_and_what_is_cut_has_a_mark(tmp_path, command):
    error = " ".join(f"word{number}" for number in range(30))
    suite = suite_of(golden("long", "w" * 900, "x"), golden("fails", "y", "boom"))
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    (tmp_path / "bot.py").write_text(
        f"def bot(task):\n    if task == 'boom':\n        raise ValueError({error!r})\n    return task\n"
    )
    done = command("run", "suite.json", "--agent", "bot:bot", folder=tmp_path)
    assert done.code == 3, done.err
    assert max(map(columns_of, done.wrapped_out.splitlines())) <= WIDEST
    assert error in " ".join(done.out.split()), done.out
    assert re.search(r"expected 'w+…', got 'x'", done.out), done.out
