"""What follows from a table of the code: the help, the template of a suite, the refusals and the documents."""

import re
from pathlib import Path

import pytest
import typer

from assay.agenteval.planning.mode_names import MODE_NOTES
from assay.agenteval.planning.modes import MODES
from assay.backends.stores.open import STORES, open_store
from assay.cli.agent_evals.suite import TEMPLATE
from assay.cli.console.option_groups import NAMES, OPTION_GROUPS
from assay.cli.main import SECTIONS, app
from assay.errors import UsageError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.anyio


def test_the_modes_in_the_help_the_template_and_the_documents_are_those_of_the_table(command, tmp_path):
    assert list(MODES) == list(MODE_NOTES)
    *first, last = MODES
    names = f"{', '.join(first)} or {last}"
    assert names in " ".join(command("run", "--help", folder=tmp_path).out.split())
    comment = re.search(r"^modes: \[golden\] +# (.*)$", TEMPLATE, re.MULTILINE)[1]
    assert [part.partition(" (")[0] for part in comment.split(", ")] == list(MODES)
    table = (DOCS / "agent-evals.md").read_text("utf-8").partition("## Modes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(MODES)
    row = re.search(r"^\| `--mode M` \| (.*?)\. ", (DOCS / "command.md").read_text("utf-8"), re.MULTILINE)[1]
    assert re.findall(r"`([\w-]+)`", row) == list(MODES)


async def test_the_stores_in_a_refusal_and_in_the_documents_are_those_of_the_table():
    with pytest.raises(UsageError) as refused:
        await open_store("mysql://me:hunter2@host/db")
    assert "hunter2" not in str(refused.value)
    for page in ("settings.md", "operations.md"):
        text = (DOCS / page).read_text("utf-8")
        for store in STORES.values():
            assert store.form in str(refused.value)
            assert f"`{store.form}`" in text, page


def test_the_help_lists_the_verbs_in_sections(command, tmp_path):
    help = command("--help", folder=tmp_path).out
    found = {
        title: re.findall(r"^  ([a-z]+) ", rows, re.MULTILINE)
        for title, rows in re.findall(r"^(\w+):\n((?:  .*\n)+)", help, re.MULTILINE)
    }
    found.pop("Options")
    assert list(found) == ["Measure", "Look", "Decide", "Write", "Serve", "Admin"]
    assert found == {title: list(verbs) for title, verbs in SECTIONS.items()}


def verbs_with_options(command, path=""):
    for name, verb in command.commands.items():
        if hasattr(verb, "commands"):
            yield from verbs_with_options(verb, f"{path}{name} ")
        else:
            yield f"{path}{name}", [one for one in verb.params if one.param_type_name == "option"]


def test_every_verb_with_six_options_or_more_lists_them_all_in_groups(command, tmp_path):
    """An option that is in no group of `cli/console/option_groups.py` is missing here: add it there."""
    long = {
        name: options
        for name, options in verbs_with_options(typer.main.get_command(app))
        if len(options) >= 6
    }
    assert {"evaluate", "run", "compare", "gate", "serve"} <= set(long) == set(OPTION_GROUPS)
    results = command.each([[*name.split(), "--help"] for name in long], folder=tmp_path)
    for (name, options), help in zip(long.items(), results, strict=True):
        groups = OPTION_GROUPS[name]
        assert list(groups) == [one for one in NAMES if one in groups], name
        listed = [one for group in groups.values() for one in group.split()]
        assert sorted(listed) == sorted(
            next(opt for opt in one.opts if opt in listed or opt.startswith("--")) for one in options
        ), name
        titles = re.findall(r"^(\w+):$", help.out, re.MULTILINE)
        assert [one for one in titles if one in NAMES] == list(groups), name
        assert help.out.endswith("\n\nOther:\n" + help.out.splitlines()[-1] + "\n"), name
        assert help.out.splitlines()[-1].startswith("  -h, --help "), name


@pytest.mark.parametrize("heading", ["Add a mode of agent evals", "Add a store"])
def test_the_files_that_adding_something_touches_exist(heading):
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    files = set(re.findall(r"`([\w/.]+/[\w.]+\.(?:py|toml|md))`", section))
    assert len(files) > 4
    missing = [
        name for name in files if not any((root / name).exists() for root in (ROOT, ROOT / "src/assay"))
    ]
    assert not missing
