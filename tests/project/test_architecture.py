"""The house as drawn: what is public, what loads when, where foreign code is caught."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import assay
from assay import errors
from support.source_code import SOURCE, TOGETHER, modules

TESTS = Path(__file__).parents[1]
LAZY_PACKAGES = (
    "cli",
    "backends",
    "serve",
)  # a verb, a backend and a transport load what they need when they need it


def name_of(path):
    return str(path.relative_to(SOURCE))


def test_the_public_names_are_sorted_and_all_there():
    assert assay.__all__ == sorted(
        assay.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )
    assert set(dir(assay)) == set(assay.__all__)
    for name in assay.__all__:
        assert getattr(assay, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'vibes'"):
        _ = assay.vibes


def loaded_by(statement):
    program = f"import sys; {statement}; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        ("import assay", {"msgspec", "asyncio", "typer", "rich", "yaml"}),
        (
            "import assay.cli.main",
            {"msgspec", "asyncio", "rich", "yaml", "assay.fep", "jsonschema_rs"},
        ),
        (
            "from assay.cli.main import app; app(['--help'], standalone_mode=False)",
            {
                "msgspec",
                "asyncio",
                "rich",
                "assay.host.parts",
                "assay.cli.evaluate.evaluate",
                "assay.cli.agent_evals.run",
                "assay.cli.agent_evals.suite",
            },
        ),
        (
            "import os; os.environ['ASSAY_DATABASE_URL'] = 'memory:'; "
            "from assay.cli.main import app; app(['list', '--limit', '3'], standalone_mode=False)",
            {"pydantic", "rich", "yaml", "jsonschema_rs", "aiohttp", "sqlalchemy"},
        ),
        (
            "import assay; assay.evaluate_sync([{'id': 'a', 'input': 1}], [{'value': 1}], "
            "[{'type': 'exact_match', 'arguments': {'actual': '$.output.value', 'expected': 1}}])",
            {
                "typer",
                "rich",
                "yaml",
                "jsonschema_rs",
                "aiohttp",
                "httptools",
                "genai_prices",
                "wordllama",
                "assay.backends.providers",
                "assay.backends.models.provider_client",
                "assay.agenteval.kind",
                "assay.runs.executor",
                "asyncio",
                "ssl",
                "logging",
                "subprocess",
                "tempfile",
                "assay.auth.authenticator",
            },
        ),
    ],
)
def test_heavy_parts_load_when_they_are_used(statement, never):
    assert not loaded_by(statement) & never


HELP_OF_EVERY_VERB = """
import sys
import typer.main
from assay.cli.main import app

def paths(command, path=()):
    yield path
    for name, verb in getattr(command, "commands", {}).items():
        yield from paths(verb, (*path, name))

before = set()
for path in list(paths(typer.main.get_command(app))):
    app([*path, "--help"], standalone_mode=False)
    print("loaded by", "assay", *path, ":", *set(sys.modules) - before)
    before = set(sys.modules)
"""
LIGHT = re.compile(
    r"assay\.(errors|lazy_pattern|terminal|version|cli\.(main|console|[a-z_]+\.([a-z]+_)?verbs))(\.|$)|assay\.(cli(\.[a-z_]+)?|agenteval(\.planning(\.mode_names)?)?)$"
)
HEAVY = {"msgspec", "asyncio", "rich", "pydantic", "ssl", "yaml"}


def test_the_help_of_a_verb_loads_its_options_alone():
    program = [sys.executable, "-c", HELP_OF_EVERY_VERB]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    loaded = dict(re.findall(r"^loaded by (.*) :(.*)$", done.stdout, re.MULTILINE))
    assert len(loaded) > 20
    heavy = {
        verb: names
        for verb, modules in loaded.items()
        if (names := [n for n in modules.split() if n in HEAVY or (n[:6] == "assay." and not LIGHT.match(n))])
    }
    assert not heavy, "import it in the function that runs"


@pytest.fixture
def house():
    """Every module but the migrations, by its name."""
    return {name_of(path): module for path, module in modules().items() if "migrations" not in path.parts}


@TOGETHER
def test_an_import_inside_a_function_is_marked_as_deferred(house):
    unsaid = [
        f"{name}:{inner.lineno}"
        for name, module in house.items()
        if Path(name).parts[0] not in LAZY_PACKAGES
        and re.search(r"^\s+(from|import) ", module.text, re.MULTILINE)
        for inner in module.nodes(ast.Import, ast.ImportFrom)
        if any(
            node.lineno <= inner.lineno <= node.end_lineno
            for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        )
        and "# deferred import" not in module.text.splitlines()[inner.lineno - 1]
    ]
    assert not unsaid


@TOGETHER
def test_broad_excepts_stand_only_at_the_boundaries_that_errors_lists(house):
    broad = {
        name
        for name, module in house.items()
        for node in module.nodes(ast.ExceptHandler)
        if node.type is None
        or {"Exception", "BaseException"}
        & {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)}
    }
    assert broad
    listed = [
        word
        for word in (errors.__doc__ or "").replace(",", " ").split()
        if "/" in word or word.endswith(".py")
    ]
    unlisted = [name for name in broad if not any(Path(name).match(one) for one in listed)]
    assert not unlisted, "list it in errors/__init__.py, or catch less"


# Threads that are no way from a coroutine: a writer, an event loop, the connections of a store, the default of a loop.
OWN_THREADS = {
    "backends/stores/sql/group_commit.py",
    "backends/stores/sql/store.py",
    "backends/engines/dbos/unit_worker.py",
    "conform/check.py",
    "fep/records/save.py",
}


@TOGETHER
def test_threads_start_in_the_package_of_concurrency(house):
    """ADR-0135"""
    starts = re.compile(
        r"threading\.Thread\(|ThreadPoolExecutor\(|to_thread\(|run_in_executor\(|start_new_thread"
    )
    found = {name for name, module in house.items() if starts.search(module.text)}
    assert {name for name in found if not name.startswith("concurrency/")} == OWN_THREADS


@TOGETHER
def test_a_module_has_a_docstring_and_at_most_400_lines(house):
    assert len(house) > 100
    assert not [name for name, one in house.items() if one.text and not ast.get_docstring(one.tree)]
    long = {name: many for name, one in house.items() if (many := len(one.text.splitlines())) > 400}
    assert not long, "look for the second noun in it"


@pytest.mark.parametrize("root", [SOURCE, TESTS], ids=["src", "tests"])
def test_a_folder_has_at_most_25_files(root):
    folders = Counter(path.parent for path in root.rglob("*.py") if "_pb2" not in path.name)
    assert not {str(folder): files for folder, files in folders.items() if files > 25}


FOR_TYPES = (
    "backends.stores.records.codec",
    "backends.stores.sql.tenant_keys",
)  # this import is for a type alone


@TOGETHER
def test_no_two_files_import_each_other(house):
    """Nor do three in a circle. An import inside a function counts too."""
    names = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in house}
    below = {
        module: {
            found
            for node in house[name].nodes(ast.ImportFrom)
            if (node.module or "").startswith("assay.")
            for one in node.names
            for found in [f"{node.module}.{one.name}"[6:], (node.module or "")[6:]]
            if found in names and found != module and (module, found) != FOR_TYPES
        }
        for module, name in names.items()
    }
    for module, found in below.items():  # `from a.b import c` imports the file c if there is one
        below[module] = {one for one in found if not any(other.startswith(f"{one}.") for other in found)}
    while leaves := [module for module, found in below.items() if not found & below.keys()]:
        for module in leaves:
            del below[module]
    assert not below
