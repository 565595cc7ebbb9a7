"""`assay skills`: instructions for coding agents, as SKILL.md files that stand in the package."""

from pathlib import Path

import msgspec
from msgspec import Struct

from assay.cli.console.console import count_of, echo, echo_json, echo_rows
from assay.errors import EnvironmentFailure, UsageError
from assay.errors.nearest import did_you_mean
from assay.inputs.yaml_reader import read_yaml

FOLDER = Path(__file__).parent / "skills"
FILE = "SKILL.md"


class Skill(Struct, frozen=True):
    """One skill: what it is for, and its text."""

    name: str
    description: str
    text: str


def all_skills() -> list[Skill]:
    """The skills of the package, in the order of their names."""
    return [_read(file) for file in sorted(FOLDER.glob(f"*/{FILE}"))]


def _read(file: Path) -> Skill:
    text = file.read_text("utf-8")
    about = read_yaml(text.split("---\n")[1].encode(), file.name)
    return Skill(about["name"], about["description"], text)


def list_skills(*, json: bool) -> None:
    """Print the names of the skills, and what each is for."""
    found = all_skills()
    if json:
        from assay.cli.render.other_documents import SkillDocument  # deferred import: it loads much

        echo_json(msgspec.json.encode([SkillDocument(one.name, one.description) for one in found]))
        return
    echo_rows([(one.name, one.description.partition(". Use ")[0]) for one in found])


def install(*, names: list[str], folder: str, force: bool) -> None:
    """Write skills to a folder in which coding agents look for them."""
    known = {one.name: one for one in all_skills()}
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise UsageError(f"NAME: expected the name of a skill, got {name[:100]!r}; {near}")
    chosen = [known[name] for name in names or known]
    for skill in chosen:
        file = Path(folder) / skill.name / FILE
        if file.exists() and not force and file.read_text("utf-8", errors="replace") != skill.text:
            raise UsageError(f"{file}: expected no file, or the same, got another; --force overwrites it")
    for skill in chosen:
        file = Path(folder) / skill.name / FILE
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(skill.text, "utf-8")
        except OSError as wrong:
            raise EnvironmentFailure(
                f"{file}: expected a file that can be written, got {wrong.strerror}"
            ) from None
    echo(f"{count_of(len(chosen), 'skill')} in {folder}: {', '.join(one.name for one in chosen)}")
