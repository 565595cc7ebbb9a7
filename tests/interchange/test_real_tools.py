"""Files that the real tools write, each in an environment of its own. `make soak` makes them."""

import json
import random
import re
import subprocess
import sys

import pytest

import assay
from assay.checks.markup.xml import Xml
from assay.checks.standard import f1 as f1s
from assay.checks.standard import rouge as rouges
from assay.checks.standard.ngram_overlap import MEASURES
from assay.checks.trajectory.called_tools import CalledTools
from assay.interchange.formats import recognise
from assay.interchange.imported import ImportReport
from assay.ports import Limits, Services
from support.agents.frameworks.environments import NotMade
from support.interchange.promptfoo_samples import FILES, TYPES, VERDICTS, WEIGHTED, result_row
from support.interchange.tools import (
    DEEPEVAL,
    F1,
    INSPECT,
    LANGSMITH,
    LM_EVAL,
    PYDANTIC,
    RAGAS,
    ROUGE,
    grades_of_promptfoo,
    promptfoo_folder,
    run_promptfoo,
    run_python,
)
from support.interchange.whole_files import dropped, read


@pytest.fixture(autouse=True)
def _soak(series):
    if not series(False, True):
        pytest.skip("make soak installs the other tools")


def made(function, *arguments):
    try:
        return function(*arguments)
    except NotMade as why:
        pytest.skip(f"the tool cannot be installed: {why}")


def imported(*files):
    names = [str(one) for one in files]
    report = ImportReport()
    return list(recognise(names, Limits()).read(names, report, Limits())), report


def nothing_is_dropped(name, *files):
    return dropped(name, {path: read(path) for path in files}) == []


def assertions_left(report):
    return [one for one in report.not_carried if one.what.startswith(("assertion", "threshold", "weight"))]


def test_the_types_of_promptfoo_are_those_of_the_package():
    folder = made(promptfoo_folder) / "dist" / "src"
    lists = [
        re.findall(r'"([a-z0-9:-]+)"', found[1])
        for path in folder.glob("tables-*.js")
        for name in ("BaseAssertionTypesSchema", "SpecialAssertionTypesSchema")
        if (found := re.search(rf"const {name} = z\.enum\(\[(.*?)\]\)", path.read_text(), re.DOTALL))
    ]
    assert {one for found in lists for one in found} == set(TYPES)


def test_promptfoo_says_what_the_table_says(tmp_path):
    tests = [
        {"vars": {"city": "Rome"}, "providerOutput": output, "assert": [{"type": type, **more}]}
        for type, more, output, _ in VERDICTS
    ]
    document = {"prompts": ["{{city}}?"], "providers": ["echo"], "tests": tests}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(document))
    made(run_promptfoo, tmp_path)
    cases, report = imported(tmp_path / "out.json")
    assert assertions_left(report) == []
    cases.sort(key=lambda one: int(one.case["id"].removeprefix("test-")))
    verdicts = [one.output["metadata"]["recorded"]["scores"]["pass"] for one in cases]
    assert verdicts == [int(passes) for *_, passes in VERDICTS]
    for one, passes in zip(cases, verdicts, strict=True):
        result = assay.evaluate_sync([one.case], [one.output], one.checks)
        assert result.results[0].check_results[0].results["passed"] == bool(passes), one


TOKENS = (
    "the cat The sat mat. a don't cannot gonna wanna 'tis 'twas it's U.S. e.g. 3,000 3:15 x,y \"hello\" ``so'' '' `` \" "
    "-- ... (yes) [no] $5 50% a. b.) \u00e9 \u00df \u0130 \u03a3\u03b1\u03c2 she'll more'n d'ye lemme! what? \u017fat "
    '\'ti\u017f \u0663,\u0664 \u00b2 \u1d43 end."\u1d43 "quoted" \'s x\' \U0001f600 can\u200cnot cannot\u0301 \u00ab \u201e a"b c.d.e !"x'
)
WORDS = TOKENS.split(" ")
SPACES = ["\u00a0", "\x1f", "\x85", "\ufeff", "\u2003", "\n", "\t"]


def test_measures_are_those_of_promptfoo_for_random_texts(tmp_path):
    chance = random.Random(40)

    def text():
        space = chance.choice([" ", "", " ", "  "])
        return space.join(chance.choice(WORDS + SPACES) for _ in range(chance.choice([1, 2, 3, 5, 8, 14])))

    def changed(words):
        words = words.split(" ")
        words[chance.randrange(len(words))] = chance.choice(WORDS)
        return " ".join(words)

    rows = []
    for _ in range(5_000):
        variant, output = chance.choice([*MEASURES]), text()
        near = changed(output) if chance.random() < 0.6 else text()
        references = [near] if variant == "rouge-n" or chance.random() < 0.5 else [near, text(), text()]
        value = references[0] if len(references) == 1 else references
        rows.append(
            {"assertion": {"type": variant, "value": value}, "output": output, "references": references}
        )
    for row, grade in zip(rows, made(grades_of_promptfoo, tmp_path, rows), strict=True):
        found = MEASURES[row["assertion"]["type"]](row["output"], row["references"])
        assert grade.get("score") == pytest.approx(found, abs=1e-12), (row, grade)


MEMBERS = ("name", "type", "function", "tool_calls", "functionCall", "toolCall", "functionCalls")


def test_called_tools_are_those_of_promptfoo_for_random_outputs(tmp_path):
    chance = random.Random(41)

    def value(depth):
        if not depth or chance.random() < 0.2:
            return chance.choice(["a", "b", None, 1, "tool_use", [], {}, ["a"], {"name": "a"}, {"name": 5}])
        if chance.random() < 0.4:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        made = {chance.choice(MEMBERS): value(depth - 1) for _ in range(chance.randrange(4))}
        made |= {"name": chance.choice("abc")} if "name" in made and chance.random() < 0.7 else {}
        return made | ({"type": "tool_use"} if "type" in made and chance.random() < 0.7 else {})

    def line():
        space, after = chance.choice([" ", "\ufeff", "", "I call "]), chance.choice(["", " x", " ", "\r"])
        return f"{space}{json.dumps(value(2))}{after}"

    rows = []
    for _ in range(5_000):
        output = chance.choice([value(4), json.dumps(value(4)), "\n".join(line() for _ in range(3))])
        expected = chance.choice([["a"], ["a", "b"], ["a", "b", "a"], ["c", "d"]])
        rows.append({"assertion": {"type": "tool-call-f1", "value": expected}, "output": output})
    rows = [row for row in rows if row["output"] not in ("", None)]
    for row, grade in zip(rows, made(grades_of_promptfoo, tmp_path, rows), strict=True):
        arguments = {"output": row["output"], "expected": row["assertion"]["value"]}
        found = CalledTools(**arguments).answer(Services())
        assert grade.get("score") == found["score"], (row, grade)


XML_NAMES = ["a", "b", "c", "x:a", "b.c", "\u00e9"]
XML_TEXTS = [
    "",
    " ",
    "\n",
    "t",
    "1",
    "\u00a0",
    "&amp;",
    "&#65;",
    "x &lt; y",
    "true",
    "\u4e2d",
    "\U0001f600",
    "]",
    "'",
    '"',
]
XML_ASIDE = [
    "<!-- <a> -->",
    "<![CDATA[]]>",
    "<![CDATA[ ]]>",
    "<![CDATA[<b>]]>",
    "<?p q?>",
    "<?p?>",
    "\t",
    "t",
]
XML_STEPS = ["a", "b", "c", "x:a", "@_a", "@_xmlns:x", "#text", "0", "1", "01", "\u00e9", "", "2"]
XML_WRONG = [
    "<",
    "&",
    "&x;",
    "</a>",
    "<a>",
    "]]>",
    "\x01",
    "<b",
    'a="1"',
    "<!-- -- -->",
    "<a b='<'/>",
    "<1/>",
]
XML_STARTS = [
    "", "", "", "\ufeff", '<?xml version="1.0"?>', " <?xml version='1.0'?>", "<!DOCTYPE a>", '<!DOCTYPE a SYSTEM "a.dtd">',
    '<!DOCTYPE a PUBLIC "-//X//Y" "y">', "<!DOCTYPE a [<!ENTITY x 'y'>]>", "<!DOCTYPE a []>", "<!DOCTYPE>",
    '<?xml version="1.0" encoding="latin-1" standalone="yes"?><!DOCTYPE a SYSTEM "a.dtd">',
]  # fmt: skip


SPACES_OF_TAGS = [" ", "\n", "\r\n", "\t"]


class RandomXML:
    def __init__(self, seed, *, lenient=False):
        self.chance, self.lenient = random.Random(seed), lenient

    def element(self, depth):
        pick = self.chance.choice
        name, names = pick(XML_NAMES), self.chance.sample(["a", "b", "x:b", "\u00e9"], k=pick([0, 0, 1, 2]))
        quoted = ['"1"', "'1'", '">"', "'\"'", '"&lt;"', '""', "' a=1 '"]
        attributes = "".join(
            f"{pick(SPACES_OF_TAGS)}{one}{pick(['=', ' = '])}{pick(quoted)}" for one in names
        )
        if self.chance.random() < 0.9 and (":" in name or "x:b" in names):
            attributes += ' xmlns:x="urn:x"'
        if self.lenient:
            attributes += pick(["", "", " d", " d e", " d=1", " a='1' a='2'"])
        if not depth or self.chance.random() < 0.2:
            return f"<{name}{attributes}{pick(['', ' '])}/>"
        return f"<{name}{attributes}{pick(['', ' '])}>{self.content(depth)}</{name}{pick(['', ' '])}>"

    def content(self, depth):
        makers = (
            lambda: self.element(depth - 1),
            lambda: self.chance.choice(
                [*XML_TEXTS, "&", "&x;", "]]>", "\x01"] if self.lenient else XML_TEXTS
            ),
            lambda: self.chance.choice(XML_ASIDE),
        )
        return "".join(self.chance.choice(makers)() for _ in range(self.chance.randrange(5)))

    def broken(self, text):
        at = self.chance.randrange(len(text) + 1)
        return text[:at] + self.chance.choice([*XML_WRONG, ""]) + text[at + self.chance.randrange(3) :]

    def paths(self, text):
        names = re.findall(r"<([\w:.]+)", text) or ["a"]
        steps = [*names, *XML_STEPS]
        counts, lengths = [0, 1, 1, 1, 2], [0, 1, 1, 2, 3]
        return [
            ".".join(
                [self.chance.choice(names[:2]), *self.chance.choices(steps, k=self.chance.choice(lengths))]
            )
            for _ in range(self.chance.choice(counts))
        ]


def test_whole_documents_are_xml_to_promptfoo_too(tmp_path):
    made_up = RandomXML(42)
    rows = []
    for _ in range(10_000):
        aside = made_up.chance.choice(["", "\n", "<!-- -->", "<?p?>", " "])
        text = made_up.chance.choice(XML_STARTS) + made_up.element(4) + aside
        text = made_up.broken(text) if made_up.chance.random() < 0.15 else text
        rows.append({"assertion": {"type": "is-xml", "value": made_up.paths(text)}, "output": text})
    _says_the_same(tmp_path, rows)


def test_elements_in_texts_are_those_of_promptfoo(tmp_path):
    made_up = RandomXML(43, lenient=True)
    between = [
        "see ",
        "1 & 2",
        "```xml\n",
        "\n```",
        "it's ",
        "",
        "a > b",
        "<!-- <c/> -->",
        "<?p?>",
    ]
    rows = []
    for _ in range(10_000):
        count = made_up.chance.randrange(4)
        text = made_up.chance.choice(["", "<!DOCTYPE a>"]) + "".join(
            made_up.chance.choice(between) + made_up.element(3) for _ in range(count)
        )
        text += made_up.chance.choice([*between, "a < b", "<b", "</b>", "<p>"])
        rows.append({"assertion": {"type": "contains-xml", "value": made_up.paths(text)}, "output": text})
    _says_the_same(tmp_path, rows)


def _says_the_same(tmp_path, rows):
    rows = [
        row
        for row in rows
        if row["output"] and not any(one.startswith("#") for one in row["assertion"]["value"])
    ]
    passed = 0
    for row, grade in zip(rows, made(grades_of_promptfoo, tmp_path, rows), strict=True):
        assertion = row["assertion"]
        contained = assertion["type"] == "contains-xml"
        found = Xml(text=row["output"], required=assertion["value"], contained=contained).answer(Services())
        assert grade.get("pass") == found["passed"], (row, grade, found)
        passed += found["passed"]
    assert len(rows) / 10 < passed < len(rows) * 9 / 10


def test_promptfoo_weighs_as_the_table_says(tmp_path):
    tests = [{"vars": {"n": at}, "providerOutput": "abc"} | test for at, (test, *_) in enumerate(WEIGHTED)]
    document = {"prompts": ["{{n}}?"], "providers": ["echo"], "tests": tests}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(document))
    made(run_promptfoo, tmp_path)
    cases, report = imported(tmp_path / "out.json")
    assert assertions_left(report) == []
    cases.sort(key=lambda one: int(one.case["id"].removeprefix("test-")))
    scores = [one.output["metadata"]["recorded"]["scores"] for one in cases]
    assert [(one["score"], one["pass"]) for one in scores] == [
        (pytest.approx(score), int(passes)) for _, score, passes in WEIGHTED
    ]


def test_a_configuration_and_its_results_have_the_same_cases(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("providers: [", "providers: [echo] #"))
    made(run_promptfoo, tmp_path)
    planned, _ = imported(tmp_path / "promptfooconfig.yaml")
    recorded, _ = imported(tmp_path / "out.json")
    assert nothing_is_dropped("promptfoo", tmp_path / "out.json")

    def known(cases):
        return sorted(
            (one.case["id"], one.case["input"], [check["name"] for check in one.checks]) for one in cases
        )

    assert known(planned) == known(recorded)


def test_logs_that_inspect_writes(tmp_path):
    made(run_python, "inspect", INSPECT, tmp_path)
    for form in ("eval", "json"):
        cases, report = imported(*(tmp_path / f"logs-{form}").glob(f"*.{form}"))
        cases.sort(key=lambda one: one.output["metadata"]["trial"])
        assert [one.output["value"] for one in cases] == ["It is 2", "It is 3"]
        assert [one.output["metadata"]["recorded"]["scores"] for one in cases] == [
            {"includes": 1, "match": 1},
            {"includes": 0, "match": 0},
        ]
        steps = [step["type"] for step in cases[0].output["metadata"]["trajectory"]]
        assert steps == ["said", "tool-called", "tool-returned", "said"]
        left = {one.what for one in report.not_carried}
        assert left >= {"scorer match", "solver use_tools", "solver generate", "events", "results"}
        assert form == "eval" or nothing_is_dropped("inspect", *(tmp_path / "logs-json").glob("*.json"))
        result = assay.evaluate_sync(
            [one.case for one in cases], [one.output for one in cases], cases[0].checks
        )
        assert [one.check_results[0].results["passed"] for one in result.results] == [True, False]


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_datasets_that_pydantic_evals_writes(tmp_path, ending):
    made(run_python, "pydantic-evals", PYDANTIC, tmp_path)
    (one,), report = imported(tmp_path / f"capitals.{ending}")
    assert (one.case["id"], one.case["input"], one.case["expected"]) == ("fr", "France?", "Paris")
    assert [check["type"] for check in one.checks] == ["json_match", "threshold", "contains"]
    assert report.not_carried == []
    assert ending == "yaml" or nothing_is_dropped("pydantic-evals", tmp_path / "capitals.json")


@pytest.mark.parametrize("ending", ["json", "csv", "jsonl"])
def test_goldens_that_deepeval_writes(tmp_path, ending):
    made(run_python, "deepeval", DEEPEVAL, tmp_path)
    cases, report = imported(tmp_path / f"goldens.{ending}")
    assert [
        (one.case["input"], one.case["expected"], one.output and one.output["value"]) for one in cases
    ] == [
        ("France?", "Paris", "It is Paris"),
        ("Peru?", "Lima", None),
    ]
    assert cases[0].case["metadata"]["additional_metadata"] in ({"x": 1}, '{"x": 1}')
    assert report.not_carried == []
    assert ending == "csv" or nothing_is_dropped("deepeval", tmp_path / f"goldens.{ending}")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_samples_that_ragas_writes(tmp_path, ending):
    made(run_python, "ragas", RAGAS, tmp_path)
    cases, report = imported(tmp_path / f"single.{ending}")
    assert [
        (one.case["input"], one.case["expected"], one.output and one.output["value"]) for one in cases
    ] == [("France?", "Paris", "It is Paris"), ("Peru?", "Lima", None)]
    assert cases[0].case["metadata"]["retrieved_contexts"] in (["France"], "['France']")  # a cell is a text
    assert report.not_carried == []
    assert ending == "csv" or nothing_is_dropped("ragas", tmp_path / "single.jsonl")
    (one,), report = imported(tmp_path / "turns.jsonl")
    assert (one.case["input"], one.output["value"]) == ([{"role": "user", "content": "Peru?"}], "It is Lima")
    steps = [step["type"] for step in one.output["metadata"]["trajectory"]]
    assert steps == ["tool-called", "tool-returned"]
    assert one.case["metadata"]["reference_tool_calls"] == [{"name": "find", "args": {"x": 1}}]
    assert report.not_carried == []


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_examples_that_langsmith_writes(tmp_path, ending):
    made(run_python, "langsmith", LANGSMITH, tmp_path)
    cases, report = imported(tmp_path / f"examples.{ending}")
    assert [(one.case["input"], one.case.get("expected"), one.output) for one in cases] == [
        ({"question": "France?"}, {"answer": "Paris"}, None),
        ({"question": "Peru?"}, None, None),
    ]
    assert cases[0].case["metadata"]["topic"] == "europe"
    assert report.not_carried == []
    assert nothing_is_dropped("langsmith", tmp_path / f"examples.{ending}")


def test_samples_that_the_harness_writes(tmp_path):
    made(run_python, "lm-eval", LM_EVAL, tmp_path)
    cases, report = imported(*sorted((tmp_path / "out").glob("*/*.json*")))
    by_task = {
        task: [one for one in cases if one.case["metadata"]["task"] == task] for task in ("sums", "picks")
    }
    assert [
        (one.case["id"], one.case["input"], one.case["expected"], one.output["value"])
        for one in by_task["sums"]
    ] == [
        ("sums-0", "1+1?", "2", "lol"),
        ("sums-1", "2+2?", "4", "lol"),
    ]
    assert {one.what for one in report.not_carried} >= {"a score of a whole task", "metric exact_match"}
    assert nothing_is_dropped("lm-evaluation-harness", *sorted((tmp_path / "out").glob("*/*.json*")))
    for one in by_task["picks"]:
        (check,) = assay.evaluate_sync([one.case], [one.output], one.checks).results[0].check_results
        assert check.results["passed"] == (one.output["metadata"]["recorded"]["scores"]["acc"] == 1)


def pairs(count):
    """Random pairs of texts, many of whose words are equal."""
    chance = random.Random(40)
    words = [
        "the",
        "a",
        "cat",
        "Cat.",
        "sat",
        "on",
        "mat,",
        "1.5",
        "é",
        "don't",
        "(x)",
        "-",
        "an",
        "dog\n",
        "3,000",
    ]

    def text():
        return " ".join(chance.choices(words, k=chance.randrange(14)))

    return [(text(), text()) for _ in range(count)]


def test_rouge_agrees_with_rouge_score_on_random_texts(tmp_path):
    rows = pairs(2_000)
    (tmp_path / "pairs.json").write_text(json.dumps(rows))
    made(run_python, "rouge-score", ROUGE, tmp_path)
    for (text, reference), known in zip(
        rows, json.loads((tmp_path / "scores.json").read_text()), strict=True
    ):
        for variant, (precision, recall, score) in known.items():
            found = rouges.measure(rouges.words_in(text), rouges.words_in(reference), variant)
            assert (found.precision, found.recall, found.score) == pytest.approx(
                (precision, recall, score)
            ), (text, reference, variant)


def test_f1_agrees_with_the_scorer_of_inspect_on_random_texts(tmp_path):
    rows = pairs(2_000)
    (tmp_path / "pairs.json").write_text(json.dumps(rows))
    made(run_python, "inspect", F1, tmp_path)
    known = json.loads((tmp_path / "scores.json").read_text())
    found = [
        f1s.f1(f1s.normalised(text).split(), f1s.normalised(reference).split()) for text, reference in rows
    ]
    assert found == pytest.approx(known)


def count_lines(path):
    with path.open("rb") as file:
        return sum(1 for _ in file)


def test_a_million_rows_are_imported_in_constant_memory(tmp_path):
    """The command in a process of its own: its memory with a million rows is that with a few."""
    item = '{"item": {"question": "Q%d?", "label": "A%d"}, "sample": {"output_text": "It is A%d"}}\n'
    result = json.dumps(result_row(0, 0)).replace('"testIdx": 0', '"testIdx": %d') + "\n"
    rows = [("items.jsonl", item), ("out.jsonl", result)]
    for name, form in rows:
        most = {}
        for count in (1_000, 1_000_000):
            with (tmp_path / name).open("w") as file:
                holes = form.count("%d")
                file.writelines(form % ((at,) * holes) for at in range(count))
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, "import", name, "-o", f"{name}-{count}"],
                cwd=tmp_path, capture_output=True, text=True, check=False,
            )  # fmt: skip
            most[count] = int(done.stderr.split()[-1])
            written = sum(map(count_lines, (tmp_path / f"{name}-{count}").glob("c*.jsonl")))
            assert written == count, done.stderr[-2000:]
        few, many = (one / 1024 for one in most.values())
        sys.stdout.write(f"{name}: {few:.0f} MiB for a thousand rows, {many:.0f} MiB for a million\n")
        assert most[1_000_000] - most[1_000] < 30 * 1024


MEASURED = """
import resource, sys
from assay.cli.main import main

try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
