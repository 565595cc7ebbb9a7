"""Recorded fixtures: a run with live tools writes their answers to a file, and another run reads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.agenteval.results.recorded_fixtures import RecordedFixtures, recorded_fixtures
from assay.agenteval.results.report import report_of
from assay.agenteval.suites.suite import with_fixtures
from assay.errors import UsageError
from assay.inputs.context import to_json_document
from assay.inputs.files import document_of
from assay.ports import Limits, Run, Store
from assay.protocol.agent_evals import AgentEvalSuite

ENDINGS = (".yaml", ".yml")


def add_fixtures(suite: AgentEvalSuite, fixtures: str | Mapping[str, Any], limits: Limits) -> AgentEvalSuite:
    """The suite with the fixtures of a file, or of its content. An InvalidRequest has every problem."""
    name = fixtures if isinstance(fixtures, str) else "fixtures"
    given = document_of(fixtures, limits) if isinstance(fixtures, str) else dict(fixtures)
    document, _, problems = to_json_document(given, "", limits)
    if problems:
        raise UsageError(*(f"{name}: {one}" for one in problems))
    return with_fixtures(suite, document, name)


def check_recording(name: str, option: str) -> None:
    """Refuse a file that cannot be written before a live tool is called."""
    file = Path(name)
    if not name.endswith(ENDINGS):
        raise UsageError(f"{option} {name}: expected a file that ends in {' or '.join(ENDINGS)}")
    if file.exists():
        raise UsageError(
            f"{option} {name}: expected a new file, got one that exists; name another, or remove it"
        )
    if not file.parent.is_dir():
        raise UsageError(f"{option} {name}: there is no folder {file.parent}")


async def write_recording(store: Store, run: Run, name: str, option: str) -> RecordedFixtures:
    """Write the answers of the tools in the tasks that were measured."""
    measured = [task.task_id for task in (await report_of(store, run)).tasks if task.score is not None]
    recorded = await recorded_fixtures(store, run, measured)
    _write(name, recorded.as_yaml(), option)
    return recorded


def _write(name: str, text: str, option: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as wrong:
        raise UsageError(f"{option} {name}: cannot be written: {wrong.strerror}") from None
