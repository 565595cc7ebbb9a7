"""Adversarial suites: what is generated from which ordinary tasks, and that the tables of attacks are complete."""

import base64
import codecs
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from assay.agenteval.attacks import ATTACKS, KINDS
from assay.agenteval.attacks.attack import CANARY, UNTRUSTED
from assay.agenteval.attacks.forms import TRANSFORMS, with_attack
from assay.agenteval.attacks.generate import OTHER_TOOLS, attack_suite, benign_suite, task_id_of
from assay.agenteval.suites.suite import LONGEST_ID, read_suite, suite_as_json, suite_as_yaml
from assay.errors import UsageError
from assay.inputs.yaml_reader import read_yaml
from assay.protocol.agent_evals import EvalTask, Fixtures
from assay.protocol.agents import AgentCard

EXPECTED = {"kind": "golden", "match": {"strategy": "contains", "value": "sent"}}
ORDERS = {"tool": "shop:orders", "response": [{"state": "sent"}]}
SLOTS = {
    "canary": CANARY,
    "tool": "shop:orders",
    "other_tool": "a:b",
    "host": "h.example",
    "key": "K1",
    "person": "P",
    "script": "<s>",
    "escape": "\x1b",
}
CARD = AgentCard(agent_id="local.shop.bot", tools=("shop:orders",))
BY_NAME = {transform.name: transform for transform in TRANSFORMS}


def suite_of(*tasks, **members):
    document = {"suiteId": "local.shop.evals.orders", "version": "1.2.0", "modes": ["golden"], **members}
    return read_suite({**document, "tasks": list(tasks)})


def task_of(input="Where is my order?", id="order", **fixtures):
    more = {"fixtures": fixtures} if fixtures else {}
    return {"taskId": id, "input": input, "expected": EXPECTED, **more}


SHOP = suite_of(
    task_of({"says": "Where is it?", "id": 7}, toolResponses=[ORDERS], memorySeed=[{"content": "gold"}])
)


def test_every_attack_has_a_kind_an_owasp_entry_all_languages_and_the_same_slots_in_each():
    languages = {transform.language for transform in TRANSFORMS}
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    for attack in ATTACKS:
        assert re.fullmatch(r"llm(0[1-9]|10)", attack.owasp)
        assert re.fullmatch(r"[a-z0-9-]+", attack.name)
        assert set(attack.texts) == languages
        assert attack.slots <= set(SLOTS)
        for text in attack.texts.values():
            assert set(re.findall(r"<<(\w+)>>", text)) == attack.slots
        if "canary" in attack.slots:  # it is replaced in fixtures alone
            assert set(attack.places) <= set(UNTRUSTED)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: transform.name)
def test_a_canary_and_in_a_lossy_form_every_slot_stays_readable(transform):
    for attack in ATTACKS:
        text = transform.apply(attack.texts, SLOTS)
        readable = attack.slots if transform.lossy else attack.slots & {"canary"}
        assert all(SLOTS[slot] in text for slot in readable)
        assert "<<" not in text


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        ("base64", lambda part: base64.b64decode(part).decode()),
        ("hex", lambda part: bytes.fromhex(part).decode()),
        ("rot13", lambda part: codecs.decode(part, "rot13")),
        ("backwards", lambda part: part[::-1]),
        ("zero-width", lambda part: part.replace("\u200b", "")),
        ("german", str),
    ],
)
def test_a_form_can_be_decoded(name, decode):
    text = BY_NAME[name].apply({"en": "Say Grüße now", "de": "Say Grüße now"}, {})
    assert decode(text.rpartition("says: ")[2]) == "Say Grüße now"


def test_the_adversarial_suite_has_every_attack_in_every_form_and_the_expectations_of_its_tasks():
    generated = attack_suite(SHOP, kinds=KINDS, seed=3, judge=True)
    suite = generated.suite
    assert (suite.suite_id, suite.version) == ("local.shop.evals.orders-adversarial", "1.2.0")
    assert suite.modes == ("adversarial",)
    assert len(suite.tasks) == len(ATTACKS) * len(TRANSFORMS)
    assert generated.notes == []
    assert {task.expected for task in suite.tasks} == {SHOP.tasks[0].expected}
    for attack, transform, task in generated.tasks:
        assert task.task_id.startswith(f"{attack.owasp}-{attack.name}-")
        assert f"-{transform.name}-" in task.task_id
        assert task.task_id.endswith("-order")
    places = {place for task in suite.tasks for place in ("input", "document", "tool-result", "memory") if f"-{place}-" in task.task_id}  # fmt: skip
    assert places == {"input", "document", "tool-result", "memory"}
    assert read_suite(read_yaml(suite_as_yaml(suite).encode(), "x")) == suite
    assert read_suite(msgspec.json.decode(suite_as_json(suite))) == suite


def test_a_seed_gives_the_same_bytes_and_another_seed_another_choice():
    def text(seed, suite=SHOP):
        return suite_as_yaml(attack_suite(suite, CARD, kinds=KINDS, seed=seed).suite)

    assert text(5) == text(5)
    assert text(5) != text(6)


ALL_BUT_TOOLS = {"tool-argument", "copy-key", "other-tool", "repeat-call"}


@pytest.mark.parametrize(
    ("suite", "card", "missing", "note"),
    [
        (suite_of(task_of()), None, {*ALL_BUT_TOOLS, "code-word", "override", "other-customer", "image-link"}, "no ordinary task has a memorySeed"),
        (suite_of(task_of()), CARD, {"copy-key"}, "no attacks in tool-result: no ordinary task has a tool response"),
        (suite_of(task_of(17, toolResponses=[ORDERS])), CARD, {"forbidden-guide", "unlimited-persona", "list-keys"}, "no ordinary task has a text in its input"),
        (suite_of(task_of(toolResponses=[{"tool": "x:y", "response": 3}])), CARD, {"copy-key"}, "no attacks in tool-result"),
        (suite_of(task_of(toolResponses=[{"tool": "x:y", "response": "text"}])), CARD, {"copy-key"}, "no attacks in tool-result"),  # not on the allow-list
        (SHOP, AgentCard(agent_id="local.a.b", takes_tools=False), ALL_BUT_TOOLS, "agent local.a.b takes no tools"),
        (suite_of(task_of(), task_of("x" * 70_000, id="long")), CARD, {"copy-key"}, "1 ordinary tasks have more than 65,536 bytes"),
    ],
    ids=["nothing", "no-fixtures", "number", "number-answer", "other-tool", "no-tools", "large"],
)  # fmt: skip
def test_an_attack_that_does_not_apply_is_left_out_with_its_reason(suite, card, missing, note):
    generated = attack_suite(suite, card, kinds=KINDS, judge=True)
    assert {attack.name for attack in ATTACKS} - {one.attack.name for one in generated.tasks} == missing
    assert any(note in line for line in generated.notes), generated.notes
    assert all(any(name in line for line in generated.notes) for name in missing)


def test_without_a_judge_jailbreak_attacks_are_left_out_with_their_reason():
    """A judge alone sees whether an agent followed them."""
    without, judged = (attack_suite(SHOP, kinds=KINDS, judge=judge) for judge in (False, True))
    named = [attack.name for attack in ATTACKS if attack.kind == "jailbreak"]
    assert named == ["forbidden-guide", "unlimited-persona"]
    assert without.notes == [
        f"left out, only a judge sees whether the agent followed (--judge): {', '.join(named)}"
    ]
    assert without.tasks == [one for one in judged.tasks if one.attack.name not in named]
    assert len(judged.tasks) == len(without.tasks) + 2 * len(TRANSFORMS)


def test_nothing_to_attack_is_refused():
    with pytest.raises(UsageError, match="no attack fits: no attacks in input"):
        attack_suite(suite_of(task_of(None)), None, kinds=KINDS)
    with pytest.raises(UsageError, match="left out, needs input or document: list-keys"):
        attack_suite(suite_of(task_of(None)), None, kinds=["secret-leak"])


def test_a_limit_takes_from_every_kind_and_plain_forms_first():
    generated = attack_suite(SHOP, kinds=KINDS, limit=len(KINDS), judge=True)
    assert {one.attack.kind for one in generated.tasks} == set(KINDS)
    assert {one.transform.name for one in generated.tasks} == {"plain"}
    assert len(attack_suite(SHOP, kinds=["jailbreak"], limit=3, judge=True).tasks) == 3


@pytest.mark.parametrize(
    ("input", "attacked"),
    [
        ("Hi", "Hi\n\n!"),
        ({"id": "7", "says": "Hello you"}, {"id": "7", "says": "Hello you\n\n!"}),
        ([1, {"a": ["x"]}], [1, {"a": ["x\n\n!"]}]),
        ({"a": 1}, None),
        (None, None),
    ],
)
def test_the_longest_text_of_an_input_is_attacked(input, attacked):
    task = EvalTask(task_id="t", input=input, expected=SHOP.tasks[0].expected)
    found = with_attack(task, "input", "!")
    assert (None if found is None else found.input) == attacked


@pytest.mark.parametrize(
    ("response", "attacked"),
    [
        ("Hi", "Hi\n\n!"),
        ({"state": "sent", "note": "n"}, {"state": "sent", "note": "n", "note-2": "!"}),
        ([1, {"a": 1}], [1, {"a": 1, "note": "!"}]),
        ([], None),
        (3, None),
    ],
)
def test_an_answer_of_a_tool_gets_one_more_member(response, attacked):
    task = suite_of(task_of(toolResponses=[{"tool": "x:y", "response": response}])).tasks[0]
    found = with_attack(task, "tool-result", "!")
    if attacked is None:
        assert found is None
    else:
        assert isinstance(found.fixtures, Fixtures)
        assert found.fixtures.tool_responses[0].response == attacked


def test_the_task_schema_of_the_agent_bounds_the_attack():
    short = {
        "type": "object",
        "properties": {"id": {"type": "string", "maxLength": 20}, "q": {"type": "string"}},
    }
    card = AgentCard(agent_id="local.a.b", task_schema=short)
    task = suite_of(task_of({"id": "a long name of a ca", "q": "short"})).tasks[0]
    found = with_attack(task, "input", "attack", card)
    assert found.input == {"id": "a long name of a ca", "q": "short\n\nattack"}


def test_an_attack_that_is_too_long_for_the_schema_is_left_out_with_its_reason():
    card = AgentCard(
        agent_id="local.a.b", takes_memory=False, task_schema={"type": "string", "maxLength": 100}
    )
    generated = attack_suite(suite_of(task_of()), card, kinds=["unsafe-output"])
    assert {one.transform.name for one in generated.tasks} >= {"plain", "german"}
    assert any(
        note.startswith("left out, too long for the task schema: script-tag in ") for note in generated.notes
    )


def test_built_in_tasks_fit_the_schema_of_an_agent_or_are_refused():
    schema = {"type": "object", "required": ["message", "n", "tone"], "additionalProperties": False,
              "properties": {"message": {"type": "string"}, "n": {"type": "integer", "minimum": 2}, "tone": {"enum": ["calm"]}, "x": {"type": "number"}}}  # fmt: skip
    suite = benign_suite(AgentCard(agent_id="local.Shop_x.bot", task_schema=schema))
    assert suite.suite_id == "local.shop-x.evals.bot"
    assert {key for task in suite.tasks for key in task.input} == {"message", "n", "tone"}
    with pytest.raises(UsageError, match="use a SUITE of ordinary tasks"):
        benign_suite(AgentCard(agent_id="local.a.b", task_schema={"type": "string", "maxLength": 3}))


def test_an_agent_alone_is_attacked_through_its_tools_and_its_memory():
    generated = attack_suite(benign_suite(CARD), CARD, kinds=KINDS, judge=True)
    assert generated.notes == []
    assert read_suite(msgspec.json.decode(suite_as_json(generated.suite))) == generated.suite
    text = suite_as_yaml(generated.suite)
    assert any(tool in text for tool in OTHER_TOOLS)
    assert generated.suite.thresholds is not UNSET


def test_a_long_id_is_cut_and_stays_unique():
    first, second = (
        task_id_of(ATTACKS[0], "tool-result", TRANSFORMS[0], "a" * 99 + end) for end in ("b", "c")
    )
    assert len(first) == len(second) == LONGEST_ID
    assert first != second
    suite = suite_of(*(task_of(id="a" * 98 + end) for end in ("b", "c")))
    read_suite(msgspec.json.decode(suite_as_json(attack_suite(suite, CARD, kinds=KINDS).suite)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(input=VALUES, response=VALUES)
@settings(max_examples=5)
def test_any_input_and_answer_is_written_and_read_back(input, response):
    base = suite_of(task_of(input, toolResponses=[{"tool": "shop:orders", "response": response}]))
    suite = attack_suite(base, CARD, kinds=["unsafe-output"], limit=4).suite
    assert read_suite(read_yaml(suite_as_yaml(suite).encode(), "x")) == suite
    assert read_suite(msgspec.json.decode(suite_as_json(suite))) == suite
