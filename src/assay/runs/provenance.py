"""
What tells runs apart: the commit of the folder that a command ran in, and its command line without secrets (ADR-0223).

The commit is in the metadata of a run, which stays. The command line names files and may quote content, so it is part
of the stored request and is erased with it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.errors import UsageError
from assay.protocol.json_types import is_object
from assay.protocol.redaction import is_secret, redact_text
from assay.runs.run_names import other_tags

COMMIT = "commit"  # the member of the metadata of a run
GIT_SECONDS = 5.0  # a status that takes longer says nothing
MAX_TAG = 256
SHORT = 10  # characters of a commit in a text for people


class Provenance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`commit` is that of git; `clean` says whether no tracked file differs from it, if that is known."""

    commit: str = ""
    clean: bool | None = None
    command: str = ""

    @property
    def metadata(self) -> dict[str, Any]:
        """The part that the metadata of a run has."""
        if not self.commit:
            return {}
        return {COMMIT: {"id": self.commit, **({} if self.clean is None else {"clean": self.clean})}}


NOTHING = Provenance()


def provenance_of(arguments: Sequence[str] | None = None) -> Provenance:
    """That of this process and of a command line, if there is one."""
    commit, clean = read_commit(Path.cwd())
    if arguments is None:
        return Provenance(commit=commit, clean=clean)
    from assay.runs.safe_command import safe_command  # deferred import: its patterns take long to compile

    return Provenance(commit=commit, clean=clean, command=safe_command(arguments, os.environ))


def read_commit(folder: Path) -> tuple[str, bool | None]:
    """The commit that is checked out, and whether no tracked file differs from it. An empty text: there is none."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return "", None
    import subprocess  # deferred import: most commands start no process

    command = ["git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch"]
    try:
        answer = subprocess.run(  # noqa: S603  # no shell, and no word of a user
            [*command, "--untracked-files=no"],
            cwd=folder,
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return "", None
    lines = answer.stdout.decode(errors="replace").splitlines()
    found = [line.rpartition(" ")[2] for line in lines if line.startswith("# branch.oid ")]
    if answer.returncode or not found or not found[0].isalnum():  # `(initial)`: there is no commit yet
        return "", None
    return found[0][:64], all(line.startswith("#") for line in lines)


def commit_text(metadata: Mapping[str, Any]) -> str:
    """`commit 1f3a9c2b7d`, with `and changed files` if a tracked file differed; empty if it is not known."""
    found = metadata.get(COMMIT)
    if not is_object(found) or not found.get("id"):
        return ""
    changed = " and changed files" if found.get("clean") is False else ""
    return f"commit {str(found['id'])[:SHORT]}{changed}"


def about_run(metadata: Mapping[str, Any], command: str) -> dict[str, Any]:
    """What tells the run apart, for a document."""
    found = {
        "tags": other_tags(metadata.get("tags", ())),
        "models": metadata.get("models"),
        COMMIT: metadata.get(COMMIT),
        "command": command,
    }
    return {name: value for name, value in found.items() if value}


def about_lines(metadata: Mapping[str, Any], command: str) -> list[str]:
    """The same for a person."""
    models = ", ".join(metadata.get("models", ()))
    parts = [
        *other_tags(metadata.get("tags", ())),
        f"model {models}" if models else "",
        commit_text(metadata),
    ]
    line = " · ".join(filter(None, parts))
    return [*([line] if line else []), *([f"command: {command}"] if command else [])]


def check_tags(tags: Sequence[str]) -> None:
    """Refuse a tag of a command line that is not `k=v`, or has a secret: every reader of the run sees its tags."""
    for tag in tags:
        name = tag.partition("=")[0]
        if is_secret(name, "") or redact_text(tag) != tag:
            raise UsageError(f"--tag {redact_text(name)}=…: expected a tag without a secret: lists show tags")
        if "=" not in tag or len(tag) > MAX_TAG:
            raise UsageError(f"--tag {tag!r}: expected k=v, of at most {MAX_TAG} characters")
