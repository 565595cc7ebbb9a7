"""The invariant `eval-summary-no-content-leak` (RFC 0081 §F), and that an eval calls nobody but those it names."""

import asyncio
import json
import sqlite3
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from assay.agenteval.results.report import report_of
from assay.agenteval.scoring.safety_records import read_records
from assay.errors import EvalRefused, ForeignFault, InvalidRequest
from assay.ports.agents import ToolFailure
from assay.protocol.agents import InvocationResult, ToolSpec
from support.canaries import Canaries, record_telemetry
from support.evals import FunctionAgent, eval_host, golden, resume_run, rubric, suite_of
from support.waiting import PATIENCE

FREE = ("eval.", "agent.invocation.", "memory.written", "run.", "provider.usage", "cap.", "assay.")


class Tools:
    def __init__(self, canary):
        self._canary = canary

    def static_specs(self, tools):
        return [ToolSpec(id=tool, description=self._canary("a tool's description")) for tool in tools]

    async def specs(self, tools):
        return self.static_specs(tools)

    async def call(self, tool, arguments):
        if arguments.get("n") == 2:
            raise ToolFailure("tool_error", self._canary("a live tool's error"))
        return self._canary("a live tool's answer")

    async def close(self): ...


def suite_with(canary) -> dict[str, Any]:
    fixtures = {
        "toolResponses": [
            {
                "tool": "shop:orders",
                "response": {canary("a fixture's key"): canary("a fixture's answer"), "order": "{{canary}}"},
            }
        ],
        "memorySeed": [{"id": "m1", "content": canary("a memory"), "tags": [canary("a memory's tag")]}],
    }
    return suite_of(
        golden("right", canary("the right answer"), {"q": canary("an input")}, fixtures=fixtures),
        golden("wrong", canary("another right answer"), {canary("an input's key"): 1}, "contains", fixtures=fixtures),
        golden("raises", 1, {"raise": canary("an input that raises")}),
        rubric("judged", (canary("a criterion"), 0.5), (canary("another criterion"), 0.5), input=canary("a text")),
        modes=["golden", "rubric", "adversarial", "regression", "live-shadow"],
    )  # fmt: skip


def agent_with(canary, *, away=False):
    async def agent(task, scene):
        scene.reason(canary("a reasoning"))
        await scene.memory.write(canary("a memory that was written"), tags=[canary("a tag that was written")])
        if scene.task_id == "raises":
            if away:
                raise ForeignFault(canary("why it could not be asked"))
            raise ValueError(canary("an agent's error"))
        for n in (1, 2):
            with suppress(ToolFailure):
                await scene.tool("shop:orders", n=n, more=canary("a tool's argument"))
            with suppress(ToolFailure):
                await scene.tool(
                    canary("a tool that is not allowed"),
                    **{canary("its argument's name"): canary("its argument")},
                )
        scene.usage(provider="p", model="m", input_tokens=1, output_tokens=1, cost_usd=0.5)
        result = canary("the right answer") if scene.task_id == "right" else canary("an output")
        return InvocationResult(outcome="completed", result=result, confidence=0.5)

    return FunctionAgent(agent, tools=("shop:orders",))


def judge_with(canary):
    def answer(ask):
        reason = canary("a judge's reason")
        if "kind" in ask.schema["properties"]:  # the safety judge
            gives = {"refused": False, "specific": False, "useful": False}
            return {"reason": reason, **gives, "found": True, "kind": "pii-leak", "severity": "low"}
        return {f"criterion_{at}": {"reason": reason, "met": at == 1} for at in (1, 2)}

    return answer


@pytest.mark.parametrize(
    "mode", ["golden", "rubric", "adversarial", "safety-judge", "regression", "live-shadow", "unmeasured"]
)
def test_eval_summary_no_content_leak(mode, tmp_path, capfd):
    canary, database = Canaries(), tmp_path / "runs.db"
    planted: list[str] = []  # of the mode itself

    async def main():
        agent = agent_with(canary, away=mode == "unmeasured")
        async with eval_host(
            agent,
            f"sqlite:///{database}",
            judge=judge_with(canary),
            tools=Tools(canary),
            policy={"judge": True} if mode == "safety-judge" else None,
        ) as hosted:
            suite, asked = suite_with(canary), {"modes": (mode,)}
            if mode == "safety-judge":
                asked["modes"] = ("adversarial",)
            if mode == "regression":
                asked["baseline_run_id"] = (await hosted.run(suite, modes=("golden", "rubric"))).id
            if mode == "unmeasured":
                asked["modes"] = ("golden",)
            run = await hosted.run(suite, trials=2, **asked)
            if mode == "unmeasured":
                run = await resume_run(hosted, run)
            events = await hosted.events(run)
            free = [event for event in events if event["type"].startswith(FREE)]
            report = msgspec.json.encode(await report_of(hosted.store, run)).decode()
            summary = msgspec.json.encode(await hosted.service.summary(run)).decode()
            records = [one async for one in read_records(hosted.store, run.id)]
            planted.extend(one.canary for one in records if one.canary)
            whole = json.dumps([events, await hosted.results(run), msgspec.to_builtins(records)])
            return run.status, json.dumps(free), report, summary, whole

    with record_telemetry() as seen:
        status, content_free, report, summary, whole = asyncio.run(main())
    assert status == ("failed" if mode == "unmeasured" else "completed")
    found = canary.found_in(whole)
    assert len(found) >= 7, f"they were planted, and the owner sees them: {found}"
    is_attack = mode in ("adversarial", "safety-judge")
    assert len(planted) == (4 if is_attack else 0)
    if mode == "safety-judge":
        assert "a judge's reason" in found, "the reason is evidence"
    with sqlite3.connect(database) as raw:
        tables = {
            name: [str(row) for row in raw.execute(f"SELECT * FROM {name}")] for name in ("events", "runs")
        }
    raw.close()
    assert len(tables["events"]) > 10
    places = {
        "the content-free events": content_free,
        "the report": report,
        "the summary": summary,
        "logs, metrics and traces": "".join(seen),
        "standard output and error": "".join(capfd.readouterr()),
        "the table of events": "\n".join(tables["events"]),
        "the table of runs": "\n".join(tables["runs"]),
    }
    assert {place: canary.found_in(text) for place, text in places.items()} == {
        place: set() for place in places
    }
    assert not [(place, one) for place, text in places.items() for one in planted if one in text]
    assert ("safetyFindings" in summary) is is_attack


def test_a_refusal_holds_no_content():
    canary = Canaries()

    async def main():
        schema = {"type": "object", "properties": {"q": {"type": "integer"}}}
        card = {"tools": ("shop:orders",), "task_schema": schema}
        async with eval_host(FunctionAgent(lambda task: task, **card), judge=judge_with(canary)) as hosted:
            suite = suite_with(canary)
            bad = suite | {"tasks": [{**suite["tasks"][0], "expected": {"kind": "vibes"}}, suite["tasks"][1]]}
            for refused, what, asked in (
                (EvalRefused, suite, {}),
                (InvalidRequest, bad, {}),
                (EvalRefused, suite, {"baseline_run_id": "x", "modes": ("regression",)}),
            ):
                with pytest.raises(refused) as refusal:
                    await hosted.run(what, **({"modes": ("golden",)} | asked))
                yield str(refusal.value) + json.dumps(refusal.value.details)

    async def all_of():
        return [text async for text in main()]

    texts = asyncio.run(all_of())
    assert len(texts) == 3
    assert "vibes" in texts[1]  # a refusal says what came where only certain words may stand
    assert canary.found_in("\n".join(texts)) == set()


# who is spoken to


class Served:
    """A server on loopback that counts who came."""

    def __init__(self, answer):
        came = self.came = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                came.append(body)
                text = json.dumps(answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format, *args): ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def answering(body):
    """The agent: it calls its tool, and returns its answer."""
    import urllib.request

    frame = json.dumps({"type": "tool", "tool": "shop:orders", "arguments": {}}).encode()
    asked = urllib.request.Request(body["callback"], frame, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        return {"result": json.loads(answer.read())["result"]}


def judging(body):
    reply = json.dumps({"reasoning": "x", "criterion_1": {"reason": "fine", "met": True}})
    message = {"role": "assistant", "content": reply}
    return {"id": "x", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}  # fmt: skip


@pytest.mark.parametrize("mode", ["golden", "rubric", "adversarial", "regression", "live-shadow"])
def test_an_eval_calls_only_the_agent_its_model_and_the_judge(zygote, mode, tmp_path):
    agent, judge, tool = Served(answering), Served(judging), Served(lambda body: "live")
    try:
        (tmp_path / "assay.toml").write_text(
            f'models = {{judge = "here:m"}}\n'
            f'[providers.here]\nbase_url = "http://127.0.0.1:{judge.port}/v1"\napi_key = "k"\nprices = {{input = 1, output = 1}}\n'
            f'[agents."local.shop.bot"]\nkind = "http"\ntarget = "http://127.0.0.1:{agent.port}/"\ntools = ["shop:orders"]\n'
            f'[tools."shop:orders"]\nkind = "http"\ntarget = "http://127.0.0.1:{tool.port}/"\n'
        )  # fmt: skip
        fixtures = {"toolResponses": [{"tool": "shop:orders", "response": "fixed"}]}
        task = (
            golden("a", "fixed", fixtures=fixtures)
            if mode != "rubric"
            else rubric("a", ("x", 1), fixtures=fixtures)
        )
        (tmp_path / "suite.json").write_text(json.dumps(suite_of(task, modes=[mode])))
        options = ["--agent", "local.shop.bot"]

        def run(suite):
            process = zygote.start(
                "run", suite, *options, folder=tmp_path, target="support.commands.connections:work"
            )
            output = process.communicate()
            return process.returncode, "".join(output)

        if mode == "regression":  # against what golden tasks came to before
            (tmp_path / "first.json").write_text(json.dumps(suite_of(task, modes=["golden"])))
            code, stderr = run("first.json")
            assert code == 0, stderr
            tool.came.clear()
            options += ["--baseline", "latest", "--force"]  # the modes of the suite changed
        code, stderr = run("suite.json")
        assert code == (3 if mode == "live-shadow" else 0), stderr
        connected = {port for _, port in json.loads((tmp_path / "connected.json").read_text())}
        expected = {
            "golden": {agent.port},
            "adversarial": {agent.port},
            "regression": {agent.port},
            "rubric": {agent.port, judge.port},
            "live-shadow": {agent.port, tool.port},
        }
        assert connected == expected[mode]
        assert bool(tool.came) is (mode == "live-shadow")
    finally:
        for server in (agent, judge, tool):
            server.close()
