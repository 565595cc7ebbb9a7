"""The bench measures what it says: the fixed workload byte for byte, and loops that find what assay finds."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "bench"
sys.path.insert(0, str(ROOT))  # bench is run from the project's folder, and installed nowhere

from bench import byhand, second, straight, table, workload  # noqa: E402  # pyright: ignore[reportMissingImports]
from bench.child import Task, command  # noqa: E402  # pyright: ignore[reportMissingImports]
from bench.equal import differences  # noqa: E402  # pyright: ignore[reportMissingImports]
from bench.measure import Row  # noqa: E402  # pyright: ignore[reportMissingImports]
from bench.rows import RUNS  # noqa: E402  # pyright: ignore[reportMissingImports]


def test_the_generator_writes_the_fixed_workload():
    if not (SHARED / "gen.py").exists():
        pytest.skip("the fixed workload, ../shared/bench/gen.py, is not here")
    theirs = subprocess.run([sys.executable, SHARED / "gen.py", "1000"], capture_output=True, check=True)
    assert "".join(workload.lines(1000)).encode() == theirs.stdout


def test_the_straight_loop_finds_what_assay_finds(tmp_path, capsys):
    contexts, ours, theirs = (tmp_path / name for name in ("contexts.jsonl", "ours.jsonl", "theirs.jsonl"))
    workload.write(1000, contexts, tmp_path / "checks.json")
    task = Task(work="command", contexts=str(contexts), checks=str(tmp_path / "checks.json"), to=str(ours))
    assert command(task).passed == 2256  # the oracle of the fixed workload
    with contexts.open("rb") as lines, theirs.open("wb") as out:
        assert straight.run(lines, out.write) == 2256
    assert differences(ours, theirs) == ""


@pytest.mark.parametrize("check", [second.ToolBudget, second.QuickToolBudget])
def test_the_loop_by_hand_finds_what_assay_finds(tmp_path, capsys, check):
    contexts, ours, theirs = (tmp_path / name for name in ("contexts.jsonl", "ours.jsonl", "theirs.jsonl"))
    second.write(400, contexts, check.type)
    command(
        Task(
            work="command",
            contexts=str(contexts),
            to=str(ours),
            modules=[f"bench.second:{check.__name__}"],
        )
    )
    with contexts.open("rb") as lines, theirs.open("wb") as out:
        byhand.run(lines, out.write)
    assert differences(ours, theirs) == ""
    statuses = [msgspec.json.decode(line)["status"] for line in ours.read_bytes().splitlines()]
    assert statuses.count("error") == 20  # one in twenty


def test_a_difference_is_found(tmp_path):
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    result = {"status": "completed", "evaluated_at": "now", "metadata": {}, "results": {"passed": True}}
    one.write_bytes(msgspec.json.encode({"check_results": [result]}) + b"\n")
    other.write_bytes(msgspec.json.encode({"check_results": [{**result, "evaluated_at": "later"}]}) + b"\n")
    assert differences(one, other) == ""
    other.write_bytes(msgspec.json.encode({"check_results": [{**result, "results": {}}]}) + b"\n")
    assert differences(one, other) == "line 1"


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (
            Row("a", "at most", 1.2, values=[0.9, 0.7, 0.8]),
            "| a | 0.80x | 0.70–0.90 | at most 1.2x | yes |  |",
        ),
        (Row("b", "at least", 80, values=[79.0]), "| b | 79.0x | – | at least 80x | **no** |  |"),
        (Row("c", "at most", 100, "ms", [99.6]), "| c | 100 ms | – | at most 100 ms | yes |  |"),
        (Row("d", "at least", 1.3, note="not yet"), "| d | – | – | at least 1.3x | – | not yet |"),
    ],
)
def test_a_row_says_whether_its_bar_is_met(row, shown):
    assert table.table([row]).splitlines()[-1] == shown


def test_rows_measured_again_take_the_place_of_the_old_and_the_others_stay(tmp_path):
    def row(name, value):
        return Row(name, "at most", 2.0, values=[value])

    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\n{table.END}\nafter\n", "utf-8")
    old, new = [row("a", 1), row("b", 1), row("b", 3), row("c", 1)], [row("d", 4), row("b", 2)]
    here, elsewhere = f"\n\n{table.machine()}", "\n\nMade elsewhere."
    for made, note in ((here, ""), (elsewhere, f"on {table._short_machine()}")):
        table.write(table.table(old) + made, page)
        table.renew(new, page)
        b, d = (msgspec.structs.replace(one, note=note) for one in (new[1], new[0]))
        wanted = table.table([row("a", 1), b, row("c", 1), d]) + made
        assert page.read_text("utf-8") == f"before\n{table.BEGIN}\n{wanted}\n{table.END}\nafter\n"


def test_the_page_names_all_that_can_be_measured():
    named = re.findall(r"^\| (`.+?`) \|", table.PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(named))) == sorted([*RUNS, "stages"])


def test_the_table_goes_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", "utf-8")
    table.write("new", page)
    table.write("newer", page)
    assert page.read_text("utf-8") == f"before\n{table.BEGIN}\nnewer\n{table.END}\nafter\n"
