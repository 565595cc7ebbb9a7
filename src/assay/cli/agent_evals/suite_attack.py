"""`assay suite attack`: write an adversarial suite from ordinary tasks, or for an agent alone."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET

from assay.agenteval.attacks import KINDS
from assay.agenteval.attacks.generate import GeneratedSuite, attack_suite, benign_suite
from assay.agenteval.suites.suite import read_suite_file, suite_as_json, suite_as_yaml
from assay.agenteval.suites.suite_store import SuiteResolver, SuiteStore
from assay.api.pack_refs import names_pack_agent
from assay.backends.agents.spec import parse_spec
from assay.checks.safety import JUDGED
from assay.cli.console.console import count_of, echo, echo_err, echo_rows, echo_text, stdout_to_stderr
from assay.errors import UsageError
from assay.host import parts
from assay.inputs.files import document_of
from assay.packs.store import PackStore
from assay.ports import LOCAL_TENANT
from assay.ports.agents import PackedAgent
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.agents import AgentCard
from assay.protocol.json_types import is_object
from assay.settings import Settings, load

SUITE_FILES = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz", ".json.gz")
SUITE_ID = re.compile(r"[a-z0-9.-]+\.evals\.[a-z0-9-]+(@.+)?\Z")


class AttackSource(NamedTuple):
    suite: AgentEvalSuite | None  # None: the built-in tasks
    card: AgentCard | None


def attack(
    *,
    source: str,
    agent: str | None,
    output: str | None,
    force: bool,
    kinds: list[str],
    seed: int,
    limit: int | None,
    judge: bool,
) -> None:
    """Write the suite to a file or to standard output. Notes go to standard error."""
    selected = _kinds(kinds, judge=judge)
    validate_output(output, force=force)
    with stdout_to_stderr():  # an agent that prints when it is imported must not write into the suite
        found = _read_source(source, agent, load())
    suite = found.suite
    if suite is None:
        assert found.card is not None
        suite = benign_suite(found.card)
        echo_err("built-in tasks are used, and any answer fits them; a SUITE of ordinary tasks tests more")
    generated = attack_suite(suite, found.card, kinds=selected, seed=seed, limit=limit, judge=judge)
    for note in generated.notes:
        echo_err(note)
    write = suite_as_json if output is not None and output.endswith(".json") else suite_as_yaml
    text = write(generated.suite)
    if output is None:
        echo_text(text)
        return
    Path(output).write_text(text, encoding="utf-8")
    target = generated.suite.target_agent_id or "module:function"
    _report(output, generated, agent or (source if found.suite is None else target), judge=judge)


def _report(output: str, generated: GeneratedSuite, agent: str, *, judge: bool) -> None:
    counts = Counter((one.attack.kind, one.attack.owasp) for one in generated.tasks)
    echo_rows(
        [
            ("kind", "owasp", "tasks"),
            *((kind, owasp, f"{number}") for (kind, owasp), number in counts.items()),
        ]
    )
    command = f"assay run {output} --agent {agent}{' --judge PROVIDER:MODEL' if judge else ''}"
    echo(f"wrote {output}: {count_of(len(generated.tasks), 'task')}; next: {command}")


def _kinds(names: list[str], *, judge: bool) -> tuple[str, ...]:
    selected = [kind.strip() for name in names for kind in name.split(",")]
    for kind in selected:
        if kind not in KINDS:
            raise UsageError(f"--kinds {kind!r}: expected one of {', '.join(KINDS)}")
        if kind in JUDGED and not judge:
            raise UsageError(
                f"--kinds {kind}: expected --judge with it, because only a judge sees whether an agent followed such "
                "an attack; then run the suite with"
                " assay run --judge PROVIDER:MODEL"
            )
    return tuple(selected) or KINDS


def validate_output(output: str | None, *, force: bool) -> None:
    if output is None:
        if force:
            raise UsageError("--force: expected -o F with it")
        return
    path = Path(output)
    if not output.endswith((".yaml", ".yml", ".json")):
        raise UsageError(f"-o {output}: expected a file that ends in .yaml or .json")
    if not path.parent.is_dir():
        raise UsageError(f"-o {output}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"-o {output}: expected a file, got a folder")
    if path.exists() and not force:
        raise UsageError(f"-o {output}: expected a new file, got one that exists; --force overwrites it")


def _read_source(source: str, agent: str | None, settings: Settings) -> AttackSource:
    if _names_agent(source, settings):
        if agent is not None:
            raise UsageError(
                f"--agent: expected a SUITE with it, got {source!r}, an agent; leave one of them out"
            )
        return asyncio.run(_agent_source(source, settings))
    if source == "-" or source.endswith(SUITE_FILES) or Path(source).is_file():
        suite = read_suite_file(source, settings.limits)
    elif SUITE_ID.match(source) or source.startswith("pack:"):
        suite = asyncio.run(_stored_suite(source, settings))
    else:
        raise UsageError(
            f"{source!r}: expected a suite (.yaml, .json, '-', or the id of a suite of an installed pack), or an agent"
            " (module:function, file.py:function, http://…, cmd:COMMAND, a manifest.json or an id)"
        )
    if agent is not None:
        return AttackSource(suite, asyncio.run(_agent_source(agent, settings)).card)
    target = suite.target_agent_id
    if target is not UNSET and target in settings.agents:
        return AttackSource(suite, parts.agent_card(target, settings))
    return AttackSource(suite, None)


def _names_agent(source: str, settings: Settings) -> bool:
    if source in settings.agents:
        return True
    if source.endswith(".json"):
        document = document_of(source, settings.limits)
        return is_object(document) and "agentId" in document and "tasks" not in document
    if source == "-" or source.endswith(SUITE_FILES) or source.startswith("pack:") or SUITE_ID.match(source):
        return False
    return parse_spec(source) is not None or names_pack_agent(source, settings)


async def _agent_source(spec: str, settings: Settings) -> AttackSource:
    """The agent's card, and the suite of its pack if it has one."""
    if not names_pack_agent(spec, settings):
        return AttackSource(None, parts.agent_card(spec, settings))
    async with parts.store(settings, light=True) as store:
        agent = await parts.tenant_agents(settings, store).get(LOCAL_TENANT, spec)
        if agent is None:
            return AttackSource(None, parts.agent_card(spec, settings))
        definition = agent.definition if isinstance(agent, PackedAgent) else None
        if definition is None or not definition.suite_path:
            return AttackSource(None, agent.card)
        ref = f"pack:{definition.pack}@{definition.version}/{definition.suite_path}"
        resolved = await SuiteResolver(SuiteStore(store), PackStore(store)).resolve(LOCAL_TENANT, ref)
        return AttackSource(resolved.suite, agent.card)


async def _stored_suite(ref: str, settings: Settings) -> AgentEvalSuite:
    async with parts.store(settings, light=True) as store:
        return (await SuiteResolver(SuiteStore(store), PackStore(store)).resolve(LOCAL_TENANT, ref)).suite
