"""The tables of results keep the columns of the user's table, in every format, stored or not."""

import csv
import io
import json
import re
import tracemalloc
import zipfile
from importlib import import_module
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.comparison.result_files import lines_in, row_lines
from assay.fep.outputs import table_sinks
from assay.fep.outputs.result_tables import COLUMNS, encode_row
from assay.fep.outputs.sinks import sink_for
from assay.fep.outputs.table_layout import TableLayout
from assay.fep.outputs.table_sinks import csv_rows
from assay.ports import Limits
from assay.protocol.results import EvaluationSummary
from assay.results.run_end import RunFooter
from assay.results.slices import read_dimension

pandas, parquet = import_module("pandas"), import_module("pyarrow.parquet")

HEADER = [
    "",
    "Frage",
    "answer",
    "gold",
    "Thema",
    "score",
    "run",
    "input",
    "=sum",
    "deep.x:json",
    "metadata.lang",
]
ROWS = [
    ["0", "Capital?", "Paris", "Paris", "geo", "7", "r1", "i1", "=1+1", '"a"', "de"],
    ["1", "Other?", "x", "Rome", "hist", "", "r2", "i2", "-foo", "[1, 2]", "en"],
]
KEPT = [
    "", "Frage", "answer", "gold", "Thema", "case_score", "case_run", "case_input", "=sum", "deep.x:json",
    "metadata.lang", "metadata.topic",
]  # fmt: skip
CELLS = [
    ["0", "Capital?", "Paris", "Paris", "geo", "7", "r1", "i1", "=1+1", '"a"', "de", "geo"],
    ["1", "Other?", "x", "Rome", "hist", None, "r2", "i2", "-foo", "[1,2]", "en", "hist"],
]
MAP = ["--map", "input=Frage", "--map", "metadata.topic=Thema"]
EVALUATE = ["evaluate", "table.csv", "--checks", "checks.yaml", *MAP]


def csv_text(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "table.csv").write_text(csv_text([HEADER, *ROWS]))
    (tmp_path / "checks.yaml").write_text("- contains: $.test_case.expected\n- regex: .\n")
    (tmp_path / "bot.py").write_text("def answer(question):\n    return 'Paris'\n")
    return tmp_path


def read_csv(file):
    """The rows, without the apostrophe of cells that are no formulas, and None for an empty cell."""
    header, *rows = csv.reader(io.StringIO(file.read_text()))
    return [[plain(cell) or None for cell in row[:-1]] for row in [header, *rows]]


def plain(cell):
    return cell[1:] if cell.startswith(("'=", "'-")) else cell


def read_xlsx(file):
    with zipfile.ZipFile(file) as book:
        sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    space = {"s": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    rows = []
    for row in sheet.iterfind(".//s:row", space):
        cells = {}
        for cell in row.iterfind("s:c", space):
            letters = cell.get("r").rstrip("0123456789")
            at = -1
            for letter in letters:
                at = (at + 1) * 26 + ord(letter) - ord("A")
            cells[at] = plain("".join(cell.itertext()))
        rows.append([cells.get(at) for at in range(max(cells) + 1)])
    return rows


def read_parquet(file):
    table = parquet.read_table(file)
    return [table.column_names, *(list(row.values()) for row in table.to_pylist())]


READERS = {"csv": read_csv, "xlsx": read_xlsx, "parquet": read_parquet}


def kept(table):
    """The columns before ours, and their cells: one row for each case, whose checks all have the same."""
    header, *rows = table
    count = header.index("test_case_id")
    ours = [name for name in header[count:] if name]
    assert ours == [name for name in COLUMNS if name not in header[:count]]
    cells = [(row + [None] * count)[:count] for row in rows]
    assert cells[::2] == cells[1::2]
    return [name or "" for name in header[:count]], cells[::2]


@pytest.mark.parametrize("form", READERS)
def test_a_table_of_results_begins_with_the_columns_of_the_input(form, folder, command):
    done = command(*EVALUATE, "-o", f"r.{form}", "--save", folder=folder)
    assert done.code == 0, done.err
    written = READERS[form](folder / f"r.{form}")
    assert kept(written) == (KEPT, CELLS)
    command("export", "latest", "-o", f"e.{form}", folder=folder)
    assert READERS[form](folder / f"e.{form}") == written


def test_to_pandas_has_the_columns_of_the_file(folder, command):
    command(*EVALUATE, "-o", "r.csv", folder=folder)
    frame = pandas.read_csv(folder / "table.csv", dtype=str, keep_default_na=False).replace("", None)
    frame = frame.rename(columns={"Unnamed: 0": ""})
    columns = {"input": "Frage", "metadata.topic": "Thema"}
    checks = [{"contains": "$.test_case.expected"}, {"regex": "."}]
    found = assay.evaluate_sync(frame, checks=checks, map=columns).to_pandas()
    header, *rows = read_csv(folder / "r.csv")
    assert list(found.columns) == [name or "" for name in header]
    assert found[KEPT].astype(object).where(found[KEPT].notna(), None).values.tolist() == [
        row[: len(KEPT)] for row in rows
    ]


@pytest.mark.parametrize(
    ("name", "text", "options", "columns"),
    [
        ("t.jsonl", '{"question": "?", "answer": "a", "n": 1.5}\n{"question": "!", "answer": "b"}\n', [], ["question", "answer", "n"]),
        ("t.json", '[{"question": "?", "answer": "a"}]', ["--map", "input=question"], ["question", "answer"]),
        ("t.tsv", "input\toutput\ttag\n?\ta\tx\n", [], ["input", "output", "tag"]),
        ("t.csv", "id,input,output,expected,tags\n1,?,a,b,x;y\n", [], ["id", "input", "output", "expected", "tags"]),
        ("t.csv", "test_case_id,prompt,response,,\n1,?,a,,\n", [], ["test_case_id", "prompt", "response"]),
        ("t.csv", "id,input,output.value,output.metadata.ms:json\n1,?,a,12\n", [], ["id", "input", "output.value", "output.metadata.ms:json"]),
        ("t.csv", "score,case_score,input,output\n1,2,?,a\n", [], ["case_case_score", "case_score", "input", "output"]),
        ("t.csv", "trial,passed,check,input,output\n1,2,3,?,a\n", [], ["case_trial", "case_passed", "case_check", "input", "output"]),
        ("t.jsonl", '{"test_case": {"id": "a", "input": "?", "n": 1}, "output": {"value": "a"}}\n', [], []),
        ("t.csv", "question,answer,topic\n", [], ["question", "answer", "topic"]),  # without a row
    ],
)  # fmt: skip
def test_each_input_keeps_its_names(name, text, options, columns, folder, command):
    (folder / name).write_text(text)
    words = ["evaluate", "--contexts", name, "--checks", "own.yaml", *options, "-o", "r.csv"]
    (folder / "own.yaml").write_text("- regex: .\n")
    done = command(*words, folder=folder)
    header, *rows = csv.reader(io.StringIO((folder / "r.csv").read_text()))
    assert header[: len(columns)] == columns, done.err
    assert [*header[len(columns) :], *columns].count("run") == 1
    assert {*header} >= {*COLUMNS}
    assert all(len(row) == len(header) for row in rows)


def test_a_parquet_table_without_rows_keeps_its_columns(folder, command):
    pandas.DataFrame({"question": [], "answer": [], "topic": []}).to_parquet(folder / "t.parquet")
    done = command("evaluate", "t.parquet", "--checks", "checks.yaml", "-o", "r.parquet", folder=folder)
    assert done.messages[-1] == "assay: there was nothing to evaluate: no test cases"
    assert parquet.read_table(folder / "r.parquet").column_names[:3] == ["question", "answer", "topic"]


def test_markdown_has_the_other_columns_beside_the_content_of_a_case(folder, command):
    for ending in ("csv", "jsonl"):
        command(*EVALUATE, "--save", "-o", f"r.{ending}", folder=folder)
    for run in ("latest", "r.csv", "r.jsonl"):
        assert command("report", run, "-o", "r.md", folder=folder).code == 0
        lines = (folder / "r.md").read_text().partition("Inputs and outputs")[2].splitlines()
        names, _, *rows = [line.strip("|").split(" | ") for line in lines if line.startswith("|")]
        assert [name.strip() for name in names[:4]] == ["case", "input", "output", "expected"]
        (row,) = rows
        cells = dict(zip(map(str.strip, names[4:]), map(str.strip, row[4:]), strict=True))
        assert cells["topic" if run == "r.jsonl" else "Thema"] == "hist", run  # the map has renamed it
        assert "-foo" in " ".join(cells.values())
        assert "Other?" not in cells.values()  # the input, under the name of its column
        if run == "latest":
            shown = [name for name in KEPT if name not in ("Frage", "answer", "gold", "case_score")]
            found = [re.sub(r"[\\\u200b]", "", name).strip() for name in names[4:]]
            assert found == shown
        done = command("report", run, "-o", "r.md", "--redact", folder=folder)
        assert "hist" not in (folder / "r.md").read_text(), done.err


def test_standard_input_and_two_tables_keep_their_columns(folder, command):
    row = '{"question": "?", "answer": "a"}\n{"question": "!", "answer": "b"}\n'
    (folder / "own.yaml").write_text("- regex: .\n")
    words = ["evaluate", "--contexts", "-", "--checks", "own.yaml", "-o", "r.csv", "--save"]
    assert command(*words, folder=folder, stdin=row.encode()).code == 0
    assert read_csv(folder / "r.csv")[0][:2] == ["question", "answer"]
    command("export", "latest", "-o", "e.csv", folder=folder)
    assert (folder / "e.csv").read_bytes() == (folder / "r.csv").read_bytes()
    broken = command(*words[:-1], folder=folder, stdin=b'{"question": "?"}\nnot JSON\n')
    assert (broken.code, broken.messages[0].startswith("assay: -: no column for output")) == (2, True)
    (folder / "cases.csv").write_text("id,question,level\n1,?,easy\n2,!,hard\n")
    (folder / "outputs.csv").write_text("id,answer,level\no1,a,low\no2,b,high\n")
    words = [
        "evaluate",
        "--cases",
        "cases.csv",
        "--outputs",
        "outputs.csv",
        "--checks",
        "own.yaml",
        "-o",
        "p.csv",
    ]
    assert command(*words, folder=folder).code == 0
    header, first, _ = read_csv(folder / "p.csv")
    assert header[:7] == ["id", "question", "level", "output_id", "answer", "output_level", "test_case_id"]
    assert first[:7] == ["1", "?", "easy", "o1", "a", "low", "1"]


def test_an_agent_takes_the_place_of_the_outputs_and_keeps_the_other_columns(folder, command):
    words = [*EVALUATE, "--agent", "bot.py:answer", "--trials", "2", "-o", "r.csv", "--save"]
    words[1:2] = ["--contexts", "table.csv"]
    done = command(*words, folder=folder)
    assert done.code == 0, done.err
    header, *rows = read_csv(folder / "r.csv")
    assert [name or "" for name in header[: len(KEPT) - 1]] == [name for name in KEPT if name != "answer"]
    assert len(rows) == 8
    assert {row[header.index("output")] for row in rows} == {"Paris"}
    command("export", "latest", "-o", "e.csv", folder=folder)
    assert (folder / "e.csv").read_bytes() == (folder / "r.csv").read_bytes()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_results_are_read_again_with_their_columns(form, folder, command):
    table = (folder / "table.csv").read_text()
    (folder / "other.csv").write_text(table.replace(",x,Rome", ",Rome,Rome"))
    for name in ("table", "other"):
        words = ["evaluate", f"{name}.csv", *EVALUATE[2:], "-o", f"{name}-r.{form}"]
        assert command(*words, folder=folder).code == 0
    files = [f"table-r.{form}", f"other-r.{form}"]
    for by, names in (
        ("topic", "geo hist"),
        ("Thema", "geo hist"),
        ("lang", "de en"),
        ("case_score", "(none) 7"),
    ):
        done = command("compare", *files, "--by", by, "--json", folder=folder)
        slices = json.loads(done.out)["comparisons"][0]["slices"]
        assert " ".join(sorted(one["slice"] for one in slices)) == names, done.err
    assert command("gate", files[1], "--baseline", files[0], folder=folder).code == 0
    report = command("report", files[0], "-o", "r.md", "--by", "Thema", folder=folder)
    assert report.code == 0, report.err
    assert "| by Thema |" in (folder / "r.md").read_text()
    labels = command("judge", "check", files[0], "--labels", files[1], folder=folder)
    assert "holds a value" not in labels.err


def test_slices_are_by_the_name_of_a_column_also_if_it_is_the_input_or_the_expected_value(folder, command):
    for _ in range(2):
        done = command(*EVALUATE, "--save", "--by", "gold", "--by", "Frage", "--json", folder=folder)
        found = [(one["by"], one["slice"]) for one in json.loads(done.out)["slices"]]
        assert found == [("gold", "Paris"), ("gold", "Rome"), ("Frage", "Capital?"), ("Frage", "Other?")], (
            done.err
        )
    done = command("compare", "previous", "latest", "--by", "gold", "--json", folder=folder)
    slices = json.loads(done.out)["comparisons"][0]["slices"]
    assert [one["slice"] for one in slices] == ["Paris", "Rome"]
    wrong = command("compare", "previous", "latest", "--by", "golden", folder=folder)
    assert "--by golden: no case has a value there" in wrong.err


def test_several_processes_read_lines_that_are_no_table(folder, command):
    lines = [{"test_case": {"id": f"{at}", "input": "?"}, "output": {"value": "a"}} for at in range(2_000)]
    (folder / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "own.yaml").write_text("- regex: .\n")
    words = ["evaluate", "--contexts", "c.jsonl", "--checks", "own.yaml", "-o", "r.csv", "--jobs", "2"]
    assert command(*words, folder=folder).code == 0
    assert read_csv(folder / "r.csv")[0] == list(COLUMNS)
    rows = [HEADER, *([f"{at}", *ROWS[0][1:]] for at in range(2_000))]
    (folder / "table.csv").write_text(csv_text(rows))
    done = command(*EVALUATE, "-o", "t.csv", "--jobs", "2", folder=folder)
    assert "--jobs 2: only an uncompressed .jsonl file" in done.err
    names, cells = kept(read_csv(folder / "t.csv"))
    assert (names, len(cells), cells[-1][0]) == (KEPT, 2_000, "1999")


FOOTER = RunFooter("eval_1", None, None, "completed", EvaluationSummary(
    total_test_cases=0, completed_test_cases=0, error_test_cases=0, skipped_test_cases=0,
))  # fmt: skip


def result(at, **members):
    context = {"test_case": {"id": f"c{at}", "input": "?", **members}, "output": {"value": "a"}}
    check = {"check_type": "x", "status": "completed", "results": {"passed": True}}
    return json.dumps(
        {"status": "completed", "execution_context": context, "check_results": [check]}
    ).encode()


def write(file, columns, lines):
    sink = sink_for(str(file), {name: ["test_case", name] for name in columns})
    for line in lines:
        sink.write(line)
    sink.close(FOOTER)


@pytest.mark.parametrize(
    ("values", "type", "cells"),
    [
        ([1, None, 2], "int64", [1, None, 2]),
        ([1, 2, 2.5], "double", [1.0, 2.0, 2.5]),
        ([True, None, False], "bool", [True, None, False]),
        ([1, True, 2], "string", ["1", "true", "2"]),
        ([1, 2, "x"], "string", ["1", "2", "x"]),
        ([1.5, 1 << 70, 2], "string", ["1.5", str(1 << 70), "2"]),
        ([None, None, None], "string", [None, None, None]),
        ([None, None, 3], "string", [None, None, "3"]),
        ([[1], {"a": 1}, "x"], "string", ["[1]", '{"a":1}', "x"]),
    ],
)
def test_a_parquet_column_has_the_type_of_all_its_cells_in_whatever_order(
    values, type, cells, tmp_path, monkeypatch
):
    monkeypatch.setattr(table_sinks, "GROUP_ROWS", 1)
    lines = [result(at, n=value) for at, value in enumerate(values)]
    write(tmp_path / "r.parquet", ["n"], lines)
    table = parquet.read_table(tmp_path / "r.parquet")
    assert (str(table.schema.field("n").type), table["n"].to_pylist()) == (type, cells)
    assert table["test_case_id"].to_pylist() == ["c0", "c1", "c2"]
    assert [file.name for file in tmp_path.iterdir()] == ["r.parquet"]


def test_a_sheet_has_no_more_columns_than_excel_and_whole_numbers_stay_what_they_are(tmp_path):
    with pytest.raises(assay.UsageError, match=r"columns of a sheet of Excel, got 20,0\d\d"):
        write(tmp_path / "r.xlsx", [f"c{at}" for at in range(20_000)], [])
    write(tmp_path / "r.xlsx", ["n", "f"], [result(0, n=2**53 + 1, f=2**53), result(1, n=1e300, f=False)])
    rows = read_xlsx(tmp_path / "r.xlsx")
    assert [row[:2] for row in rows[1:]] == [[str(2**53 + 1), str(2**53)], ["1E+300", "0"]]


@pytest.mark.parametrize("form", READERS)
def test_a_long_table_is_written_in_flat_memory(form, tmp_path, monkeypatch):
    monkeypatch.setattr(table_sinks, "GROUP_ROWS", 50)
    columns = [f"c{at}" for at in range(8)]
    lines = (result(at, **dict.fromkeys(columns, f"{at:06}" * 200)) for at in range(1_000))
    tracemalloc.start()
    write(tmp_path / f"r.{form}", columns, lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000 < 1_000 * len(columns) * 1_200 / 2  # characters that it holds


names = st.text(st.sampled_from("ab.=-'\",;\n :é_"), max_size=6).map(str.strip) | st.sampled_from(
    [
        "input",
        "output",
        "run",
        "id",
        "tags",
        "output.metadata.ms",
        "metadata.x",
        "test_case.y",
        "a:json",
        "case_score",
    ]
)
cells = st.text(st.sampled_from("ab=-'\",;\n1é[{"), min_size=1, max_size=6)


@given(st.lists(names, unique=True, min_size=1, max_size=5), st.data())
def test_law_a_table_of_results_is_read_again_whatever_its_columns_are_called(columns, data):
    values = {name: data.draw(cells) for name in columns}
    places = {name: ["test_case", "inner", name] for name in columns}
    layout = TableLayout(places)
    document = json.loads(result(0))
    document["execution_context"]["test_case"]["inner"] = values
    header = encode_row(layout.columns).decode()
    text = header + "".join(csv_rows(document, layout))
    read = csv.DictReader(io.StringIO(text, newline=""))
    (line,) = (json.loads(line) for _, line in row_lines(("r", without_empty(row)) for row in read))
    context = line["execution_context"]
    assert context["test_case"]["id"] == "c0"
    assert context["output"]["value"] == "a"
    for name, kept_name in zip(columns, layout.columns, strict=False):
        if (
            name
            and not {".", ":", "=", "'", "-", "$"} & {*kept_name}
            and kept_name not in ("id", "input", "tag", "tags")
        ):
            assert read_dimension(kept_name).values(context) == [values[name]]


def without_empty(row):
    return {name: cell for name, cell in row.items() if name and cell}


def test_a_column_of_an_older_table_is_a_member_of_its_case(tmp_path):
    write(tmp_path / "r.csv", ["metadata.lang", "output.metadata.ms"], [])
    text = (tmp_path / "r.csv").read_text()
    row = {"metadata.lang": "de", "output.metadata.ms": "12", "test_case_id": "a", "check": "0", "check_type": "x",
           "status": "completed", "results": "{}", "tags": "geo", "output": "text"}  # fmt: skip
    (tmp_path / "r.csv").write_text(
        text + ",".join(row.get(name, "") for name in text.strip().split(",")) + "\n"
    )
    ((_, line),) = lines_in(str(tmp_path / "r.csv"), Limits())
    context = json.loads(line)["execution_context"]
    assert context["test_case"]["metadata"] == {"tags": ["geo"], "lang": "de"}
    assert context["output"] == {"value": "text", "metadata": {"ms": "12"}}
