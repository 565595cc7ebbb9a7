"""The folder of an import: files that `assay evaluate` takes, whatever the number of cases, or nothing at all."""

import json
import tracemalloc

import pytest

from assay.errors import InvalidRequest, UsageError
from assay.interchange import openai_evals
from assay.interchange.folder import MOST_VARIANTS, ImportFolder
from assay.interchange.imported import LISTED, Imported, ImportReport
from assay.interchange.made_checks import check, named
from assay.ports import Limits

SAME = [{"name": "a", **check("regex", text="x", pattern="y")}]
OTHER = [{"name": "b", **check("regex", text="x", pattern="z")}]


def case(number, **more):
    return Imported({"id": f"c{number}", "input": "?"}, **more)


def written(tmp_path, *cases, limits=None):
    report = ImportReport()
    with ImportFolder(tmp_path / "new", limits or Limits(), report) as folder:
        for one in cases:
            folder.add(one)
        folder.finish("here", {"from": "test"})
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    lines = {
        name: [json.loads(line) for line in (tmp_path / "new" / name).read_text().splitlines()]
        for name in names
        if name.endswith(".jsonl")
    }
    return names, lines, report


def test_checks_that_all_cases_share_stand_in_one_file(tmp_path):
    names, lines, _ = written(
        tmp_path, case(1, checks=SAME, judges=OTHER), case(2, checks=SAME, judges=OTHER)
    )
    assert names == ["cases.jsonl", "checks.yaml", "import.json", "judges.yaml"]
    assert lines["cases.jsonl"] == [{"id": "c1", "input": "?"}, {"id": "c2", "input": "?"}]


def test_checks_that_differ_stand_in_the_cases_in_their_order(tmp_path):
    cases = [
        case(1, checks=SAME),
        case(2, checks=SAME, variant="x"),
        case(3, checks=OTHER),
        case(4, checks=SAME, variant="x"),
    ]
    names, lines, _ = written(tmp_path, *cases)
    assert names == ["cases-1-unnamed.jsonl", "cases-2-x.jsonl", "import.json"]
    assert [[(one["id"], one["checks"][0]["name"]) for one in rows] for rows in lines.values()] == [
        [("c1", "a"), ("c3", "b")],
        [("c2", "a"), ("c4", "a")],
    ]


def test_judges_that_differ_have_a_file_of_their_own(tmp_path):
    output = {"value": "!"}
    names, lines, _ = written(
        tmp_path, case(1, checks=SAME, output=output), case(2, checks=SAME, judges=OTHER, output=output)
    )
    assert names == ["checks.yaml", "contexts.jsonl", "import.json", "judged.jsonl"]
    assert [one["test_case"]["id"] for one in lines["judged.jsonl"]] == ["c2"]
    assert ["checks" in one["test_case"] for one in lines["contexts.jsonl"]] == [False, False]


def test_cases_that_assay_could_not_read_again_are_left_out_with_the_reason(tmp_path):
    deep = "x"
    for _ in range(600):
        deep = [deep]
    _, lines, report = written(
        tmp_path,
        case(1),
        Imported({"id": "deep", "input": deep}),
        Imported({"id": "long", "input": "x" * 5000}),
        limits=Limits(max_line_bytes=1000),
    )
    assert [one["id"] for one in lines["cases.jsonl"]] == ["c1"]
    assert [one.place for one in report.not_carried] == ["deep", "long"]


@pytest.mark.parametrize("fault", ["too many systems", "nothing", "an error"])
def test_an_import_that_fails_leaves_nothing(tmp_path, fault):
    cases = (
        [case(at, variant=str(at)) for at in range(MOST_VARIANTS + 1)] if fault == "too many systems" else []
    )

    def run():
        with ImportFolder(tmp_path / "new", Limits(), ImportReport()) as folder:
            for one in cases:
                folder.add(one)
            if fault == "an error":
                raise ZeroDivisionError
            folder.finish("here", {})

    with pytest.raises((InvalidRequest, ZeroDivisionError)):
        run()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_written_to(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="new or empty"):
        ImportFolder(tmp_path, Limits(), ImportReport())


def test_what_was_not_carried_is_counted_and_the_list_is_bounded():
    report = ImportReport()
    for at in range(3 * LISTED):
        report.leave(f"place {at}", f"kind {at}", "why")
    document = report.document()["not_carried"]
    assert (document["count"], len(document["items"]), document["unlisted"]) == (
        3 * LISTED,
        LISTED,
        2 * LISTED,
    )
    assert len(document["kinds"]) == LISTED + 1
    assert sum(one["count"] for one in document["kinds"]) == 3 * LISTED


def test_checks_get_names_of_their_own():
    found = named(
        [
            ("a", check("exists")),
            ("a", check("exists")),
            ("a #2", check("exists")),
            ("x" * 200, check("exists")),
        ]
    )
    names = [one["name"] for one in found]
    assert names[:3] == ["a", "a #2", "a #2 #2"]
    assert len(set(names)) == 4
    assert max(map(len, names)) == 128


@pytest.mark.parametrize("mixed", [False, True])
def test_rows_do_not_stay_in_memory(tmp_path, series, mixed):
    rows = series(2_000, 50_000)
    items = tmp_path / "items.jsonl"
    with items.open("w") as file:
        file.writelines(
            json.dumps({"item": {"question": f"{at} {'x' * 2000}", "label": "y"}}) + "\n"
            for at in range(rows)
        )
    report = ImportReport()
    tracemalloc.start()
    with ImportFolder(tmp_path / "new", Limits(), report) as folder:
        for at, one in enumerate(openai_evals.read([str(items)], report, Limits())):
            one.checks = OTHER if mixed and at % 2 else SAME
            folder.add(one)
        done = folder.finish("items", {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (done.variants[0].cases, done.variants[0].has_own_checks) == (rows, mixed)
    assert peak < 3_000_000
