"""`assay suite from-traces`: a recorded trace becomes a task whose tools answer as they did."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings

import assay
from assay.agenteval.suites.from_traces import suite_of_traces
from assay.agenteval.suites.suite import read_own_suite, suite_as_yaml
from assay.traces.otlp import items_of_json
from assay.traces.trace_case import SpanGroup, context_of_traces
from support.traces.conversations import DIALECTS, Conversation, ToolUse, genai
from support.traces.otlp import Sent, request_of, write_lines
from support.traces.strategies import conversations

RECORDINGS = Path(__file__).parents[2] / "traces" / "recordings"
ORDER = ToolUse(name="orders", arguments={"id": 17}, result={"state": "sent"})
TALK = Conversation(question="Where is order 17?", answer="It is sent.", uses=(ORDER,))


def context_of(talk, write=genai):
    return context_of_traces("case", [SpanGroup(list(items_of_json(request_of(*write(talk)))))])


def agent_of(talk):
    """The agent of a conversation: it makes its calls again, and notes what they gave."""
    seen = []

    def agent(task, ctx):
        seen.extend((use.name, use.arguments, ctx.tool(use.name, **use.arguments)) for use in talk.uses)
        return talk.answer

    return agent, seen


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_recorded_agent_gives_the_recorded_trajectory_again(dialect):
    again = ToolUse(name="orders", arguments={"id": 17}, result={"state": "lost"})
    other = ToolUse(name="orders", arguments={"id": 18}, result={"state": "open"})
    talk = Conversation(
        question="q",
        answer="a",
        uses=(ORDER, other, again, ToolUse(name="mail", arguments={}, result={"ok": 1})),
    )
    made = suite_of_traces([context_of(talk, DIALECTS[dialect])], {})
    agent, seen = agent_of(talk)
    run = asyncio.run(assay.run_suite(made.suite("local.x.evals.y"), agent))
    assert run.passed, run
    assert seen == [(use.name, use.arguments, use.result) for use in talk.uses]


def traces_of(talks, write):
    """One trace for each turn of a conversation, one after the other."""
    found = []
    for at, talk in enumerate(talks):
        spans = [msgspec.structs.replace(one, start=one.start + at * 5_000, end=one.end + at * 5_000,
                                         trace=f"a{at}") for one in write(talk)]  # fmt: skip
        found.append(SpanGroup(list(items_of_json(request_of(*spans)))))
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_recorded_conversation_of_several_turns_is_had_again(dialect):
    lost = ToolUse(name="orders", arguments={"id": 17}, result={"state": "lost"})
    mail = ToolUse(name="mail", arguments={"to": "ada.lovelace@gmail.com"}, result={"ok": 1})
    talks = [
        TALK,
        Conversation(question="And now?", answer="It is lost.", uses=(lost,)),
        Conversation(question="Tell ada.lovelace@gmail.com.", answer="Done.", uses=(mail,)),
    ]
    made = suite_of_traces([context_of_traces("talk", traces_of(talks, DIALECTS[dialect]))], {})
    (task,) = made.tasks
    assert task.input == "Where is order 17?"
    assert made.extensions["talk"].turns.messages == ("And now?", "Tell [email-1].")
    suite = made.suite("local.x.evals.y")
    assert read_own_suite(yaml.safe_load(suite_as_yaml(suite))) == suite
    answers = {talk.question.replace("ada.lovelace@gmail.com", "[email-1]"): talk for talk in talks}
    seen = []

    def agent(task, ctx):
        talk = answers[task]
        for use in talk.uses:
            inputs = {name: "[email-1]" if name == "to" else value for name, value in use.arguments.items()}
            seen.append((len(ctx.messages), ctx.tool(use.name, **inputs)))
        return talk.answer

    run = asyncio.run(assay.run_suite(suite, agent))
    assert run.passed, run
    assert [result for _, result in seen] == [{"state": "sent"}, {"state": "lost"}, {"ok": 1}]
    assert [number for number, _ in seen] == [1, 3, 5]  # the conversation so far


@settings(max_examples=25, deadline=None)
@given(talk=conversations)
def test_a_suite_is_written_and_read_again(talk):
    made = suite_of_traces([context_of(talk)], {})
    suite = made.suite("local.x.evals.y")
    assert read_own_suite(yaml.safe_load(suite_as_yaml(suite))) == suite


SECRET = "sk-live0123456789abcdefghijklmnop"


def test_equal_personal_data_gets_the_same_replacement_and_nothing_of_it_is_written():
    lookup = ToolUse(
        name="lookup",
        arguments={"mail": "ada.lovelace@gmail.com"},
        result={"access_token": "x7", "key": SECRET, "note": f"uses {SECRET}"},
    )
    talk = Conversation(
        question="Who is ada.lovelace@gmail.com, not bob.smith@gmail.com?",
        answer="ada.lovelace@gmail.com",
        uses=(lookup,),
    )
    made = suite_of_traces([context_of(talk)], {})
    text = suite_as_yaml(made.suite("local.x.evals.y"))
    assert "gmail" not in text
    assert SECRET not in text
    (task,) = made.tasks
    assert task.input == "Who is [email-1], not [email-2]?"
    assert task.expected.match.value == "[email-1]"
    assert made.extensions[task.task_id].fixtures[0].match.arguments == {"mail": "[email-1]"}
    assert made.redacted["email"] == 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "t.jsonl", request_of(*genai(TALK)))
    (tmp_path / "checks.yaml").write_text("- contains: lost\n")
    return tmp_path


def test_what_does_not_hold_what_a_task_needs_is_left_out_with_the_reason():
    talk = Conversation(question="q", answer="a", uses=(ORDER,))
    # the messages of the last model call have the result too: take it from both
    spans = [
        Sent(id=one.id, parent=one.parent, start=one.start, end=one.end,
             attributes={key: value for key, value in one.attributes.items()
                         if key != "gen_ai.tool.call.result" and (one.id != "11" or key != "gen_ai.input.messages")})
        for one in genai(talk)
    ]  # fmt: skip
    spans[-1].attributes["gen_ai.input.messages"] = json.dumps(
        [{"role": "user", "parts": [{"type": "text", "content": "q"}]}]
    )
    orphans = [
        Sent(id=one.id, parent=one.parent, start=one.start, end=one.end, attributes=one.attributes)
        for one in genai(talk)[1:]
    ]
    contexts = [
        *assay.read_traces(RECORDINGS / "google_adk_without_content.json"),
        context_of_traces("no result", [SpanGroup(list(items_of_json(request_of(*spans))))]),
        context_of_traces("no root", [SpanGroup(list(items_of_json(request_of(*orphans))))]),
        context_of_traces("turns", [SpanGroup(list(items_of_json(request_of(*genai(talk)))))] * 101),
    ]
    made = suite_of_traces(contexts, {})
    assert not made.tasks
    assert [reason for _, reason in made.left_out] == [
        "the spans have no messages: the sender does not record content",
        "the result of orders is not recorded",
        "1 parent spans are missing",
        "it has 101 turns, and a task at most 100",
    ]


def test_the_command_writes_a_suite_that_runs(command, folder):
    (folder / "bot.py").write_text(
        "def answer(task, ctx):\n    return 'It is ' + ctx.tool('orders', id=17)['state'] + '.'\n"
    )
    saved, made, ran = command.each(
        [
            ("evaluate", "--traces", "t.jsonl", "--checks", "checks.yaml", "--name", "monday"),
            ("suite", "from-traces", "t.jsonl", "--run", "monday", "--only", "failing", "-o", "s.yaml"),
            ("run", "s.yaml", "--agent", "bot:answer"),
        ],
        folder=folder,
    )
    assert (saved.code, made.code, ran.code) == (0, 0, 0), made.err
    assert "wrote s.yaml: 1 task" in made.out
    assert "the expected answers of 1 task are drafts" in made.err
    assert "expected:  # a draft" in (folder / "s.yaml").read_text()


def test_an_answer_that_a_person_found_right_is_no_draft_and_not_failing(command, folder):
    case = "aa" * 16
    results = command.each(
        [
            ("evaluate", "--traces", "t.jsonl", "--checks", "checks.yaml", "--name", "monday"),
            ("annotate", "monday", "--task", case, "--passed"),
            ("suite", "from-traces", "t.jsonl", "--run", "monday", "-o", "s.yaml"),
            ("suite", "from-traces", "t.jsonl", "--run", "monday", "--only", "failing", "-o", "f.yaml"),
        ],
        folder=folder,
    )
    assert [one.code for one in results] == [0, 0, 0, 2], [one.err for one in results]
    assert "draft" not in results[2].err + (folder / "s.yaml").read_text()
    assert "no trace became a task; nothing is written" in results[3].err
    assert not (folder / "f.yaml").exists()


REFUSED = {
    "failing without a run": (("t.jsonl", "--only", "failing"), "--only failing: expected --run"),
    "an unknown id": (("t.jsonl", "--only", "nobody"), "--only 'nobody': no trace has this id"),
    "another file": (("checks.yaml",), "expected a file of traces that ends in"),
    "no file": (("none.jsonl",), "there is no such file"),
    "an id that is none": (("t.jsonl", "--id", "Mine"), "--id 'Mine': expected <scope>.<org>.evals.<name>"),
    "a file that exists": (("t.jsonl", "-o", "checks.yaml"), "expected a new file, got one that exists"),
}


def test_wrong_usage_is_refused(command, folder):
    results = command.each([("suite", "from-traces", *one) for one, _ in REFUSED.values()], folder=folder)
    assert [one.code for one in results] == [2] * len(REFUSED)
    for result, (_, message) in zip(results, REFUSED.values(), strict=True):
        assert message in result.err


def test_only_takes_tags_and_ids(command, folder):
    tagged = [Sent(id=one.id, parent=one.parent, trace="bb", start=one.start, end=one.end,
                   attributes={**one.attributes, **({"tag.tags": ["vip"]} if not one.parent else {})})
              for one in genai(TALK)]  # fmt: skip
    write_lines(folder / "two.jsonl", request_of(*genai(TALK)), request_of(*tagged))
    tag, id = command.each(
        [("suite", "from-traces", "two.jsonl", "--only", which) for which in ("tag:vip", "aa" * 16)],
        folder=folder,
    )
    assert [task["taskId"] for task in yaml.safe_load(tag.wrapped_out)["tasks"]] == ["bb" * 16]
    assert [task["taskId"] for task in yaml.safe_load(id.wrapped_out)["tasks"]] == ["aa" * 16]


MAIL, TOKEN = "zoe.canary@corp-canary.com", "ghp_CANARYabcdefghijklmnopqrstuvwxyz01234567"
OPENAI, AWS = "sk-proj-CANARYabcdefghijklmnopqrstuv0123456789", "AKIACANARY1234567890"
IBAN, JWT = "DE89370400440532013000", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlc2lnbmF0dXJl"
CANARIES = ("canary", "ghp_", "sk-proj", "AKIA", "DE8937", "eyJ", "hunter2")


def test_no_secret_and_no_personal_data_reaches_a_suite_from_any_place(tmp_path, command):
    arguments = {MAIL: {"deep": [OPENAI, {"k": AWS}]}, "password": "hunter2canary", "auth": f"Bearer {JWT}"}
    result = {"iban": IBAN, "note": f"mail {MAIL}", "nested": {TOKEN: 1}, "api_key": "canaryplainvalue123"}
    use = ToolUse(name="lookup", arguments=arguments, result=result)
    spans = genai(
        Conversation(question=f"I am {MAIL}, {TOKEN}", answer=f"Done, {MAIL}: {OPENAI}", uses=(use,))
    )
    for span in spans:  # the id of the conversation, the tags and the instructions
        span.attributes |= {
            "gen_ai.conversation.id": MAIL,
            "tag.tags": [MAIL],
            "user.email": MAIL,
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": f"key {OPENAI}"}]),
        }
    failed = genai(Conversation(question="q", answer="a", uses=(ToolUse(name=MAIL, arguments={}, result=1),)))
    silent = genai(Conversation(question="q", answer="a"))
    for span in failed:
        span.trace = "bb"
        if "gen_ai.tool.name" in span.attributes:
            span.failed = f"cannot reach https://me:pw-canary@host/ for {MAIL}"
    for span in silent:  # it is left out, and named
        span.trace = "cc"
        span.attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": f"other.{MAIL}"}
    write_lines(tmp_path / "traces.jsonl", request_of(*spans), request_of(*failed), request_of(*silent))
    done = command("suite", "from-traces", "traces.jsonl", "-o", "made.yaml", folder=tmp_path)
    assert done.code == 0, done.err
    text = (tmp_path / "made.yaml").read_text()
    assert [one for one in CANARIES if one in text + done.out + done.err] == []
    assert [task["taskId"] for task in yaml.safe_load(text)["tasks"]] == ["email-1", "bb" * 16]
    assert "left out: other.[email-1]" in done.err or "left out: [email-1]" in done.err
    kinds = ("api_key", "aws-key", "email", "github-token", "iban", "openai-key", "password")
    assert all(kind in done.err for kind in kinds), done.err
