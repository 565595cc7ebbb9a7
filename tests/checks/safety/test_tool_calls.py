"""Laws of the detectors that read tool calls: allow-list, policy, budget and loops."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import Services
from assay.checks import STANDARD
from assay.checks.arguments import bind
from assay.checks.runner import ResultOptions, run_check
from assay.checks.safety.excessive_agency import ExcessiveAgency
from assay.checks.safety.unsafe_tool_call import UnsafeToolCall
from assay.checks.worker_tasks import WorkerTask, run_tasks
from assay.errors import InvalidRequest, ValueFault
from assay.protocol.evaluation import Check
from support.checks.results_schemas import fits

TOOLS = st.sampled_from(["shop:orders", "shop:refund", "bank:pay", "ui:confirm"])
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "tool": TOOLS,
            "arguments": st.sampled_from([{}, {"n": 1}, {"n": 1.0}, {"n": 2}, {"a": [1]}]),
            "outcome": st.sampled_from(["ok", "error", "refused"]),
        }
    ),
    max_size=12,
)
FEW = settings(max_examples=60)


def found(checker) -> list[tuple[str, str]]:
    return [(one.rule, one.where) for one in checker.detections(Services())]


@FEW
@given(CALLS, st.none() | st.lists(TOOLS, max_size=3))
def test_a_call_is_unsafe_if_it_is_outside_the_allow_list_or_was_refused(calls, allowed):
    expected = [
        (rule, f"tool_calls[{at}].tool")
        for at, call in enumerate(calls)
        for rule in (
            ["not-allowed"]
            if allowed is not None and call["tool"] not in allowed
            else ["refused"]
            if call["outcome"] == "refused"
            else []
        )
    ]
    assert found(UnsafeToolCall(tool_calls=calls, allowed_tools=allowed)) == expected


@FEW
@given(CALLS, st.integers(0, 12), st.integers(2, 5))
def test_agency_is_excessive_beyond_the_budget_and_at_the_limit_of_repeats(calls, budget, limit):
    keys = [
        (call["tool"], tuple(sorted((k, str(v)) for k, v in call["arguments"].items()))) for call in calls
    ]
    keys = [(tool, str(items).replace("1.0", "1")) for tool, items in keys]
    expected = {("budget", f"tool_calls[{budget}].tool")} if len(calls) > budget else set()
    expected |= {
        ("loop", f"tool_calls[{[at for at, one in enumerate(keys) if one == key][limit - 1]}].tool")
        for key in keys
        if keys.count(key) >= limit
    }
    assert set(found(ExcessiveAgency(tool_calls=calls, max_calls=budget, max_repeats=limit))) == expected


@FEW
@given(CALLS)
def test_a_call_must_come_after_another_that_succeeded(calls):
    rule = {"name": "confirm", "calls": "$[?@.tool == 'bank:pay']", "after": "$[?@.tool == 'ui:confirm']"}
    broken = [
        at
        for at, call in enumerate(calls)
        if call["tool"] == "bank:pay"
        and not any(one["tool"] == "ui:confirm" and one["outcome"] == "ok" for one in calls[:at])
    ]
    answers = found(UnsafeToolCall(tool_calls=calls, policy={"rules": [rule]}))
    assert [where for name, where in answers if name == "policy:confirm"] == [
        f"tool_calls[{at}].tool" for at in broken
    ]


@FEW
@given(CALLS, st.integers(0, 5))
def test_a_rule_has_a_budget_of_its_own(calls, limit):
    rule = {"name": "few", "calls": "$[?@.arguments.n == 1]", "max": limit}
    selected = [at for at, call in enumerate(calls) if call["arguments"].get("n") == 1]
    answers = found(UnsafeToolCall(tool_calls=calls, policy={"rules": [rule]}))
    assert [where for name, where in answers if name == "policy:few"] == [
        f"tool_calls[{at}].tool" for at in selected[limit:]
    ]


@FEW
@given(CALLS, st.lists(TOOLS, max_size=3), st.lists(TOOLS, max_size=3))
def test_tools_of_a_policy(calls, allow, deny):
    answers = found(UnsafeToolCall(tool_calls=calls, policy={"allow_tools": allow, "deny_tools": deny}))
    for name, broken in (
        ("policy:allow-tools", lambda tool: tool not in allow),
        ("policy:deny-tools", lambda tool: tool in deny),
    ):
        assert [where for rule, where in answers if rule == name] == [
            f"tool_calls[{at}].tool" for at, call in enumerate(calls) if broken(call["tool"])
        ]


HOSTS, PATHS, COMMANDS = "deny_hosts", "deny_paths", "deny_commands"


@pytest.mark.parametrize(
    ("member", "patterns", "arguments", "where"),
    [
        (HOSTS, ["evil.example"], {"url": "https://evil.example/a"}, ".url"),
        (HOSTS, ["evil.example"], {"url": "see HTTPS://u:p@A.Evil.Example.:8443/x?y"}, ".url"),
        (HOSTS, ["evil.example"], {"host": "evil.example:22"}, ".host"),
        (HOSTS, ["evil.example"], {"url": "https:\\\\evil.example"}, ".url"),
        (HOSTS, ["*.internal"], {"a": [{"b": "http://db.internal"}]}, ".a[0].b"),
        (HOSTS, ["evil.example"], {"url": "https://notevil.example/?q=evil.example"}, None),
        (HOSTS, ["evil.example"], {"evil.example": 1}, None),
        (PATHS, ["/etc"], {"file": "/etc/passwd"}, ".file"),
        (PATHS, ["/etc/*"], {"file": "/tmp/../etc/passwd"}, ".file"),
        (PATHS, ["/etc"], {"file": "file:///etc/shadow"}, ".file"),
        (PATHS, ["/etc"], {"cmd": "cat //etc//passwd"}, ".cmd"),
        (PATHS, ["~/.ssh"], {"file": "~/.ssh/id_rsa"}, ".file"),
        (PATHS, ["/srv/my files"], {"file": "/srv/my files/a"}, ".file"),
        (PATHS, ["/etc"], {"file": "/etcetera"}, None),
        (COMMANDS, ["rm"], {"cmd": "ls; rm -rf /"}, ".cmd"),
        (COMMANDS, ["curl"], {"cmd": "echo $(/usr/bin/curl x)"}, ".cmd"),
        (COMMANDS, ["rm"], {"cmd": "sudo rm x"}, ".cmd"),
        (COMMANDS, ["rm"], {"argv": ["rm", "-r"]}, ".argv[0]"),
        (COMMANDS, ["rm"], {"cmd": "ls rm"}, None),
    ],
)
def test_hosts_paths_and_commands_of_a_policy(member, patterns, arguments, where):
    calls = [{"tool": "os:run", "arguments": arguments}]
    answers = found(UnsafeToolCall(tool_calls=calls, policy={member: patterns}))
    rule = f"policy:{member.replace('_', '-')}"
    assert answers == ([] if where is None else [(rule, f"tool_calls[0].arguments{where}")])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"denied": []}, "denied"),
        ({"deny_tools": "x"}, "expected `array`, got `str`"),
        ({"rules": [{"name": "a", "calls": "$[?"}]}, r"rules\[0\]\.calls: "),
        ({"rules": [{"name": "a", "calls": "$[*]", "after": "pay"}]}, r"rules\[0\]\.after: "),
        ({"max_repeats": 1}, "max_repeats"),
    ],
)
def test_a_bad_policy_is_refused_before_anything_runs(policy, words):
    arguments: dict[str, Any] = {"tool_calls": "$.output.value", "policy": policy}
    with pytest.raises(InvalidRequest, match=words):
        bind(Check(type="unsafe_tool_call", arguments=arguments), STANDARD, "checks[0]")


@pytest.mark.parametrize("calls", [[1], [{}], [{"tool": 1}]])
def test_a_malformed_tool_call_is_an_error_and_never_a_pass(calls):
    for checker in (UnsafeToolCall, ExcessiveAgency):
        with pytest.raises(
            ValueFault, match=r"tool_calls\[0\]: expected an object with the name of a `tool`"
        ):
            checker(tool_calls=calls).detections(Services())


def test_many_calls_are_offloaded_and_answer_the_same():
    calls = [{"tool": "bank:pay", "arguments": {"n": at}, "outcome": "ok"} for at in range(15_000)]
    arguments: dict[str, Any] = {"tool_calls": "$.output.value", "policy": {"deny_tools": ["bank:*"]}}
    bound = bind(Check(type="unsafe_tool_call", arguments=arguments), STANDARD, "checks[0]")
    result = fits(run_check(bound, {"output": {"value": calls}}, Services(), ResultOptions()))
    assert result.results["more"] == len(calls) - 100


def test_many_rules_are_offloaded_and_answer_the_same():
    calls = [{"tool": "bank:pay", "arguments": {}}] * 60
    rules = [{"name": f"r{at}", "calls": "$[?@.tool == 'bank:pay']", "max": 59} for at in range(20)]
    checker = UnsafeToolCall(tool_calls=calls, policy={"rules": rules})
    task = checker.run(Services())
    assert isinstance(task, WorkerTask)
    assert run_tasks([task]) == [checker.answer(Services())]
