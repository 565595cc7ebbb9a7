"""The navigation of the site has every page once. tests/project/soak_site.py builds the site."""

import tomllib

import pytest

from support.documents import DOCS, ROOT, page_name
from support.site import build

PROJECT = tomllib.loads((ROOT / "site" / "zensical.toml").read_text("utf-8"))["project"]


def test_each_page_is_in_the_navigation_once():
    """Decisions are in the navigation by their list."""
    listed = [name for _, _, name in build.entries(PROJECT["nav"])]
    pages = [page_name(page) for page in DOCS.rglob("*.md") if not page.name.startswith("0")]
    beside = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "conformance/README.md",
        "conformance/flex-evals.md",
    ]
    assert sorted(listed) == sorted([*pages, *beside])


def test_the_titles_of_a_section_differ():
    titles = [(above, title) for above, title, _ in build.entries(PROJECT["nav"])]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("```csv eval.csv\na,b\n```", '```csv title="eval.csv"\na,b\n```'),
        ("```sh exit=3\nassay\n```", "```sh\nassay\n```"),
        ("```text drawing\nx\n```", "```text\nx\n```"),
        ("```\nx\n```", "```\nx\n```"),
        ("```console\n$ a\n$ b \\\n    c\n```", "```sh\na\nb \\\n    c\n```"),
        ("```console\n$ a\nprinted\n```", "```console\n$ a\nprinted\n```"),
    ],
)
def test_a_block_has_the_name_of_its_file_above_it_and_no_prompts_if_it_has_commands_alone(written, shown):
    found = build.FENCE.fullmatch(written)
    assert found is not None
    assert build.block(found) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Text:\n- a\n- b", "Text:\n\n- a\n- b"),
        ("Text\n\n- a\n  more\n- b", "Text\n\n- a\n    more\n- b"),
        ("1. a\n   more", "1. a\n    more"),
        ("See [the files](../examples).", "See the files."),
        ("[a](compare.md#rules), [b](https://x.y/z.md)", "[a](compare.md#rules), [b](https://x.y/z.md)"),
    ],
)
def test_prose_reads_the_same_in_python_markdown(written, shown):
    assert build.prose(written, DOCS / "rest.md") == shown


def test_the_summary_of_a_page_is_its_first_sentence():
    assert build.summary(DOCS / "stability.md") == (
        "This page says what a later version of assay keeps, what it may change, and how something is deprecated."
    )
    assert all(build.summary(page) for page in build.pages())
