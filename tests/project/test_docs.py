"""The documents do what they say: every block is run (support.blocks), every table is held against the code."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from msgspec import UNSET, inspect

from assay.auth.jwt_settings import JwtSettings
from assay.checks import STANDARD
from assay.checks.checker import Checker, Nodes, Text
from assay.checks.safety.detector import FINDINGS_SCHEMA, SafetyCheck
from assay.cli.main import app
from assay.ports import Limits, Provider
from assay.ports.config import (
    AgentConfig,
    McpServer,
    PackKeyConfig,
    Retention,
    SafetyPolicy,
    ToolConfig,
    TraceProjectConfig,
    VerifierLoopConfig,
)
from assay.protocol.schemas import NOUNS
from assay.serve.application import ROUTES
from assay.serve.openwop.asyncapi import EVENTS
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.responses import STATUS
from assay.settings import PREFIX, TABLES, Settings, WorkerSettings
from support.blocks import is_shown, run_blocks
from support.documents import DOCS, FENCE, ROOT, cells, page_name, section, table

SKILLS = sorted((ROOT / "src/assay/cli/coding_agents/skills").rglob("SKILL.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    *sorted(DOCS.rglob("*.md")),
    *SKILLS,
]


@cache
def prose_of(page):
    return FENCE.sub("", page.read_text("utf-8"))


def environment(*first):
    """
    This environment's command and Python first, and no settings but the document's own. A pytest there loads no plugin of others,
    which would take most of its time.
    """
    others = " ".join(f"-p no:{name}" for name in ("schemathesis", "hypothesispytest", "xdist", "anyio"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    places = [*first, Path(sys.executable).parent, os.environ["PATH"]]
    return kept | {"PATH": os.pathsep.join(map(str, places)), "PYTEST_ADDOPTS": others}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if FENCE.search(page.read_text("utf-8"))], ids=page_name
)
def test_every_block_does_what_it_says(page, tmp_path, zygote):
    """By processes that have loaded assay already. An installed wheel runs the first screen of README in test_packaging.py."""
    run_blocks(page, tmp_path, environment(zygote.bin), zygote.bin / "python")


@pytest.mark.parametrize(
    ("document", "printed", "shown"),
    [
        ("a\nb", "a\nb", True),
        ("a", "a\nb", False),  # what is left out is marked
        ("a\n…", "a\nb\nc", True),
        ("…\nc", "a\nb\nc", True),
        ("…\nb", "a\nb\nc", False),
        ("a\n…\nc", "a\nc", True),
        ("a.c", "abc", False),
        ("a  b", "a b", False),
        ("run-…  done", "run-0123456789      done", True),  # the width of an id moves the columns
    ],
)
def test_a_text_shows_what_was_printed(document, printed, shown):
    assert is_shown(document, printed) == shown


# tables against the code


def verbs(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for part, verb in command.commands.items():
        if hasattr(verb, "commands"):
            yield from verbs(verb, f"{name}{part} ")
        else:
            yield f"{name}{part}", verb


VERBS = list(verbs(typer.main.get_command(app)))


def test_the_page_of_the_command_has_every_verb():
    found = re.findall(r"^## `assay ([\w -]+)`$", (DOCS / "command.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(name for name, _ in VERBS)


@pytest.mark.parametrize(("name", "verb"), VERBS, ids=[name for name, _ in VERBS])
def test_the_page_of_the_command_has_every_option(name, verb):
    def written(option):
        what = f" {option.metavar}" if option.metavar else ""
        if option.param_type_name == "argument":
            return f"`{option.metavar.strip('[]')}`"
        return ", ".join(f"`{one}{what}`" for one in option.opts)

    rows = table(section(DOCS / "command.md", f"## `assay {name}`"), "option", "meaning")
    assert [row[0] for row in rows] == [*map(written, verb.params), "`-h`, `--help`"]
    for option, row in zip(verb.params, rows, strict=False):
        if isinstance(option.default, int | float) and not isinstance(option.default, bool):
            assert f"Default {option.default}" in row[1]


def written_default(value):
    return f"`{msgspec.json.encode(value).decode()}`"


@pytest.mark.parametrize(
    ("heading", "fields"),
    [
        ("## Settings", [one for one in msgspec.structs.fields(Settings) if one.name not in TABLES]),
        ("## Limits", msgspec.structs.fields(Limits)),
        ("## Serving", msgspec.structs.fields(ServerLimits)),
        ("## OpenWOP", msgspec.structs.fields(OpenWopFeatures)),
        ("## JWT", msgspec.structs.fields(JwtSettings)),
        ("## Workers", msgspec.structs.fields(WorkerSettings)),
    ],
)
def test_the_page_of_settings_has_each_with_its_default(heading, fields):
    prefix = {"## JWT": f"{PREFIX}JWT_", "## Workers": f"{PREFIX}WORKERS_"}.get(heading, PREFIX)
    rows = table(section(DOCS / "settings.md", heading), "name", "in the environment", "default", "meaning")
    assert [row[:3] for row in rows] == [
        [
            f"`{one.name}`",
            f"`{prefix}{one.name.upper()}`",
            written_default(one.default if one.default is not msgspec.NODEFAULT else one.default_factory()),
        ]
        for one in fields
    ]


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("## Providers", Provider),
        ("## Agents", AgentConfig),
        ("## Tools", ToolConfig),
        ("## MCP servers", McpServer),
        ("## Workflows", VerifierLoopConfig),
        ("## Pack keys", PackKeyConfig),
        ("## Safety", SafetyPolicy),
        ("## Retention", Retention),
        ("## Traces", TraceProjectConfig),
    ],
    ids=["providers", "agents", "tools", "mcp", "workflows", "pack_keys", "safety", "retention", "traces"],
)
def test_the_page_of_settings_has_each_of_a_named_table(heading, kind):
    rows = table(section(DOCS / "settings.md", heading), "name", "default", "meaning")
    fields = [one for one in msgspec.structs.fields(kind) if one.name != "name"]
    assert [row[:2] for row in rows] == [[f"`{one.name}`", _default_of(one)] for one in fields]


def _default_of(field):
    if field.required:
        return "–"
    factory = field.default_factory
    return written_default(field.default if factory is msgspec.NODEFAULT else factory())


def kind_of(kind: Any) -> str:
    """How the page says what an argument takes."""
    match kind:
        case inspect.Metadata():
            return kind_of(kind.type)
        case inspect.CustomType() if kind.cls is Text:
            return "text"
        case inspect.CustomType() if kind.cls is Nodes:
            return "path"
        case inspect.AnyType():
            return "any value"
        case inspect.UnionType():
            return " or ".join(dict.fromkeys(map(kind_of, kind.types)))
        case inspect.ListType():
            inner = kind_of(kind.item_type)
            plural = "" if inner.endswith("`") else "s"
            words = inner.replace(" or ", f"{plural} or ") + plural
            return "list" if inner == "any value" else f"list of {words}"
        case inspect.LiteralType():
            return " or ".join(f"`{value}`" for value in sorted(kind.values))
        case inspect.StructType() | inspect.DictType():
            return "object"
        case _:
            names = {inspect.BoolType: "boolean", inspect.StrType: "string", inspect.NoneType: "null"}
            return names.get(type(kind), "number")


def arguments_of(checker: type[Checker]) -> Iterable[list[str]]:
    described = inspect.type_info(checker)
    assert isinstance(described, inspect.StructType)
    defaults = {one.name: one for one in msgspec.structs.fields(checker)}
    for field in described.fields:
        one = defaults[field.name]
        if one.required:
            default = "required"
        else:
            value = one.default if one.default is not msgspec.NODEFAULT else one.default_factory()
            default = "none" if value is UNSET else written_default(value)
        yield [f"`{field.encode_name}`", kind_of(field.type), default]


def test_the_page_of_checks_has_a_section_for_each():
    found = re.findall(r"^### `(\w+)`$", section(DOCS / "checks.md", "## The checks"), re.MULTILINE)
    assert found == [checker.type for checker in STANDARD if not issubclass(checker, SafetyCheck)]
    found = re.findall(r"^### `(\w+)`$", section(DOCS / "safety.md", "## The detectors"), re.MULTILINE)
    assert found == [checker.type for checker in STANDARD if issubclass(checker, SafetyCheck)]


@pytest.mark.parametrize("checker", list(STANDARD), ids=lambda checker: checker.type)
def test_the_page_of_checks_has_every_argument(checker):
    page = "safety.md" if issubclass(checker, SafetyCheck) else "checks.md"
    text = section(DOCS / page, f"### `{checker.type}`")
    rows = table(text, "argument", "takes", "default", "meaning")
    assert [row[:3] for row in rows] == list(arguments_of(checker))
    prose = FENCE.sub("", text)
    if checker.results_schema is FINDINGS_SCHEMA:  # the page describes this answer once
        prose += FENCE.sub("", section(DOCS / "safety.md", "## The detectors"))
    for member in checker.results_schema["properties"]:
        assert f"`{member}`" in prose, f"the answer of {checker.type} may have {member}"
    examples = [found[3] for found in FENCE.finditer(text)]
    assert any(checker.type in example for example in examples), "an example"


def test_the_page_of_the_protocol_names_every_noun():
    text = (DOCS / "fep.md").read_text("utf-8")
    rows = table(text, "noun", "in the text", "where")
    assert [row[0] for row in rows] == [f"`{name}`" for name in NOUNS]


# names and links


def test_links_lead_somewhere():
    lost = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                lost.append(f"{page_name(page)} links to {target}")
    assert lost == []


@cache
def anchors(page):
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_file_that_is_named_is_there():
    """By its path from the top, or from src/assay; `../` says itself that it lies elsewhere."""
    lost = [
        f"{page_name(page)} names {name}"
        for page in PAGES
        for name in re.findall(r"`((?!\.\./)(?:[\w.-]+/)+[\w-]+\.\w+)(?:::\w+)?`", prose_of(page))
        if not any(place.is_file() for place in (ROOT / name, ROOT / "src" / "assay" / name))
    ]
    assert lost == []


UNNAMED = re.compile(
    r"\b(who|whom|whoever|nobody|somebody|anybody|everybody|of which|so many)\b", re.IGNORECASE
)


def test_a_page_names_the_client_the_worker_or_the_operator():
    found = [
        f"{page_name(page)}: {found[0]}"
        for page in (*PAGES, ROOT / "CHANGELOG.md")
        for found in UNNAMED.finditer(re.sub(r"`[^`]*`", "", prose_of(page)))
    ]
    assert found == []


def test_the_rest_page_has_every_route_with_its_scope():
    rows = table((DOCS / "rest.md").read_text("utf-8"), "route", "scope", "what it does")
    documented = [(route, scope) for route, scope, _ in rows]
    scope_names = {None: "none", "": "any key"}
    known = [(f"`{one.method} {one.path}`", scope_names.get(one.scope, f"`{one.scope}`")) for one in ROUTES]
    assert documented == known


def test_the_rest_page_has_every_error_status():
    rows = table((DOCS / "rest.md").read_text("utf-8"), "status", "codes")
    known = {status for route in ROUTES for status in route.errors} | set(STATUS.values())
    assert {int(status) for status, _ in rows} == known


def test_the_index_links_every_page():
    text = (DOCS / "README.md").read_text("utf-8")
    assert "(docs/README.md)" in (ROOT / "README.md").read_text("utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in text, page.name


def test_the_page_of_events_has_every_type():
    tables = section(DOCS / "events.md", "## Event types")
    rows = [line for line in tables.splitlines() if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall(r"`([\w.-]+)`", cells(row)[0])]
    assert sorted(documented) == sorted(EVENTS)


def test_every_level_of_the_protocol_has_its_lines_and_every_line_a_test_that_exists():
    rows = table(section(DOCS / "fep.md", "## Levels"), "level", "the text asks for", "test")
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert {row[0] for row in rows} == {"1", "2", "3"}
    for _, line, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
        assert named, line
        for file, name in named:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), name


DECISIONS = sorted((DOCS / "decisions").glob("0*.md"))


def test_a_decision_has_its_sections_and_a_row_in_the_index():
    rows = table((DOCS / "decisions" / "README.md").read_text("utf-8"), "number", "decision", "in one line")
    listed = {row[0] for row in rows}
    for page in DECISIONS:
        headings = re.findall(r"^#+ .+$", prose_of(page), re.MULTILINE)
        assert headings[0].startswith(f"# ADR-{page.name[:4]}: ")
        assert headings[1:] == ["## Context", "## Decision", "## Why", "## Rejected"], page.name
        assert f"[ADR-{page.name[:4]}]({page.name})" in listed
