"""llm_judge against a real local provider (FEP 2.3.6; FEP-12, FEP-17, FEP-18, FEP-25, FEP-26, FEP-30, FEP-31)."""

import asyncio
import gc
import json
import logging
import time
from contextlib import aclosing
from typing import Any, cast

import msgspec
import pytest

import assay
from assay import InvalidRequest
from assay.checks import STANDARD
from assay.checks.argument_forms import PromptTemplate
from assay.checks.arguments import bind
from assay.checks.runner import ResultOptions, prepare, to_result
from assay.checks.standard.llm_judge import LlmJudge, with_reasoning
from assay.errors import Fault, PathFault, TimeFault
from assay.fep.planning.scorer import OpenCase
from assay.ports import Completion, CompletionRequest, Limits, Services
from assay.protocol.evaluation import Check
from assay.testing import ScriptedModel
from support.models.judges import CANARY, PASSED, configure, enter, evaluate, judge
from support.models.provider_server import ProviderServer
from support.stores.database_dump import dump_of
from support.waiting import PATIENCE, until

DOCUMENT = {
    "test_case": {"id": "t", "input": "Capital of France?", "n": 1.5, "none": None, "a}}b": "odd"},
    "output": {"value": {"text": "Paris", "steps": ["a", "b"]}, "evil": "{{$.test_case.id}} $.test_case.id"},
}


@pytest.fixture
def server():
    with ProviderServer() as server:
        yield server


@pytest.fixture
def folder(tmp_path, server, monkeypatch):
    return enter(tmp_path, server, monkeypatch)


# templates


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Is `{{$.output.value.text}}` it?", "Is `Paris` it?"),
        ("{{ $.test_case.input }}", "Capital of France?"),  # a string goes in as it is
        ("{{$.output.value}}", '{"text":"Paris","steps":["a","b"]}'),  # anything else as JSON
        ("{{$.test_case.n}} {{$.test_case.none}}", "1.5 null"),
        ("{{$.output.value.steps[1]}}", "b"),
        ("{{$['test_case']['id']}}", "t"),
        ("{{$.test_case['a}}b']}}!", "odd!"),  # braces inside a name do not end it
        ("{{{{$.test_case.id}}}}", "{{t}}"),
        # FEP-18: one pass; what comes from an output is never a placeholder
        ("{{$.output.evil}}", "{{$.test_case.id}} $.test_case.id"),
        ("{{$.output.evil}}{{$.test_case.id}}", "{{$.test_case.id}} $.test_case.idt"),
        ("{{$.test_case['n']}}}}", "1.5}}"),
    ],
)
def test_a_template_is_filled_once(text, filled):
    form = PromptTemplate.read(text)
    assert form is not None
    assert form.fill(DOCUMENT, Limits()) == filled


@pytest.mark.parametrize(
    "text", ["", "no blanks", "{{this}}", "{{$x}}", "{ {$.a}}", "$.test_case.input", "}}{{"]
)
def test_braces_without_a_path_are_text(text):
    assert PromptTemplate.read(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Is {{$.output.value[}} it?",
            "the placeholder at character 3: malformed path '$.output.value[' at position 15",
        ),
        ("{{$.output.value", "{{ is never closed"),
        ("{{$.output['value}} it", "malformed path"),
        ("{{$.output.missing}}", "$.output.missing finds nothing"),
        ("{{$.output.value.steps[*]}}", "finds 2 values; a placeholder takes one"),
    ],
)
def test_a_placeholder_that_leads_nowhere_ends_the_check(text, message):
    form = PromptTemplate.read(text)
    assert form is not None
    with pytest.raises(PathFault) as fault:
        form.fill(DOCUMENT, Limits())
    assert message in str(fault.value)


@pytest.mark.parametrize(
    "evil", ["{{$['" * 20_000, "{{$.a}}" * 20_000, "{{ " * 100_000, "{{$.a['" + "x" * 200_000]
)
def test_a_template_is_read_in_no_time(evil):
    began = time.thread_time()
    PromptTemplate.read(evil)
    assert time.thread_time() - began < 10


# with a script instead of a model


class Scripted:
    """Everybody is the same model."""

    remote = False

    def __init__(self, script, timeout=None):
        self.script, self._timeout = ScriptedModel(script), timeout

    def model(self, provider_config, model_config):
        return self.script, CompletionRequest(
            messages=(), model="m", parameters=dict(model_config or {}), timeout=self._timeout
        )


def ask(script, document=None, *, timeout=None, **more):
    providers = Scripted(script, timeout)
    services = Services(providers=providers)
    bound = bind(Check(**judge(**more)), STANDARD, "checks[0]", services)
    prepared = prepare(bound, document or DOCUMENT, services)

    async def run():
        if isinstance(prepared.ready, Fault):
            return prepared.ready
        try:
            return await cast("Any", prepared.ready.run(services))
        except Fault as fault:
            return fault

    return to_result(prepared, asyncio.run(run()), services, ResultOptions()), providers.script.requests


@pytest.mark.parametrize(
    ("answers", "response"),
    [
        ([{"passed": True}], {"passed": True}),
        ([{"reasoning": "It is polite.", "passed": False}], {"passed": False}),
        (['```json\n{"passed": true}\n```'], {"passed": True}),
        (["nonsense", {"passed": True}], {"passed": True}),  # repaired once
        ([{"passed": "yes"}, {"passed": True}], {"passed": True}),
        ([[True], {"passed": True}], {"passed": True}),
    ],
)
def test_a_response_fits_the_response_format(answers, response):
    result, asks = ask(answers)
    assert (result.status, result.results["response"]) == ("completed", response)
    assert len(asks) == len(answers)
    assert result.results["metadata"].get("repaired", False) is (len(answers) > 1)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (["no", "again no"], "is not JSON"),
        ([{}, {}], 'does not fit response_format (it: "passed" is a required property)'),
        ([{"passed": 1}, {"passed": 0}], "has neither true nor false as 'passed'"),
        (['{"passed": true, "passed": false}'] * 2, "has the member 'passed' twice"),  # it contradicts itself
        (['{"passed": true} {"passed": false}'] * 2, "is not JSON: Extra data"),
        ([{"passed": True, "score": 1}] * 2, "'score' was unexpected"),
        ([["passed"]] * 2, "is not a JSON object"),
        ([{"passed": None}] * 2, "has neither true nor false"),
        (['{"passed": NaN}'] * 2, "which is not a JSON number"),
    ],
)
def test_an_answer_that_stays_wrong_is_an_error_and_no_score(answers, message):
    result, asks = ask(answers)
    assert (result.status, result.results) == ("error", {})
    assert (result.error.type, result.error.recoverable) == ("unknown_error", False)
    assert message in result.error.message
    assert len(asks) == 2


def test_a_repair_request_has_the_answer_and_its_problem():
    _, asks = ask(["nonsense", {"passed": True}])
    assert [message.role for message in asks[1].messages] == ["user", "assistant", "user"]
    assert asks[1].messages[:2] == (*asks[0].messages, type(asks[0].messages[0])("assistant", "nonsense"))
    assert "is not JSON" in asks[1].messages[2].content


def reply(**more):
    known = {"text": '{"passed": true}', "value": {"passed": True}, "finish_reason": "stop", "model": "m-1"}
    return Completion(**{**known, "provider": "p", **more})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"finish_reason": "length"}, "was cut off"),  # even if what is there fits
        ({"finish_reason": "content_filter"}, "was filtered"),
        ({"finish_reason": "tool_calls"}, "did not end by itself"),
        ({"finish_reason": "unknown"}, "did not end by itself"),
        ({"refusal": "I will not."}, "the judge refused: I will not."),  # whatever stands beside it
    ],
)
def test_a_refusal_or_a_cut_answer_is_not_requested_again(fields, message):
    result, asks = ask([reply(cost_usd=0.5, input_tokens=3, output_tokens=4, **fields)])
    assert (result.status, result.error.type, result.error.recoverable) == ("error", "unknown_error", False)
    assert message in result.error.message
    assert len(asks) == 1
    assert result.metadata["cost_usd"] == 0.5  # it was paid for all the same
    assert result.metadata["tokens_used"] == 7


@pytest.mark.parametrize(
    ("costs", "total"),
    [([0.25, 0.5], 0.75), ([0.25, None], None), ([None, 0.5], None), ([0.0, 0.0], 0.0)],
)
def test_a_repair_is_paid_for_too_and_one_unknown_hides_the_sum(costs, total):
    first, second = costs
    tokens = {"input_tokens": 10, "output_tokens": 2, "seconds": 0.25}
    result, _ = ask(
        [
            reply(text="{}", value={}, cost_usd=first, **tokens),
            reply(cost_usd=second, **tokens),
        ]
    )
    metadata = result.results["metadata"]
    assert (metadata["cost_usd"], metadata["tokens_used"], metadata["response_time_ms"]) == (total, 24, 500.0)
    assert (metadata["model"], metadata["model_version"], metadata["provider"]) == ("m", "m-1", "p")


def test_there_is_no_repair_without_time():
    result, asks = ask([reply(text="{}", value={}, seconds=2.0, cost_usd=0.1)], timeout=1.5)
    assert (result.error.type, result.error.recoverable) == ("timeout_error", True)
    assert len(asks) == 1
    assert result.metadata["cost_usd"] is None


def test_an_answer_that_was_too_late_may_have_cost_something():
    result, _ = ask([TimeFault("too late")])
    assert result.metadata["cost_usd"] is None
    assert result.error.type == "timeout_error"


@pytest.mark.parametrize(
    ("schema", "asks_why"),
    [
        (PASSED, True),
        ({"type": "object", "properties": {"grade": {"enum": ["a", "b"]}}}, True),
        (
            {
                "type": "object",
                "properties": {"passed": {"type": "boolean"}, "rationale": {"type": "string"}},
            },
            False,
        ),
        ({"type": "object", "properties": {"passed": {}}, "if": {}, "then": {}}, False),  # more than members
        ({"type": "object"}, False),
    ],
)
def test_the_schema_has_the_reason_before_the_verdict(schema, asks_why):
    wanted = with_reasoning(schema)
    assert (wanted is not schema) is asks_why
    if asks_why:
        assert next(iter(wanted["properties"])) == "reasoning"
        assert "reasoning" in wanted["required"]
    assert "reasoning" not in schema.get("properties", {})


def test_our_own_reason_goes_to_the_metadata_and_theirs_stays():
    result, asks = ask([{"reasoning": "Because.", "passed": True}])
    assert asks[0].schema["required"] == ["reasoning", "passed"]
    assert result.results["response"] == {"passed": True}
    assert result.results["metadata"]["reasoning"] == "Because."
    theirs = {
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "passed": {"type": "boolean"}},
    }
    result, asks = ask([{"reasoning": "Because.", "passed": True}], schema=theirs)
    assert asks[0].schema == theirs
    assert result.results["response"] == {"reasoning": "Because.", "passed": True}
    assert "reasoning" not in result.results["metadata"]


def test_a_schema_may_define_which_answers_contradict_themselves():
    schema = {
        "type": "object",
        "required": ["passed", "score"],
        "properties": {"passed": {"type": "boolean"}, "score": {"type": "number"}},
        "if": {"properties": {"passed": {"const": True}}},
        "then": {"properties": {"score": {"minimum": 0.5}}},
    }
    result, _ = ask([{"passed": True, "score": 0.1}] * 2, schema=schema)
    assert result.status == "error"
    assert "score: 0.1 is less than the minimum of 0.5" in result.error.message


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "nonsense"}, r"checks\[0\].arguments.response_format: not a JSON Schema"),
        ({"type": "boolean"}, "expected the schema of an object, got one of 'boolean'"),
        ({"type": "object", "properties": {"passed": {"type": "string"}}}, "passed: expected a boolean"),
        ({"$ref": "https://example.com/schema"}, "external references are not fetched"),
        ("text", "expected an object"),
    ],
)
def test_an_invalid_response_format_is_refused(schema, message):
    with pytest.raises(InvalidRequest, match=message):
        ask([], schema=schema)


def test_a_prompt_is_shown_as_sent_and_a_malformed_one_ends_only_its_check():
    result, asks = ask([{"passed": True}], prompt="Is {{$.output.evil}} it?")
    assert asks[0].messages[0].content == "Is {{$.test_case.id}} $.test_case.id it?"
    assert result.resolved_arguments["prompt"].value == asks[0].messages[0].content
    assert "jsonpath" not in msgspec.to_builtins(result.resolved_arguments["prompt"])
    result, asks = ask([], prompt="Is {{$.output[}} it?")
    assert (result.status, result.error.type) == ("error", "jsonpath_error")
    assert (
        "prompt: the placeholder at character 3: malformed path '$.output[' at position 9"
        in result.error.message
    )
    assert not asks


def test_a_host_without_providers_refuses_before_anything_runs():
    with pytest.raises(InvalidRequest, match="this host has no providers"):
        bind(Check(**judge()), STANDARD, "checks[0]", Services())


def test_the_deadline_of_a_judge_starts_with_its_request_and_not_in_the_queue(server, folder):
    """Sixteen judges of 0.1 s, one at a time: the last waits longer than a check may take."""
    configure(folder, server, max_concurrency=1)
    assert LlmJudge.keeps_time
    results = evaluate(*[judge(model="slow:0.1")] * 16, timeout=1.4)
    assert [result.status for result in results] == ["completed"] * 16
    assert max(result.metadata["execution_time_ms"] for result in results) > 1400


def test_a_cancelled_evaluation_returns_the_results_that_it_has(folder, server, monkeypatch):
    """And leaves no connection behind, which would be a warning, which is an error."""
    results, keep = [], OpenCase.set_result
    monkeypatch.setattr(OpenCase, "set_result", lambda *result: results.append(keep(*result)))

    async def main():
        cases = [{"id": f"t{at}", "input": "?"} for at in range(4)]
        checks = [judge(), judge(model="hang", provider_config={"timeout": 30})]
        task = asyncio.create_task(assay.evaluate(cases, [{"value": "x"}] * 4, checks))
        await until(lambda: len(server.seen) == 8 and len(results) == 4)
        task.cancel()
        return await task

    done = asyncio.run(main())
    assert [[one.status for one in case.check_results] for case in done.results] == [
        ["completed", "skip"]
    ] * 4
    gc.collect()


def test_a_stream_that_is_left_early_leaves_nothing_behind(folder):
    async def main():
        contexts = [({"id": f"t{at}", "input": "?"}, {"value": "x"}) for at in range(8)]
        async with aclosing(assay.evaluate_stream(contexts, [judge(model="slow:0.05")])) as results:
            return (await anext(results)).status

    assert asyncio.run(main()) == "completed"
    gc.collect()


def test_a_deadline_ends_a_judge_that_does_not_answer(folder):
    (result,) = evaluate(judge(model="hang"), timeout=0.2)
    assert (result.error.type, result.error.recoverable) == ("timeout_error", True)
    assert result.metadata["execution_time_ms"] < 1000 * PATIENCE


# the tables of failures, through the library and the command

GOOD = [
    ("ok", {}),
    ("slow:0.05", {}),
    ("500,ok", {"attempts": 2}),
    ("429,ok", {"attempts": 2}),
    ("429:0.05,ok", {"attempts": 2}),
    ("drop,ok", {"attempts": 2}),
    ("cut,ok", {"attempts": 2}),
    ("hang,ok", {"attempts": 2}),
    ("plain", {"structured": False, "attempts": 2}),
    ("fenced", {}),
    ("thought", {}),
    ("parts", {}),
    ("wrong,ok", {"repaired": True}),  # the wrong schema once, then right
    ("prose,ok", {"repaired": True}),
    ("torn,ok", {"repaired": True}),
    ("unused", {"cost_usd": None, "tokens_used": None}),  # nobody knows what it cost
]
BAD = [
    ("wrong", "unknown_error", False, "does not fit response_format"),
    ("prose", "unknown_error", False, "is not JSON"),
    ("torn", "unknown_error", False, "is not JSON"),
    ("twice", "unknown_error", False, "has the member 'passed' twice"),
    ("length", "unknown_error", False, "was cut off"),
    ("filter", "unknown_error", False, "was filtered"),
    ("refusal", "unknown_error", False, "the judge refused: I cannot judge this."),
    ("endless", "unknown_error", False, "did not end by itself"),
    ("echo", "unknown_error", False, "is not JSON"),
    ("429", "unknown_error", True, "answered 429"),
    ("429:5000", "unknown_error", True, "answered 429"),
    ("quota", "unknown_error", True, "exceeded your current quota"),
    ("500", "unknown_error", True, "answered 500"),
    ("503:0.01", "unknown_error", True, "answered 503"),
    ("drop", "unknown_error", True, "could not be reached"),
    ("cut", "unknown_error", True, "could not be reached"),
    ("hang", "timeout_error", True, "gave no answer"),
    ("drip", "timeout_error", True, "gave no answer"),
    ("half", "unknown_error", False, "without a chat completion"),
    ("page", "unknown_error", False, "without a chat completion"),
    ("leak:401", "unknown_error", False, "check its api_key"),
    ("leak:400", "unknown_error", False, "answered 400"),
    ("403", "unknown_error", False, "answered 403"),
    ("404", "unknown_error", False, "check its base_url"),
    ("redirect", "unknown_error", False, "answered 307"),
]


def test_every_answer_that_can_be_had_is_had(folder, server):
    results = evaluate(*(judge(model=script) for script, _ in GOOD))
    for (script, expected), result in zip(GOOD, results, strict=True):
        assert result.status == "completed", (script, result.error)
        assert result.results["response"] == {"passed": True}
        metadata = result.results["metadata"]
        assert {name: metadata.get(name) for name in expected} == expected, script
        assert (metadata["provider"], metadata["model"], metadata["finish_reason"]) == (
            "local",
            script,
            "stop",
        )
        assert metadata["cached"] is False
        assert metadata["response_time_ms"] >= 0
        assert result.metadata["execution_time_ms"] > 0


def test_no_failure_is_a_score_and_none_tells_the_key(folder, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    results = evaluate(*(judge(model=script) for script, *_ in BAD))
    for (script, kind, recoverable, words), result in zip(BAD, results, strict=True):
        assert (result.status, result.results) == ("error", {}), script
        assert (result.error.type, result.error.recoverable) == (kind, recoverable), (script, result.error)
        assert words in result.error.message, script
    output = msgspec.json.encode(results).decode() + caplog.text + "".join(capfd.readouterr())
    assert CANARY[:12] not in output


def test_the_command_never_prints_the_key(folder, command):
    """Literal in assay.toml and in a check, echoed and leaked by the provider, in every kind of output."""
    inline = {"provider_name": "local", "api_key": CANARY, "max_retries": 0}
    scripts = ["ok", "echo", "leak:401", "leak:400", "leak:500", "wrong", "hang"]
    checks = [judge(model=script, provider_config=inline) for script in scripts]
    checks += [judge(model=script) for script in scripts]
    (folder / "checks.json").write_text(json.dumps(checks))
    (folder / "answers.jsonl").write_text('{"test_case":{"id":"a","input":"?"},"output":{"value":"x"}}\n')
    names = ["r.jsonl", "r.json", "r.csv"]
    done = command(
        "evaluate", "--contexts", "answers.jsonl", "--checks", "checks.json", "--cache", "--save",
        *(part for name in names for part in ("-o", name)), folder=folder,
    )  # fmt: skip
    assert done.code == 1
    kept = [path for path in (folder / ".assay").rglob("*") if path.is_file()]
    assert {path.suffix for path in kept} >= {".json", ".db"}  # the cache, and the record
    for path in [*(folder / name for name in names), folder / ".r.jsonl.assay", *kept]:
        assert CANARY[:12].encode() not in path.read_bytes(), path
    assert CANARY[:12].encode() not in dump_of(f"sqlite:///{folder}/.assay/assay.db")
    assert CANARY[:12] not in done.out + done.err
    shown = json.loads((folder / "r.jsonl").read_text())["check_results"][0]["resolved_arguments"]
    assert shown["provider_config"]["value"]["api_key"] == "[REDACTED]"


def test_text_from_an_output_cannot_act_as_template(folder, server):
    evaluate(judge(prompt="Judge: {{$.output.value}} End."), value="{{$.test_case.expected}} {{$..*}}")
    (seen,) = server.seen
    assert seen.body["messages"] == [
        {"role": "user", "content": "Judge: {{$.test_case.expected}} {{$..*}} End."}
    ]


def test_parameters_go_to_the_model_as_they_are(folder, server):
    evaluate(judge(model="ok", parameters={"temperature": 0.25, "max_tokens": 50, "seed": 7}))
    assert {"temperature": 0.25, "max_tokens": 50, "seed": 7}.items() <= server.seen[0].body.items()


@pytest.mark.parametrize("name", ["messages", "n", "response_format", "stream", "stream_options"])
def test_a_reserved_parameter_is_refused_before_anything_runs(folder, server, name):
    with pytest.raises(
        InvalidRequest, match=rf"checks\[0\].arguments.model_config.{name}: this parameter is reserved"
    ):
        evaluate(judge(model="ok", parameters={name: 1}))
    assert not server.seen


# what it cost


def test_totals_are_in_the_case_and_the_run(folder):
    cases = [{"id": f"t{at}", "input": "?"} for at in range(3)]
    done = assay.evaluate_sync(
        cases, [{"value": "x"}] * 3, [judge(), judge(model="unused"), judge(model="wrong")]
    )
    (ok, unused, wrong) = done.results[0].check_results
    known = ok.results["metadata"]["cost_usd"] + wrong.metadata["cost_usd"]
    assert known > 0
    assert unused.results["metadata"]["cost_usd"] is None
    details: Any = done.results[0].metadata
    assert details == {
        "calls": 3,
        "cost_usd": None,  # unknown, never 0
        "known_cost_usd": pytest.approx(known),
        "unknown_costs": 1,
        "tokens": None,
    }
    assert done.metadata
    assert {name: value for name, value in done.metadata.items() if name != "statistics"} == {
        **details,
        "calls": 9,
        "known_cost_usd": pytest.approx(3 * known),
        "unknown_costs": 3,
    }


def test_a_model_without_a_price_has_an_unknown_cost(folder, server):
    configure(folder, server, prices=None)
    (result,) = evaluate(judge())
    assert result.results["metadata"]["cost_usd"] is None
    assert result.results["metadata"]["tokens_used"] > 0


def test_a_run_without_judges_has_no_costs():
    done = assay.evaluate_sync(
        [{"id": "a", "input": 1}],
        [{"value": 1}],
        [{"type": "exists", "arguments": {"path": "$.output.value"}}],
    )
    assert done.metadata
    assert list(done.metadata) == ["statistics"]
    assert not done.results[0].metadata


def write(folder, many, **check):
    (folder / "checks.json").write_text(json.dumps([judge(**check), judge(model="slow:0.01")]))
    lines = [{"test_case": {"id": f"t{at}", "input": "?"}, "output": {"value": at}} for at in range(many)]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ("evaluate", "--contexts", "answers.jsonl", "--checks", "checks.json", "-o", "r.jsonl", "--json")


def test_a_ceiling_stops_a_run_that_can_be_resumed(folder, server, command):
    run = write(folder, 20)
    done = command(*run, "--max-cost", "0.0002", "--concurrency", "2", folder=folder)
    assert done.code == 1
    assert "the cost limit of $0.000200 is reached" in done.err
    lines = (folder / "r.jsonl").read_text().splitlines()
    assert 3 < len(lines) < 15
    assert all(json.loads(line)["status"] == "completed" for line in lines)  # what was begun is finished
    asked = len(server.seen)
    assert asked == 2 * len(lines)
    summary = json.loads(done.out)
    assert 0.0002 <= summary["spending"]["known_cost_usd"] < 0.0004
    assert "the cost limit" in summary["error"]

    done = command(*run, "--max-cost", "0.0002", "--resume", folder=folder)  # what it holds counts
    assert (done.code, len(server.seen)) == (1, asked)
    done = command(*run, "--max-cost", "1", "--resume", folder=folder)
    assert done.code == 0
    assert len((folder / "r.jsonl").read_text().splitlines()) == 20
    assert len(server.seen) == 40  # nothing was asked twice
    assert json.loads(done.out)["spending"]["calls"] == 40


def test_a_ceiling_in_the_library_skips_the_rest(folder, server):
    cases = [{"id": f"t{at}", "input": "?"} for at in range(10)]
    done = assay.evaluate_sync(
        cases, [{"value": "x"}] * 10, [judge(), judge(model="slow:0.01")], max_cost=0.0001, concurrency=2
    )
    statuses = [case.status for case in done.results]
    many = statuses.count("completed")
    assert 0 < many < 10
    assert statuses == ["completed"] * many + ["skip"] * (10 - many)
    assert done.status == "skip"
    assert len(server.seen) == 2 * many == done.metadata["calls"]


def test_a_ceiling_that_is_never_reached_changes_nothing(folder, command):
    run = write(folder, 3)
    assert command(*run, "--max-cost", "10", folder=folder).code == 0
    assert command(*run, "--max-cost", "0", folder=folder).code == 2


def test_a_cost_limit_reports_how_many_answers_have_an_unknown_cost(folder, command):
    run = write(folder, 3, model="unused")
    done = command(*run, "--max-cost", "10", folder=folder)
    assert done.code == 0
    assert "the cost of 3 of 6 answers is unknown" in done.err


def test_the_table_shows_the_cost(folder, command):
    run = write(folder, 3)
    done = command(*run[:-1], folder=folder)
    assert "for 6 answers, " in done.out
    assert "cost $0.000" in done.out
    run = write(folder, 3, model="unused")
    done = command(*run[:-1], folder=folder)
    assert "cost at least $0.000" in done.out
    assert "(unknown for 3)" in done.out


def test_several_processes_say_that_one_does_it_all(folder, command):
    run = write(folder, 3)
    done = command(*run, "--jobs", "2", folder=folder)
    assert done.code == 0
    assert "so it runs in one process" in done.err


# the cache


def test_a_cached_judgement_is_not_requested_again_and_marked(folder, server):
    first = evaluate(judge(), cache=True)
    again = evaluate(judge(), cache=True)
    assert len(server.seen) == 1
    metadata, kept = (result[0].results["metadata"] for result in (first, again))
    assert (metadata["cached"], kept["cached"]) == (False, True)
    assert (kept["cost_usd"], kept["saved_usd"]) == (0.0, metadata["cost_usd"])
    assert first[0].results["response"] == again[0].results["response"]


def test_without_the_option_nothing_is_cached(folder, server):
    for _ in range(2):
        evaluate(judge())
    assert len(server.seen) == 2
    assert not (folder / ".assay").exists()


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": "Is `{{$.output.value}}` kind?"},
        {"model": "fenced"},
        {"model": "ok", "parameters": {"temperature": 1}},
        {"schema": {**PASSED, "title": "another"}},
        {"provider_config": {"structured": False}},
    ],
)
def test_whatever_changes_the_answer_is_part_of_the_key(folder, server, other):
    evaluate(judge(), cache=True)
    (result,) = evaluate(judge(**other), cache=True)
    assert result.results["metadata"]["cached"] is False
    assert len(server.seen) == 2


def test_another_version_of_the_check_asks_again(folder, server):
    class Next(LlmJudge):
        version = "1.1.0"

    evaluate(judge(), cache=True)
    (result,) = evaluate(judge(), cache=True, registry=assay.Registry([Next]))
    assert result.results["metadata"]["cached"] is False


def test_a_repeat_is_another_question_and_has_its_own_answer(folder, server):
    """The same asked three times in a run is three samples; the next run has all three."""
    for asked in (3, 3):
        results = evaluate(judge(), judge(), judge(), cache=True)
        assert len(server.seen) == asked
    assert [result.results["metadata"]["cached"] for result in results] == [True] * 3
    evaluate(*[judge()] * 4, cache=True)
    assert len(server.seen) == 4


def test_a_corrupt_entry_is_a_miss(folder, server):
    evaluate(judge(), cache=True)
    (entry,) = (folder / ".assay").rglob("*.json")
    for torn in (b"", b"{", b'{"text": 1}', b"\xff\xfe", entry.read_bytes()[:-5]):
        entry.write_bytes(torn)
        (result,) = evaluate(judge(), cache=True)
        assert (result.status, result.results["metadata"]["cached"]) == ("completed", False)
    assert len(server.seen) == 6


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ("length", 2),
        ("wrong", 4),  # each with its repair
        ("wrong,ok,ok", 3),  # repaired and kept; what had to be repaired is asked for again
    ],
)
def test_an_answer_that_was_cut_off_or_does_not_fit_is_not_kept(folder, server, script, asked):
    evaluate(judge(model=script), cache=True)
    (result,) = evaluate(judge(model=script), cache=True)
    assert len(server.seen) == asked
    assert not result.results.get("metadata", {}).get("cached", False)
