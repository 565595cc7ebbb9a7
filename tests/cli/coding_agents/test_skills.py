"""`assay skills`. Their commands are run by tests/project/test_docs.py."""

import json
import re

import pytest

from assay.cli.coding_agents.skills import all_skills
from assay.cli.main import SECTIONS


def test_skills_are_installed_where_agents_look(command, tmp_path):
    first = command("skills", "install", folder=tmp_path)
    again = command("skills", "install", "write-a-suite", "--to", ".claude/skills", folder=tmp_path)
    assert (first.code, again.code) == (0, 0), first.err
    for skill in all_skills():
        assert (tmp_path / ".agents/skills" / skill.name / "SKILL.md").read_text("utf-8") == skill.text
    assert [found.name for found in (tmp_path / ".claude/skills").iterdir()] == ["write-a-suite"]


def test_a_changed_skill_is_kept_without_force(command, tmp_path):
    command("skills", "install", folder=tmp_path)
    changed = tmp_path / ".agents/skills/gate-a-change/SKILL.md"
    changed.write_text("mine")
    assert command("skills", "install", folder=tmp_path).code == 2
    assert changed.read_text() == "mine"
    assert command("skills", "install", "--force", folder=tmp_path).code == 0
    assert changed.read_text() != "mine"


def test_an_unknown_skill_is_refused_with_the_nearest(command, tmp_path):
    refused = command("skills", "install", "write-suite", folder=tmp_path)
    assert (refused.code, "did you mean write-a-suite?" in refused.err) == (2, True)


def test_the_list_names_each_skill_and_its_use(command, tmp_path):
    listed = json.loads(command("skills", "list", "--json", folder=tmp_path).out)
    assert [one["name"] for one in listed] == [skill.name for skill in all_skills()]


@pytest.mark.parametrize("skill", all_skills(), ids=lambda skill: skill.name)
def test_a_skill_is_short_and_names_verbs_that_exist(skill):
    verbs = {name for section in SECTIONS.values() for name in section}
    assert re.fullmatch(r"[a-z-]+", skill.name)
    assert len(skill.text.encode()) < 4_000
    assert (
        set(
            re.findall(
                r"\bassay ([a-z]+)", re.sub(r"assay (?:suite for|run fails|evaluation)", "", skill.text)
            )
        )
        <= verbs
    )
