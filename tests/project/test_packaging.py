"""The distribution: its name, its extras and its version are the same in pyproject.toml, the code and the documents."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import assay
from assay.extras import DISTRIBUTION, EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]


def _name(requirement: str) -> str:
    return re.match(r"[\w-]+", requirement)[0]


def test_the_table_of_extras_is_that_of_the_project():
    declared = {
        extra: {_name(line) for line in lines if ";" not in line}  # a marker: not on every platform
        for extra, lines in OPTIONAL.items()
        if extra != "all"
    }
    assert declared == {extra: set(packages) for extra, packages in EXTRAS.items()}


def test_the_extra_all_has_every_other_one():
    names = re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", OPTIONAL["all"][0])[1]
    assert sorted(names.split(",")) == sorted(set(OPTIONAL) - {"all"})
    assert PROJECT["name"] == DISTRIBUTION


def test_the_documents_name_extras_that_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    lines = [
        (page.name, *found)
        for page in pages
        for found in re.findall(r"'([\w.]*)\[([\w,-]+)\]'", page.read_text())
    ]
    assert len(lines) > 8
    for page, name, extras in lines:
        assert name in (".", DISTRIBUTION), page
        assert set(extras.split(",")) <= set(OPTIONAL), page
    table = (ROOT / "docs" / "getting-started.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(OPTIONAL)


def test_the_version_does_not_depend_on_the_metadata_of_an_installation():
    """A source tree, or an installation under another name, has the version too."""
    code = (
        "import importlib.metadata as m\n"
        "def gone(name): raise m.PackageNotFoundError(name)\n"
        "m.version = gone\n"
        "import sys; sys.argv = ['assay', '--version']\n"
        "from assay.cli.main import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"assay {assay.__version__}\n", "")
    assert PROJECT["dynamic"] == ["version"]
