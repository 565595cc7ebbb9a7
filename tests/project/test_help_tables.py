"""What follows from a table of the code: the help, the template of a suite, the refusals and the documents."""

import re
from pathlib import Path

import pytest

from assay.agenteval.planning.mode_names import MODE_NOTES
from assay.agenteval.planning.modes import MODES
from assay.backends.stores.open import STORES, open_store
from assay.cli.agent_evals.suite import TEMPLATE
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
